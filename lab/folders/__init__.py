"""Folders."""
