"""Bounds by which `danube-admin doctor` judges a machine."""

OPEN_FILES_MIN = 65_536
"""Each client has a connection, and each open topic some files."""
OPEN_FILES_CRITICAL = 4_096
"""A thousand clients and topics are no more than a test."""
MEMORY_AVAILABLE_MIN_BYTES = 1 << 30
"""Caches and streams take 320 MiB by default, Python and its libraries 100; the rest is room for load."""
DISK_FREE_MIN_BYTES = 5 << 30
"""Journals keep 128 MiB a file, segments are written beside them, and at 1 GiB the log begins to warn."""
SYNC_TRIES = 32
"""Syncs that are measured, of SYNC_BYTES each."""
SYNC_BYTES = 4_096
"""A round of few small messages."""
SYNC_REAL_MIN_S = 0.000_02
"""Below it nothing has left for a disk: an NVMe with power protection takes 30 microseconds and more."""
SYNC_SLOW_S = 0.02
"""A rotating disk."""
SYNC_STALL_S = 0.25
"""As the alert DanubeSyncsSlow."""
VOLATILE_FILE_SYSTEMS = frozenset({"tmpfs", "ramfs"})
"""File systems in memory."""
