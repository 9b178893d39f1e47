"""Data folder."""
