"""The schema registry in a metadata store."""
