"""Shared log."""
