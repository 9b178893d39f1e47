"""The async client library."""
