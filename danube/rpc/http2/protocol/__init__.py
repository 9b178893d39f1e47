"""HTTP/2 and gRPC as pure state machines: bytes in, events out, bytes to write out."""
