"""Flush."""
