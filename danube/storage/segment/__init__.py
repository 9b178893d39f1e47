"""Segments: the sealed, immutable history of a topic, and the manifest that lists it."""
