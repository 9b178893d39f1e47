"""Grpc."""
