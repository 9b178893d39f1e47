"""A simulated Raft group."""
