"""Records of security in the metadata store."""
