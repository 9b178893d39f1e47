"""Copies of a metadata store, and their format."""
