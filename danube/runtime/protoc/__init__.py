"""Protobuf's compiler, in a process of its own."""
