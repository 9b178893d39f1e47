"""Metadata store of a standalone broker."""
