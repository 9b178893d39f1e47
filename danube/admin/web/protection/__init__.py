"""Protection."""
