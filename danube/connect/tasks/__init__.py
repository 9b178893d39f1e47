"""Tasks: one for each partition of a sink's topics, one for each source."""
