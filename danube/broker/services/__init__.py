"""The gRPC edge: decode, call one domain method, encode; nothing else."""
