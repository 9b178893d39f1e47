"""Webhooks in: an HTTP server whose requests become records."""
