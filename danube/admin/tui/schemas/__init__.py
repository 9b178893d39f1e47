"""Screens of the schema registry: subjects, versions, and what changed between two of them."""
