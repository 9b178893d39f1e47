"""The schema registry of a broker, and validation on publish."""
