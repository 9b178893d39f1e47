"""Calls within one process."""
