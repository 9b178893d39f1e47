"""Records of the metadata: their keys, their JSON, and typed access to them."""
