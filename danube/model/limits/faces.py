"""The bounds of commands, HTTP ports, danube-admin's faces and analytics. Each says what it protects."""

from danube.model.limits.broker import KIB, MIB

# Web server of danube-admin
WEB_BODY_BYTES_MAX = 64 * KIB
"""Bytes of one request; the longest arguments that an operation takes fit several times."""
WEB_ROWS_DEFAULT = 100
"""Rows of one page, when nothing is asked for."""
WEB_ROWS_MAX = 1_000
"""The same, whatever is asked for: an answer stays in the megabytes."""
WEB_REQUESTS_MAX = 100
"""Requests at one time; beyond it the answer is 503, but for probes."""
WEB_CALL_TIMEOUT_S = 30.0
"""Time of one request, whatever it asks of the cluster."""
WEB_PROBE_TIMEOUT_S = 1.0
"""A page says that the broker is away after this long, and so does /readyz."""
WEB_SESSIONS_MAX = 1_000
"""People logged in at one time; the one who came first goes."""
WEB_SESSION_TTL_S = 12 * 3_600.0
"""A person logs in again after this long."""
WEB_SESSION_IDLE_S = 3_600.0
"""The same, without a request."""
WEB_PROOF_S = 60.0
"""Seconds for which a token of the cluster that it has accepted is not asked about again; the broker still judges each
call."""
MCP_PROOF_TIMEOUT_S = 10.0
"""A token that the broker has not proved after this long opens no session."""
WEB_LOGIN_FAILURES_MAX = 5
"""Wrong tokens of one address within WEB_LOGIN_WINDOW_S; then it is not listened to, whatever it sends."""
WEB_LOGIN_WINDOW_S = 60.0
WEB_LOGIN_ADDRESSES_MAX = 1_024
"""Addresses whose wrong tokens are remembered; the one who failed first is forgotten."""
WEB_TOKEN_CHARS_MIN = 16
"""Shorter ones can be guessed."""
WEB_TOKEN_CHARS_MAX = 4 * KIB
WEB_TOKENS_MAX = 100
"""Tokens of one file."""
WEB_TOKEN_FILE_BYTES_MAX = 64 * KIB
WEB_DRAIN_TIMEOUT_S = 2.0
"""Requests under way have this long to end when the server is stopped."""
WEB_LIVE_EVERY_S = 3.0
"""Between two looks of a page that refreshes itself."""
WEB_SHARED_S = 2.0
"""Tabs of the overview share what was read so long ago: less than WEB_LIVE_EVERY_S, so that each refresh is new."""
WEB_SHARED_READS_MAX = 1_000
"""Reads that are shared at one time; beyond it each page asks for itself."""
WEB_LIVE_S_MAX = 600.0
"""A stream of refreshes ends after this long; the browser opens another one."""
WEB_LIVE_STREAMS_MAX = 32
"""Pages that refresh themselves at one time; one more stands still."""
WEB_LIVE_BYTES_MAX = 2 * MIB
"""A larger page is not sent again and again."""
WEB_RESULTS_MAX = 500
"""Results of forms that wait to be shown after the redirect; the oldest goes."""
WEB_RESULT_TTL_S = 600.0
"""Time that such a result can be shown again."""
WEB_NAMES_MAX = 500
"""Names of one pick list."""
WEB_SEARCH_ROWS_MAX = 50
"""Rows of each kind that a search shows; the rest is counted."""
WEB_MESSAGES_PAGE = 25
"""Messages of one page of the message browser."""
WEB_TROUBLES_MAX = 5
"""Groups that the overview names, the worst."""

# History out of telemetry
HISTORY_S = 900.0
"""Span of the charts of lag and rates."""
HISTORY_POINTS = 61
"""Points of one chart: one each 15 s."""
HISTORY_RECORDS_MAX = 50_000
"""Telemetry records that one chart reads, the newest."""

