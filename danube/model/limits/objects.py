"""Bounds of object storage, each with its unit."""

from danube.model.limits.broker import MIB

OBJECT_PART_BYTES = 8 * MIB
"""Of one part of a multipart upload; smaller objects are put whole."""
OBJECT_BYTES_MAX = 128 * MIB
"""Of one object that Danube writes."""
OBJECT_CONNECT_TIMEOUT_S = 5.0
OBJECT_REQUEST_TIMEOUT_S = 15.0
"""Of one request; after it the request counts as unanswered, and is sent again."""
OBJECT_RETRIES_MAX = 6
"""Of one request, the first not counted; less where OBJECT_RETRY_BUDGET_S is over before."""
OBJECT_RETRY_BUDGET_S = 30.0
"""Time that one request may take with all its retries."""
OBJECT_RETRY_BASE_S = 0.1
OBJECT_RETRY_LONGEST_S = 5.0
"""Bounds of the wait before a retry; the wait itself is drawn between nothing and twice the one before."""
OBJECT_ROUND_PATIENCE_S = 3_600.0
"""Time that a round of the journal is sent again and again while the object store does not answer."""
OBJECT_CLOSING_S = 10.0
"""The same, once the broker shuts down."""
OBJECT_OUTAGE_REFUSED_S = 15.0
"""After so long without an answer new messages are refused, with the reason, before the backlog is full."""
OBJECT_SILENT_S = 3.0
"""A request that waits for longer is told as a store that does not answer."""
OBJECT_SMALL_BYTES = 1 * MIB
"""Larger requests may take their time to be sent."""
OBJECT_DELETE_PAGE = 1_000
OBJECT_CACHE_BYTES = 64 * MIB
"""Of segments in memory, read from the object store."""
OBJECT_BLOCK_BYTES = 1 * MIB
"""Of one block of that cache; neighbours that are missing are read with one request."""
OBJECT_READS_AHEAD = 4
"""Requests of read-ahead under way at once."""
OBJECT_READ_BYTES_MAX = 8 * MIB
"""Of one range request."""
BATCH_TIMEOUT_MS = 250
"""Default of `object_store.batch_timeout_ms`."""
BATCH_TIMEOUT_MS_MAX = 60_000
BATCH_BYTES = 4 * MIB
"""A round that has so many bytes does not wait for the timeout."""
JOURNAL_FILE_AGE_OBJECTS_S = 300.0
"""Default of `journal_file_age_s` with the journal in an object store: its small objects become segments by then."""
TAKE_ATTEMPTS_MAX = 1_000
"""Numbers that one attempt to take the next one of a journal tries, while its owner takes them, too."""
TIER_AFTER_S = 3_600.0
"""Default of `object_store.tier_after_s`."""
TIER_SEGMENT_BYTES_MIN = 8 * MIB
"""Smaller segments stay on the disk until merges have made them larger: each object costs a request."""
TIER_PASS_SEGMENTS_MAX = 8
"""Segments moved in one pass; the next pass goes on."""
UPLOAD_LAG_BYTES_MAX = 1 << 30
"""Default of `object_store.upload_lag_bytes_max`."""
METADATA_COPY_DELAY_S = 2.0
"""Longest age of a change of the metadata that is in no copy in the bucket, while copies are quick to make."""
METADATA_COPY_SHARE = 0.02
"""Of the time, at most, is spent on copies."""
METADATA_COPIES_KEPT = 3
