"""Handshake."""
