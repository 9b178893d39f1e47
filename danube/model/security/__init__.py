"""Identities, what they are allowed, and what proves them."""