# Terminal UI
TUI_REFRESH_S = 2.0
"""Between two looks at the cluster, when nothing is set."""
TUI_REFRESH_MIN_S = 0.5
TUI_REFRESH_MAX_S = 60.0
TUI_PAGE_TOPICS = 500
"""Topics of one page that the terminal UI asks for: the first page is on the screen before the others are read."""
TUI_PAGES_A_ROUND = 8
"""Pages of topics read in one round; a larger cluster is gone through over several rounds."""
TUI_TOPICS_MAX = 100_000
"""Topics that the terminal UI keeps; those beyond are counted and said."""
TUI_LAG_POINTS = 120
"""Looks at one subscription's lag that are kept: four minutes at TUI_REFRESH_S."""
TUI_LAG_SUBSCRIPTIONS_MAX = 5_000
"""Subscriptions whose lag is kept over time, those of the topic on the screen always among them."""
TUI_LAG_READ_S = 5.0
"""Between two looks at the lag of all groups, however often the screen is refreshed: each reads LAG_HISTORY_S."""
TUI_MESSAGES_PAGE = 50
"""Messages of one page of the terminal UI's message browser."""
TUI_PLANS_MAX = 1_000
"""Plans that the terminal UI shows, those that wait first."""
TUI_AUDIT_RECORDS_MAX = 500
"""Records of the audit log that the terminal UI shows, the newest."""
TUI_RESULT_ROWS = 200
"""Rows of one page of a listing, where a form sets no limit."""
TUI_SUGGESTIONS_MAX = 10_000
"""Names that one field of a form can complete."""
ADMIN_EACH_SHARE = 0.6
"""Part of the time of a call for each broker where all are asked: whoever waits for the answer waits no longer."""
ENDPOINTS_MAX = 16
"""Addresses of one cluster that are asked in turn."""
BROKER_NAMES_MAX = 4_096
"""Names of brokers that a process remembers."""
TUI_CALL_TIMEOUT_S = 600.0
"""A call that a person made and that has not ended by then is given up."""

# Spark
SPARK_PARTITION_ROWS = 250_000
"""Rows of one slice, when nothing is set: a second of work or less, so that all cores have some."""
SPARK_SINK_BYTES = 8 * MIB
"""Payloads of one group of numbered batches: half of what fits the 64 batches that a broker remembers."""
SPARK_SINK_ROWS = 100_000
"""Rows of one group, for small payloads."""
SPARK_OPTION_CHARS_MAX = 256 * KIB
"""Characters of one option: offsets of PARTITIONS_MAX partitions with the longest names would fit."""
SPARK_RETRY_TOTAL_S = 60.0
"""A read that has lost its broker tries for this long, when nothing is set; then Spark decides about the task."""

# Analytics
LAG_HISTORY_S = 180.0
"""Span of telemetry that a live answer reads: 20 looks, a full round to fill the oldest of them, and a little more."""
LAG_LIVE_RECORDS_MAX = 50_000
"""Telemetry records that one live answer reads, the newest; with more, what was told before them is not known."""
LAG_LIVE_SLICE_RECORDS = 500
"""Records decoded before others get their turn: some 10 ms."""
LAG_LIVE_SLICE_JUDGED = 20
"""The same of subscriptions that are judged."""
LAG_LIVE_PAGES_MAX = 20
"""Pages of topics that one live answer reads."""
LAG_NUMBER_END = 2**48
"""No time, offset or count in telemetry is as large; what is was not written by a broker, and sums of it overflow."""
LAG_GROUPS_DEFAULT = 20
"""Groups of one page of lag, when nothing is asked for: they fit an assistant's answer."""
LAG_GROUPS_MAX = 1_000
"""The same, whatever is asked for."""
LAG_EVIDENCE_SHOWN = 10
"""Groups whose evidence stands below the table."""
LAG_PARTITIONS_SHOWN_MAX = 200
"""Partitions beside a page of groups; the rest is counted, and a narrower question shows them."""
ANALYTICS_FRESH_S = 120.0
"""A finished result that is older is not taken for the present."""
ANALYTICS_RUN_S_MAX = 1_800.0
"""A job that takes longer is ended, by itself and by whoever started it."""
ANALYTICS_RUN_GRACE_S = 30.0
"""A job that did not end itself by then is killed, and one that said nothing is taken for lost."""
ANALYTICS_RUNS_MAX = 2
"""Jobs that one process has under way: each is a Spark of its own."""
ANALYTICS_ENDED_JOBS_MAX = 16
"""Jobs that have ended and whose last words are kept."""
ANALYTICS_RUNS_SHOWN_MAX = 20
"""Runs that one answer lists, the newest."""
ANALYTICS_SINCE_S_DEFAULT = 900
"""Default span of telemetry that a job reads."""
ANALYTICS_SINCE_S_MAX = 30 * 24 * 3_600
"""The same, whatever is asked for."""
ANALYTICS_START_S_MAX = 30.0
"""A job that has not told of its start by then is not waited for any longer."""
ANALYTICS_POLL_S = 0.5
"""Between two looks at a run that is waited for."""
ANALYTICS_WAIT_S_MAX = 600.0
"""That a caller may wait for a run."""
ANALYTICS_PART_ROWS_MAX = 200
"""Rows of one record of a result: with the longest names it stays far below MESSAGE_BYTES_MAX."""
ANALYTICS_ROWS_MAX = 20_000
"""Partitions, and groups, that one result holds, the worst; the rest is counted."""
ANALYTICS_KEEP_S = 7 * 24 * 3_600.0
"""Results that are older are not looked for."""
ANALYTICS_RECORDS_MAX = 2_000
"""Records of the results topic that one look reads, the newest: nine of the largest results, and many small ones."""
ANALYTICS_RUN_ID_CHARS_MAX = 64
ANALYTICS_DETAIL_CHARS_MAX = 1_000
"""Characters of the sentence with which a run failed."""
SCHEDULES_MAX = 200
"""Schedules of one cluster."""
SCHEDULE_EVERY_S_MIN = 60
"""Between two runs of a schedule: a job takes half a minute."""
SCHEDULE_EVERY_S_MAX = 31 * 86_400
SCHEDULE_ARGUMENTS_MAX = 2_000
"""Characters of the flags of one schedule."""
SCHEDULE_MADE_UP_MAX = 100
"""Missed runs of one schedule that are made up, the newest."""
SCHEDULE_LEASE_S = 30.0
"""A runner of schedules that has not renewed its lease for so long has lost it."""
ANALYTICS_TABLE_ROWS = 20
"""Rows of one table of a result that an answer shows."""
ANALYTICS_TEXT_CHARS = 300
"""Characters of one value of such a row."""
ANALYTICS_LOG_BYTES = 4 * KIB
"""Read from the end of what a job said, to show why it ended."""

