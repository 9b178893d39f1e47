"""Replicated state: one sequence of changes, applied by each broker to its copy."""
