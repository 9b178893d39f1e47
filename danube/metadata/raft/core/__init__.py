"""pysyncobj's Raft core, and what of it is replaced."""
