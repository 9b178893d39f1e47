"""Every bound in the system, named with its unit. Each says what it protects."""

KIB = 1024
MIB = 1024 * KIB

# Names
NAME_BYTES_MAX = 255
"""Of one name part in UTF-8, so that every name fits a file name and a metadata key."""

# Messages and batches
CLIENT_RECEIVE_BYTES_MAX = 4 * MIB
"""What all four official clients accept in one gRPC message."""
MESSAGE_BYTES_MAX = CLIENT_RECEIVE_BYTES_MAX - 4 * KIB
"""Of an encoded message as sent; the rest is room for what the broker stamps on delivery."""
BATCH_BYTES_MAX = 8 * MIB
"""Of one record batch body."""
BATCH_RECORDS_MAX = 65_536
"""Records in one batch: bounds the index a reader builds for it."""

# Carrier
RPC_RECEIVE_BYTES_MAX = 16 * MIB
"""Largest request taken off the wire; between this and MESSAGE_BYTES_MAX the handler refuses with a clear error."""
RPC_METADATA_BYTES_MAX = 16 * KIB
"""Of one call's metadata."""
RPC_CONCURRENT_CALLS_MAX = 10_000
"""Calls and streams under way on one port."""
STREAM_QUEUE_BYTES_MAX = 1 * MIB
"""Written to one stream and not yet taken by its transport."""
STREAM_QUEUE_MESSAGES_MAX = 1_000
"""The same, in messages."""
STREAM_INBOUND_MESSAGES_MAX = 16
"""Received on one stream and not yet taken by its handler."""

# Journal
JOURNAL_FILE_BYTES_MAX = 128 * MIB
"""A round that would pass it goes into a new file."""
JOURNAL_ROUND_BYTES_MAX = 8 * MIB
"""Gathered into one write and one sync; one batch larger than this is a round of its own."""
JOURNAL_BACKLOG_BYTES_MAX = 64 * MIB
"""Accepted and not yet written; past it publishes are refused as overloaded."""
CACHE_BYTES_MAX = 64 * MIB
"""Recent batches kept in memory, all topics together."""
READ_BYTES_MAX = 1 * MIB
"""One read for dispatch."""
CURSOR_RANGES_MAX = 4_096
"""Acknowledged ranges above the contiguous part that one cursor record keeps; the rest would be redelivered."""
CURSOR_INTERVAL_S = 0.2
"""A changed cursor is written at most this much later."""
IDLE_MARK_DELAY_S = 0.05
"""An idle journal says in an empty round that its last round is synced, this long after it."""

# Subscriptions and sessions
UNACKED_MESSAGES_DEFAULT = 10
"""Sent to one consumer and not yet acknowledged, when nothing is set; the original's default window."""
UNACKED_MESSAGES_MAX = 10_000
"""The largest window that may be set."""
ACK_TIMEOUT_S = 30.0
"""A message unacknowledged for this long is sent again."""
REDELIVERY_DELAY_BASE_S = 1.0
REDELIVERY_DELAY_MAX_S = 60.0
CONSUMERS_PER_SUBSCRIPTION_MAX = 10_000
SUBSCRIPTIONS_PER_TOPIC_MAX = 10_000
PRODUCERS_PER_TOPIC_MAX = 100_000
TOPICS_PER_BROKER_MAX = 100_000
PARTITIONS_MAX = 1_024
ATTACH_GRACE_S = 30.0
"""A consumer that subscribed counts as connected for this long before its stream opens."""
CONSUMER_FORGET_S = 3_600.0
"""A consumer without a stream is forgotten after this long; its subscription stays."""
RECEIVE_FAILURE_DELAY_S = 0.5
"""A failing ReceiveMessages is answered this late: official clients open it again at once, without a pause."""
NON_RELIABLE_QUEUE_MESSAGES_MAX = 1_000
"""Queued for one consumer of a non-reliable topic; what does not fit is dropped."""

# Process
DRAIN_TIMEOUT_S = 10.0
"""From SIGTERM to the end, at most."""
CONNECT_TIMEOUT_S = 5.0
CALL_TIMEOUT_S = 30.0