# MCP
MCP_ANSWER_BYTES_MAX = 24 * KIB
"""Bytes of one answer, structured and text together: some six thousand tokens of an assistant's attention."""
MCP_LIST_BYTES_MAX = 64 * KIB
"""Bytes of all tools together, which an assistant reads before its first call; `docs/mcp` says what they take."""
MCP_FULL_LIST_BYTES_MAX = 96 * KIB
"""Bytes of the tools of all toolsets together, for a server that is told to list them all."""
MCP_PROGRESS_HALF_S = 60.0
"""Work that stands still for so long is told as half a step further: progress increases with each notification."""
MCP_ROWS_DEFAULT = 50
"""Rows of a page that an assistant asks for without a limit."""
MCP_ERROR_CHARS_MAX = 2_000
"""Characters of the sentence of one error."""
MCP_CALLS_MAX = 64
"""Tool calls carried out at one time; one more is refused with a word."""
MCP_CALL_TIMEOUT_S = 120.0
"""One tool call, without the time that a person is asked."""
MCP_FOLLOW_S = 90.0
"""An assistant's call waits so long for the end of a rebalance, and tells its progress; then the rebalance goes on."""
CLI_FOLLOW_S = 3_600.0
"""The same of a command, which a person can interrupt."""
REBALANCE_LOOK_S = 0.5
"""Pause between two looks at a rebalance that is followed."""
MCP_ASK_TIMEOUT_S = 600.0
"""A person who does not answer by then could not be asked; the plan waits on."""
MCP_COMPLETIONS_MAX = 100
"""Values of one completion: what the protocol allows."""
MCP_COMPLETION_TIMEOUT_S = 5.0
"""A completion that takes longer is of no use to whoever types."""
MCP_MESSAGE_BYTES_MAX = 4 * MIB
"""One JSON-RPC message from a host, on stdio and over HTTP."""
MCP_SESSIONS_MAX = 1_000
"""Open HTTP sessions of the protocol's older era."""
MCP_REQUESTS_MAX = 2 * MCP_SESSIONS_MAX
"""Requests over HTTP at one time: of each session one that waits for news, and a call."""
MCP_SESSION_IDLE_S = 1_800.0
"""Such a session is forgotten after this long without a call."""
MCP_NOTES_MAX = 64
"""Records of reads on their way to the audit log while their answers are out already; at this many one waits."""
MCP_NOTES_DELAY_S = 0.05
"""Wait of the first of them for others to go along with it."""
MCP_NOTES_DRAIN_S = 2.0
"""Wait of a server that ends for those records."""
MCP_DRAIN_S = 2.0
"""From Ctrl-C to the end of the HTTP server, for calls that run."""
MCP_TOKEN_CHARS_MIN = 16
"""Characters of a bearer token that somebody chose."""
MCP_LIST_CACHE_MS = 60_000
"""A host may keep the list of tools for this long: it changes only when the server is started anew."""

