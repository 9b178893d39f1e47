"""Bounds of the metadata and its tools, each with its unit and its reason."""

MIB = 1024 * 1024

METADATA_BACKUP_ORIGIN_BYTES_MAX = 64 * 1024
"""Of what a backup says of itself: a place, and members of a Raft group."""
METADATA_BACKUP_BYTES_MAX = 1_025 * MIB
"""Of a backup, which is held in memory: the largest image, and what stands before it."""
METADATA_TOPIC_IDS_SKIPPED = 100_000
"""By a restore: topics may have been made after the backup was taken, and what is stored under their ids is theirs."""
METADATA_KEYS_SHOWN_MAX = 500
"""Rows of keys in a table; JSON and YAML hold all of them."""
METADATA_VALUE_CHARS_SHOWN_MAX = 200
"""Of a value in a table, after which it is cut."""
