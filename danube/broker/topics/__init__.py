"""Topics."""
