"""Connectors: none is imported before a file names it."""
