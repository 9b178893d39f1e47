"""Metadata stores in real processes under faults."""
