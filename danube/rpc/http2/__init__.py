"""gRPC over HTTP/2 by an engine of our own."""
