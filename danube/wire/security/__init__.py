"""Messages about security."""