# Command line
CLI_READ_BYTES = 64 * KIB
"""One read of a file or of standard input."""
CLI_AT_END_IDLE_S = 3.0
"""Silence after which `consume --exit-at-end` takes a subscription to have read everything."""
CLI_WRITE_MESSAGES_MAX = 100
"""Written to standard output at once, and acknowledged after that."""
CLI_CONNECT_TIMEOUT_S = 5.0
"""A command that never reached its broker says so after this long."""
CLI_RETRY_TOTAL_S = 60.0
"""A command that has lost its broker tries for this long."""
CLI_DRAWN_ROWS_MAX = 500
"""Rows of a table that is drawn to fit a terminal; with more it is plain text, which takes a hundredth of the time."""
CURSOR_CHARS_MAX = 8_000
"""Of a cursor: it holds the key of a row, which may be a series with the names of its topic and subscription."""
CLI_WATCH_MIN_S = 1.0
"""Between two looks of `--watch`: each is a call to the broker, and a record of its audit log."""
CLI_COMPLETION_TIMEOUT_S = 1.0
"""For the names that a shell offers: whoever pressed a key does not wait longer."""
CLI_COMPLETIONS_MAX = 200
"""Names that a shell is offered at once."""
CLI_ANSWER_CHARS_MAX = 1_000
"""Characters of a line that a person types in answer to a question."""

# HTTP ports
METRICS_REQUESTS_MAX = 100
"""Requests of the metrics port at one time; beyond it the answer is 503, but for probes."""
METRICS_DRAIN_S = 1.0
"""Requests of the metrics port that are under way have this long to end when the broker stops."""
HTTP_REQUEST_TIMEOUT_S = 20.0
"""An HTTP connection is ended when a request is not whole after this long, or an answer stands still for so long."""
HTTP_CONNECTIONS_SPARE = 16
"""Connections of an HTTP port beyond its requests at one time: for probes. One more ends the oldest idle one."""
NAMESPACES_NAMED_MAX = 100
"""Namespaces that one call names."""

# Of `danube bench --compare`.

COMPARE_IDLE_S = 60.0
"""Silence after which messages that a broker owes count as lost; longest wait for one of its answers."""
COMPARE_POLL_S = 1.0
"""Longest wait of one question for messages."""
COMPARE_IN_FLIGHT = 1_000
"""Publishes to NATS that are not acknowledged."""
COMPARE_PIPELINE = 256
"""Commands to Redis that are not answered, and messages of one answer."""
COMPARE_PULLED = 500
"""Messages that one question to NATS or Kafka asks for."""
COMPARE_ROUNDS = 5
"""Runs of each broker, in turns."""
COMPARE_RATE = 1_000
"""Messages a second, where latency is measured."""
COMPARE_LATENCY_MESSAGES_MAX = 3_000

# Connectors
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
CONNECT_NAME_CHARS_MAX = 100
"""Of a connector's or a runner's name."""
CONNECT_REPORT_S = 5.0
"""A runner tells the cluster of its tasks, and hears what administrators want, this often."""
CONNECT_LEASE_S = 20.0
"""What a runner told is kept so long."""
CONNECT_TASKS_TOLD_MAX = 200
"""Tasks that a runner tells of, those that do not run first."""
CONNECT_RUNNERS_MAX = 1_000
CONNECT_RUNNERS_OF_ONE_MAX = 100
"""Runners that tell of connectors: of all principals, and of one."""
CONNECT_REPLAY_IDLE_TURNS = 5
"""A replay of dead letters ends after so many times CONNECT_IDLE_S without one."""
POSTGRES_CHUNK_ROWS = 5_000
"""Rows that one query of a snapshot reads."""
POSTGRES_FEEDBACK_S = 10.0
"""A replication stream tells the server this often how far it is; the server waits for 60 s."""
POSTGRES_SLOT_LAG_BYTES = 1_000_000_000
"""A slot that holds more of the server's log is warned of."""
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

# Of `danube-admin doctor`, which judges a machine by them.

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
