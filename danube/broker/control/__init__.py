"""What admin RPCs do, without gRPC."""
