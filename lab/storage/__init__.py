"""A simulated broker's storage and dispatch."""
