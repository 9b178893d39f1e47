"""Data folder of a broker: identity, scans, and metadata that is older than the folder."""
