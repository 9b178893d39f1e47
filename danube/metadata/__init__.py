"""Metadata that a cluster agrees on: one store protocol, several implementations, one contract suite."""
