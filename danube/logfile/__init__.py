"""Files of write-ahead logs: frames, torn ends and damage, under the journal and under Raft's log."""
