"""The bounds of connectors. Each says what it protects."""

CONNECT_BATCH_RECORDS_DEFAULT = 1_000
"""Records of one batch, where the file says nothing: the original's number."""
CONNECT_BATCH_RECORDS_MAX = 100_000
"""The same, whatever the file says."""
CONNECT_BATCH_LINGER_MS = 1_000
"""A batch that is not full goes out this long after its first record: the original's number."""
CONNECT_PREFETCH_BATCHES = 2
"""Batches that a broker may send ahead of a sink: one is written, one waits."""
CONNECT_RETRIES_DEFAULT = 3
"""Tries of a record that fails for an unknown reason, before it goes to the dead letters."""
CONNECT_RETRY_DELAY_MS = 1_000
CONNECT_RETRY_DELAY_MAX_MS = 30_000
CONNECT_IN_PLACE_S = 10.0
"""A batch is retried in place for this long, well below the acknowledgement timeout; then its partition is given up."""
CONNECT_FAILED_IN_ROW_MAX = 20
"""Records in a row that fail for an unknown reason: more are a fault of the other side, and no dead letters."""
CONNECT_RESTART_DELAY_S = 1.0
"""Before a task begins anew the first time; twice as long each time that it made no progress."""
CONNECT_RESTART_DELAY_MAX_S = 60.0
CONNECT_STANDBY_S = 5.0
"""Between two questions of a task whose place another runner has, or whose topic is not there."""
CONNECT_PARTITIONS_INTERVAL_S = 30.0
"""Between two looks for new partitions of a topic."""
CONNECT_DRAIN_S = 20.0
"""The batches under way at SIGTERM have this long; Kubernetes kills after 30 s."""
CONNECT_CHECK_TIMEOUT_S = 10.0
"""`danube connect check` says that a side is unreachable after this long."""
CONNECT_UNHEALTHY_S = 60.0
"""A task that has failed for this long makes the runner unhealthy."""
CONNECT_CONNECTORS_MAX = 100
"""Connectors of one process."""
CONNECT_ROUTES_MAX = 1_000
"""Routes of one connector."""
CONNECT_FILE_BYTES_MAX = 1_048_576
"""Bytes of a file of connectors, and of a schema that it names."""
CONNECT_REASON_CHARS_MAX = 500
"""Characters of a reason in a dead letter, a state or a log line."""
CONNECT_IDLE_S = 1.0
"""Longest wait of a task for records: as soon as this it notices that it is to drain."""
CONNECT_RECONNECT_S = 20.0
"""A task whose broker is away for longer begins anew, and says so."""
CONNECT_SEARCH_RECORDS = 1_000
"""Records at the end of a topic among which a source looks for its own; ten times as many each time it finds none."""
WEBHOOK_REQUESTS_MAX = 1_000
"""Requests of a webhook source at one time; beyond it the answer is 503."""
WEBHOOK_BODY_BYTES_DEFAULT = 1_048_576
"""The original's number."""
WEBHOOK_ADDRESSES_MAX = 10_000
"""Addresses whose rates are counted; the one that was quiet longest is forgotten."""
WEBHOOK_IDS_MAX = 100_000
"""Ids of requests that are remembered for each route, the newest."""
WEBHOOK_SIGNATURE_AGE_S = 300.0
"""A signature is refused that was made longer ago, or so much ahead: Standard Webhooks and Stripe say five minutes."""
WEBHOOK_HEADER_CHARS_MAX = 1_000
"""Characters of a header that becomes a key, an id or an attribute."""
WEBHOOK_DRAIN_S = 10.0
"""Requests under way have this long when a webhook source ends."""
WEBHOOK_IN_FLIGHT_MAX = 64
"""Requests of a webhook sink at one time, each of another key."""
WEBHOOK_RETRY_AFTER_MAX_S = 600.0
"""Longest Retry-After that is followed."""
