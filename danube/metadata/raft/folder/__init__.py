"""Files of a Raft member: identity, vote, log and snapshots."""
