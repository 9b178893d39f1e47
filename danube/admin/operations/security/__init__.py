"""Security."""
