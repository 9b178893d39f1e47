"""Every bound in the system, named with its unit. Each says what it protects."""

KIB = 1024
MIB = 1024 * KIB

# Names
NAME_BYTES_MAX = 255
"""Bytes of one name part in UTF-8, so that every name fits a file name and a metadata key."""

# JSON of others
JSON_DEPTH_MAX = 64
"""Levels of a JSON value that is read from messages, files or callers: far more than any of ours has."""

# Messages and batches
CLIENT_RECEIVE_BYTES_MAX = 4 * MIB
"""Size of one gRPC message that all four official clients accept."""
MESSAGE_BYTES_MAX = CLIENT_RECEIVE_BYTES_MAX - 4 * KIB
"""Bytes of an encoded message as sent; the rest is room for what the broker stamps on delivery."""
BATCH_BYTES_MAX = 8 * MIB
"""Bytes of one record batch body."""
BATCH_RECORDS_MAX = 65_536
"""Records in one batch: bounds the index a reader builds for it."""

# Carrier
RPC_RECEIVE_BYTES_MAX = 16 * MIB
"""Largest request taken off the wire; between this and MESSAGE_BYTES_MAX the handler refuses with a clear error."""
RPC_METADATA_BYTES_MAX = 16 * KIB
"""Bytes of one call's metadata."""
RPC_CONCURRENT_CALLS_MAX = 10_000
"""Calls and streams under way on one port."""
RPC_REQUESTS_ARRIVING_MAX = 4
"""Requests of one connection and method; each may be as large as RPC_RECEIVE_BYTES_MAX. Others wait for their turn."""
STREAM_MEMORY_BYTES_MAX = 256 * MIB
"""Written to all streams of a broker and not yet taken by their transport."""
STREAM_MEMORY_BYTES_MIN = 16 * MIB
"""The least that may be set: any single message passes."""
STREAM_MEMORY_SHARES = 128
"""One stream may queue this part of what is free: of 256 MiB 600 that stall one after the other leave 2 MiB."""
STREAM_MEMORY_FREED_RATIO = 16
"""Share of the bound that stalled streams free when nothing is left."""
STREAM_MESSAGE_COPIES = 2
"""Copies of a message that is being sent: the carrier's own and gRPC's."""
STREAM_ANSWERS_BYTES_MIN = 64 * KIB
"""One stream that takes batches may always queue so many bytes of acknowledgements."""
STREAM_MEMORY_LOOK_S = 1.0
"""While writers wait for memory, how often stalled streams are looked for."""
STREAM_STALL_S = 10.0
"""A stream that took nothing for so long gives way to writers that wait for memory."""
STREAM_QUEUE_BYTES_MAX = 1 * MIB
"""Written to one stream and not yet taken by its transport."""
STREAM_QUEUE_MESSAGES_MAX = 1_000
"""The same, in messages."""
STREAM_INBOUND_MESSAGES_MAX = 16
"""Received on one stream and not yet taken by its handler."""
STREAM_INBOUND_BYTES_MAX = 1 * MIB
"""The same, in bytes; a message that is being read may pass it. Of a call whose turn to be read has not come no more
arrives; with a quarter of it producers of batches lose a fifth of their rate."""
RPC_STATUS_MESSAGE_CHARS_MAX = 1_000
"""Characters of an error's sentence on the wire, so that it fits every peer's metadata limit."""
RPC_RECONNECT_DELAY_MIN_S = 0.1
"""Before a lost connection is tried again for the first time; gRPC allows no less."""
RPC_RECONNECT_DELAY_MAX_S = 1.0
"""The same, after many failures."""
RPC_KEEPALIVE_S = 20.0
"""Silence after which a peer with calls under way is pinged."""
RPC_KEEPALIVE_TIMEOUT_S = 10.0
"""A peer that does not answer a ping for this long is gone."""

# Journal
JOURNAL_FILE_BYTES_MAX = 128 * MIB
"""A round that would pass it goes into a new file."""
JOURNAL_ROUND_BYTES_MAX = 8 * MIB
"""Gathered into one write and one sync; one batch larger than this is a round of its own."""
JOURNAL_JOIN_TURNS_MAX = 64
"""Turns of the event loop that a round others share waits for more to join it."""
JOURNAL_JOIN_SILENT_TURNS = 8
"""Turns without anybody joining after which it does not wait any longer."""
JOURNAL_BACKLOG_BYTES_MAX = 64 * MIB
"""Accepted and not yet written; past it publishes are refused as overloaded."""
JOURNAL_SYNC_INTERVAL_S = 0.1
"""With durability `interval`: what a power cut may take of what was acknowledged, in time."""
JOURNAL_OPEN_FILES_MAX = 16
"""Journal files kept open for cold reads."""
JOURNAL_INDEX_TOPICS_AT_ONCE = 256
"""Topics of a journal file that is complete whose places are copied before others run: a millisecond."""
JOURNAL_INDEXES_WAITING_MAX = 4
"""Complete journal files that wait for their index; with more, some get none, and the next start reads them whole."""
FENCE_BYTES_MAX = 4 * KIB
"""Bytes of a journal's fence: each of those who take topics over leaves 20 bytes, until there is no more room."""
JOURNAL_READ_ATTEMPTS_MAX = 5
"""Attempts to read another broker's journal whose owner removes files meanwhile."""
CURSOR_RIDE_BYTES_MAX = 4 * KIB
"""Bytes of cursors that go along with a round of data before CURSOR_INTERVAL_S is over."""
CACHE_BYTES_MAX = 64 * MIB
"""Recent batches kept in memory, all topics together."""
READ_BYTES_MAX = 1 * MIB
"""One read for dispatch."""
BATCH_WINDOWS_BYTES_MAX = 64 * MIB
"""Read so and not sent yet, all subscriptions together; what is beyond is read again."""
READ_AHEAD_ANSWERS = 4
"""Read from the files at once for who reads in order: handing work to a thread costs a good part of reading 1 MiB."""
READ_AHEAD_PACE = 128 * MIB
"""Bytes a second: who goes on more slowly, and not because the files are slow, is read for one answer at a time."""
READ_AHEAD_BYTES_MAX = 16 * MIB
"""Read for such readers and not asked for yet, all topics together."""
READ_AHEAD_READERS_MAX = 1_024
"""Places where a reader is expected to go on; more of them are read without looking ahead."""
SYNC_USUAL_S_MIN = 0.005
"""Lower bound of a usual sync of the journal: a sync is not unusually long below a multiple of it."""
SYNC_USUAL_S_MAX = 1.0
"""And at most: what takes longer is no pace that a disk keeps up."""
SYNC_SLOW_RATIO = 4
"""A sync that took so many times what it usually takes found the disk busy, or throttled."""
COLD_READ_REST_RATIO = 10
"""So many times as long as such a sync took no cold read begins: if reads are the cause, it is a tenth of the time."""
COLD_READ_WAIT_S_MAX = 2.0
"""For one read, whatever the syncs do: a replay goes on."""
CURSOR_RANGES_MAX = 4_096
"""Acknowledged ranges above the contiguous part that one cursor record keeps; the rest would be redelivered."""
CURSOR_FAILURES_MAX = 256
"""Ranges of messages that failed equally often which one cursor record keeps, the lowest; the others count from 0 after
a restart. They take 5 KiB."""
CURSOR_INTERVAL_S = 0.2
"""A changed cursor is written at most this much later."""
IDLE_MARK_DELAY_S = 0.05
"""An idle journal says in an empty round that its last round is synced, this long after it."""
IDLE_MARK_FILE_DELAY_S = 1.0
"""And beside its files, this long after it: that takes two syncs more, which a message now and then is not to pay."""
BUSY_MARK_FILE_DELAY_S = 10.0
"""While it is not idle it says so all the same, this long after the last time."""
MARK_RETRY_DELAY_S = 10.0
"""And this long after it could not be said, on a full disk for example: each try costs syncs."""

# Segments
SEGMENT_BYTES_MAX = 32 * MIB
"""Bytes of the bodies in one segment; one batch that is larger is a segment of its own."""
SEGMENT_BLOCK_BYTES = 256 * KIB
"""Batches gathered into one block, envelopes included: what is read, checked and compressed at once. A larger batch is
a block of its own."""
SEGMENT_TAIL_BYTES = 16 * KIB
"""Read from a segment's end to open it: footer and index of SEGMENT_BYTES_MAX in full blocks."""
SEGMENT_INDEX_CACHE_BYTES_MAX = 8 * MIB
"""Indexes of opened segments kept in memory by one reader."""
SEGMENT_READ_AHEAD_BYTES_MAX = 8 * MIB
"""Blocks kept by one reader because a part of them was not asked for yet."""
SEGMENT_READ_BYTES_MAX = 1 * MIB
"""Bytes of one read from a tier; one block that is larger is read whole."""
SEGMENT_READS_AHEAD = 4
"""So many such reads the disk fetches ahead of who reads in order; with one it waits for the reader, and with more the
journal's syncs wait behind it."""
SEGMENT_OPEN_FILES_MAX = 64
"""Segment files kept open by one tier."""

# Manifests and storage records
MANIFEST_SEGMENTS_MAX = 1_048_576
"""Segments of one topic: 32 TiB of them at 32 MiB each, and 52 MiB of manifest."""
MANIFEST_CURSOR_RANGES_MAX = 1_048_576
"""Acknowledged ranges of all subscriptions in one manifest, 16 MiB of them; past it each keeps an equal share."""
MANIFEST_JOURNALS_MAX = 1_000
"""Journals with records of one topic: its owner's, and those of former owners that are not all in segments yet."""
MANIFESTS_AHEAD = 8
"""Manifests that a start asks for at once."""
MANIFEST_EXPECTED_BYTES = 64 * KIB
"""Of each, as a hint: few are larger."""
TOPIC_EPOCHS_MAX = 1_000
"""Owners of one topic that metadata remembers until what they wrote is in segments: 100 KiB of its record."""
STORAGE_POINTERS_MAX = 1_000
"""Topics whose newest manifests are pointed to in one transaction; more take several."""
PLACEHOLDERS_MAX = 16_777_216
"""Lost messages of one topic that a repair fills with placeholders of 4 bytes; past it the log begins behind them."""
PLACEHOLDER_OFFSETS_SKIPPED_MAX = 1_048_576
"""Offsets of a topic that a repair passes over, at most, where it is unknown how many were given out: as many as a
journal file has messages of 100 bytes. They cost 4 MiB of placeholders."""

# Storage
FLUSH_TOPIC_BYTES = 1 * MIB
"""Gathered for each topic before a pass cuts journal files into segments: its syncs are paid by the topic."""
FLUSH_FILES_WAIT_MAX = 8
"""Closed journal files that wait for more to be gathered; with so many, a pass begins."""
FLUSH_WAIT_S = 300.0
"""A closed journal file waits this long for more to be gathered."""
FLUSH_FILES_MAX = 64
"""Journal files that are cut in one pass, when it has fallen behind and their topics are many."""
FLUSH_TOPICS_MAX = 100
"""Topics whose new manifests are named in one transaction of the metadata store."""
FLUSH_UNNAMED_SEGMENTS = 4
"""Segments of the largest size: with so many bytes written a pass has them named before it writes more. Until then
merged segments are on the disk twice; by default this is half of DISK_REFUSE_BYTES."""
FLUSH_DELAY_S = 10.0
"""A journal file that was just closed waits this long for its cut, or until newer data has pushed it out of the cache:
those who read close behind the end keep reading it from memory."""
FLUSH_RETRY_S = 30.0
"""A topic that could not be cut, and a pass that failed, are tried again this much later."""
TAKEOVER_ATTEMPTS_MAX = 8
"""Attempts to take over a topic whose owner names newer manifests meanwhile."""
JOURNALS_LOOK_S = 60.0
"""In a shared folder, how often journals of former owners are looked for that nobody needs any more."""
COLD_READ_ATTEMPTS_MAX = 4
"""Reads of one offset that find their file gone, merged or cut meanwhile, before the reader is told."""
STORAGE_CHECK_INTERVAL_S = 1.0
"""Between two looks at the disk's free space, and at whether there are journal files to cut."""
JOURNAL_FILE_AGE_MIN_S = 60.0
"""A journal file that retention by time waits for is closed at most this often."""
JOURNAL_FILE_DEAD_BYTES = 1 * MIB
"""Bytes of deleted topics in the journal's open file: with so many it is closed within JOURNAL_FILE_AGE_MIN_S."""
JOURNAL_FILE_DEAD_WAIT_S = 3_600.0
"""With fewer, this long after such a file was closed: a flush costs time for each topic, and topics may come and go."""
CLOCK_STEP_MAX_S = 60.0
"""By which wall time may be off from what monotonic time makes of it before retention doubts the clock: more than NTP
corrects without being asked, and less than a retention by time that anybody sets."""
CLOCK_SETTLED_S = 43_200.0
"""After which retention believes a clock that stepped, and went on evenly since: half a day in which somebody can set
it right, and less than a day, so that what happens every day does not begin it anew."""
CLOCK_SETTLED_EXPIRY_S = 600.0
"""The same for message_ttl_s, which deletes nothing and is often short: long enough for a clock that is set right by
itself, as after a suspend or at a start without one."""
CLOCK_CAUGHT_UP_S = 3_600.0
"""The same for retention after a start with a clock behind the newest message, once it is beyond that: the message
bears it out, unless it came while the clock was ahead, and the clock is ahead again."""
CLOCK_AWAY_TOLD_S = 86_400.0
"""At a start the newest message may be this old without a word: brokers rest over night."""
CLAMP_WARNING_INTERVAL_S = 3_600.0
"""Between two warnings that messages are stamped with a time that the clock has not reached."""
SEEN_MARKS_PER_AGE = 16
"""Marks for the arrival of segments stamped ahead of the clock: they outlive their time by a sixteenth."""
DISK_WARN_BYTES = 1024 * MIB
"""Free bytes below which the log says so."""
DISK_REFUSE_BYTES = 256 * MIB
"""Free bytes below which appends are refused: what remains is for cutting the journal, and for the system."""
DISK_RESERVE_BYTES_MAX = 16 * MIB
"""Bytes of the file that is given up to delete something on a full disk."""
DISK_RESERVE_RATIO = 16
"""It is at most this part of the whole disk."""
DISK_PLENTY_BYTES = 8 * DISK_RESERVE_BYTES_MAX
"""Free bytes, as measured a moment ago, above which nobody asks for that file."""
DISK_ROOM_BYTES_MIN = 256 * KIB
"""Free bytes with which a member of the metadata cluster goes on after a full disk."""

# Subscriptions and sessions
UNACKED_MESSAGES_DEFAULT = 10
"""Sent to one consumer and not yet acknowledged, when nothing is set; the original's default window."""
UNACKED_MESSAGES_MAX = 10_000
"""The largest window that may be set."""
ACK_TIMEOUT_S = 30.0
"""A message unacknowledged for this long is sent again."""
REDELIVERY_DELAY_BASE_S = 1.0
REDELIVERY_DELAY_MAX_S = 60.0
REDELIVERY_RANGES_MAX = 4_096
"""Ranges of one subscription that wait to be sent again; at this many it gets nothing new until there are fewer."""
DEAD_LETTERS_AT_ONCE_MAX = 16
"""Dead letters of one subscription on their way to the dead letter topic; the others wait for them."""
DEAD_LETTER_RETRY_S = 1.0
"""At least this long between two tries to copy one message there, whatever the back-off of its subscription."""
FAILURE_REASON_BYTES_MAX = 1_024
"""Bytes of the words with which a consumer refuses a message; what is longer is cut. A dead letter has them as well."""
KEY_SHARED_LOOKAHEAD = 10_000
"""Messages above the lowest open one that a Key-Shared subscription takes up: a stuck key holds up nobody below it."""
KEY_SHARED_GRACE_S = 3.0
"""A Key-Shared consumer that is away keeps its keys for this long, when nothing is set; the original's."""
KEYS_READ_MAX = 1_000
"""Messages whose keys are read at once."""
KEY_CHARS_MAX = 1_024
"""Characters of a key; dispatch goes by the first of a longer one."""
KEY_FILTERS_MAX = 100
"""Key filters of one consumer."""
KEY_FILTER_BYTES_MAX = 256
"""Bytes of one of them."""
KEY_FILTERS_PER_SUBSCRIPTION_MAX = 10_000
"""Key filters of all consumers of one subscription: each new key is matched against all of them."""
KEY_FILTERS_BYTES_PER_SUBSCRIPTION_MAX = 128 * KIB
"""The same, together: a usual key takes some ms then, and none longer than some 50 ms, whatever is in the two."""
KEY_FILTERS_LOOK_BYTES = 128 * KIB
"""Bytes of filters that keys are matched against in one turn: a usual key of as many filters as may be."""
KEY_OWNERS_MAX = 16_384
"""Keys whose consumer is remembered; past it they are looked up anew."""
REDELIVERIES_DEFAULT = 5
"""Default times that a message is sent again before the failure policy decides about it; the original's."""
REDELIVERIES_MAX = 1_000_000
"""The same, whatever is set."""
POLICY_DELAY_MS_MAX = 24 * 3_600 * 1_000
"""Milliseconds of any time in a failure policy: a day."""
POLICY_NUMBER_MAX = 2**32 - 1
"""Largest limit that a policy sets; the range of the original's numbers."""
POLICY_SETS_CACHE_MAX = 1_024
"""Different sets of policies whose outcome is remembered, so that ten thousand topics share a few."""
MESSAGE_TTL_S_MAX = 10 * 365 * 24 * 3_600
"""Seconds; what is older is not passed over by a policy."""
RETENTION_TIME_S_MAX = 100 * 365 * 24 * 3_600
"""Seconds; who wants to keep messages for longer sets no limit."""
RETENTION_BYTES_MAX = 1024 * 1024 * 1024 * MIB
"""Bytes of one topic, a pebibyte: it is a number that every language's JSON holds exactly."""
CONSUMERS_PER_SUBSCRIPTION_MAX = 10_000
SUBSCRIPTIONS_PER_TOPIC_MAX = 10_000
PRODUCERS_PER_TOPIC_MAX = 100_000
TOPICS_PER_BROKER_MAX = 100_000
PARTITIONS_MAX = 1_024
ATTACH_GRACE_S = 30.0
"""A consumer that subscribed counts as connected for this long before its stream opens."""
PUBLISH_DELAY_S_MAX = 1.0
"""A publish above its topic's rate is held up for this long; one that would wait longer is refused as overloaded."""
PUBLISH_DELAYED_BYTES_MAX = 16 * MIB
"""Bytes of the publishes of one topic that are held up."""
RATE_BURST_S = 1.0
"""A topic or subscription that was idle may go on with what its rate allows in this time at once."""
DEAD_LETTER_SOURCES_MAX = 10_000
"""Subscriptions whose dead letters fail, remembered so that each is logged once; past it they are logged anew."""
REMOTE_PUBLISH_CHANNELS_MAX = 64
"""Brokers that one broker is connected to for publishes to their topics."""
DEAD_LETTERS_IN_FLIGHT_MAX = 64
"""Dead letters of one broker that are being published at one time."""
PRODUCER_GONE_S = 30.0
"""A producer without an open stream that was not heard of for this long is not connected: official ones ask for their
health every 5 s. It is still known, and connected again when it sends or asks."""
PRODUCERS_AWAY_PER_TOPIC_MAX = 10_000
"""Producers that are known and not connected; beyond that the one that left longest ago is forgotten."""
SESSION_FORGET_S = 3_600.0
"""A producer not heard of, or a consumer without a stream, is forgotten after this long; subscriptions stay."""
RECEIVE_FAILURE_DELAY_S = 0.5
"""A failing ReceiveMessages is answered this late: official clients open it again at once, without a pause."""
NAME_CONFLICT_WAIT_MAX_S = 30.0
"""A client that comes back for a consumer's name which another client has waits twice as long each time, up to this."""
NAME_CONFLICT_CALM_S = 120.0
"""After this long without such a try the next client takes the name over at once again."""
DRAIN_WAIT_S = 8.0
"""A consumer that is sent away keeps its idle stream for this long at most: it asks for its health every 5 s."""
DRAIN_END_S = 0.2
"""After a consumer was told CLOSE its stream ends this much later: CLOSE has to be there first, and 0.1 s is enough."""
MOVE_WAIT_S = 60.0
"""A topic that was unloaded has its clients here until it is served again, and for this long at most."""
UNLOAD_TIMEOUT_S = 10.0
"""A topic's accepted messages are stored or refused within this time, or the topic stays where it is."""
NON_RELIABLE_QUEUE_MESSAGES_MAX = 1_000
"""Queued for one consumer of a non-reliable topic; what does not fit is dropped."""

NON_RELIABLE_QUEUE_BYTES_MAX = 4 * MIB
"""The same, in bytes."""
NON_RELIABLE_IDLE_S = 60.0
"""A subscription of a non-reliable topic without a consumer goes after this long, as in the original."""
SWEEP_INTERVAL_S = 15.0
"""Interval between two sweeps for unused consumers and subscriptions."""
UNKNOWN_IDS_MAX = 10_000
"""Ids of clients that left or never were, remembered so that each is told to close at most twice."""

# Administration
DESCRIBE_TOPICS_DEFAULT = 100
"""Topics of one page of DescribeTopics, when nothing is asked for."""
DESCRIBE_TOPICS_MAX = 1_000
"""The same, whatever is asked for."""
DESCRIBE_NAMES_MAX = 1_000
"""Topics that one DescribeTopics may name."""
DESCRIBE_LOOKS_MAX = 1_000
"""Subscriptions of one page whose oldest unread message is looked up in a segment; of the others it is not said."""
UNREAD_TIME_WAIT_S = 1.0
"""For one of these looks; then the page goes without the others, before ADMIN_STORE_WAIT_S ends the call."""
DESCRIBE_CONSUMERS_MAX = 100
"""Consumers that are shown of one subscription; the rest is counted."""
DESCRIBE_BYTES_MAX = 1 * MIB
"""Bytes of one page, roughly: a subscription more may pass it, and it stays far below CLIENT_RECEIVE_BYTES_MAX."""

PEEK_MESSAGES_DEFAULT = 10
"""Messages of one look at a topic, when nothing is asked for."""
PEEK_MESSAGES_MAX = 100
"""The same, whatever is asked for."""
PEEK_PAYLOAD_BYTES_MAX = 4 * KIB
"""Bytes of each payload that is shown."""
PEEK_ATTRIBUTES_BYTES_MAX = 4 * KIB
"""Bytes of names and values of one message's attributes that are shown."""
PEEK_BYTES_MAX = 1 * MIB
"""Bytes of one answer, roughly: one message may pass it."""
SKIP_MESSAGES_MAX = 1_000_000
"""That one call may skip; who wants more seeks."""
CONNECTIONS_SHOWN_MAX = 1_000
"""Connections that one answer lists; the rest is counted."""
ADMIN_CALL_TIMEOUT_S = 5.0
"""Default time of one administrator's call; as in the original."""
ADMIN_CALL_TIMEOUT_MAX_S = 600.0
"""The same, whatever is set."""
ADMIN_STORE_WAIT_S = 2.0
"""A call of an administrator waits so long for an object store that does not answer, and then says so."""
ADMIN_STORE_LOOK_S = 0.5
"""Between two looks, after that, of a call that is not answered yet at whether the store answers."""
ADMIN_SYSTEM_READ_BYTES_MAX = 64 * MIB
"""Bytes of stored batches that are read for one look at a system topic; newer ones take the place of older ones."""
CONTEXT_FILE_BYTES_MAX = 1 * MIB
"""A larger file of contexts is none."""
TOKEN_CHARS_MAX = 8_000
"""Characters of a token: it fits RPC_METADATA_BYTES_MAX."""
LOCAL_STATE_BYTES_MAX = 16 * MIB
"""Bytes of the plans kept in a user's state folder."""
LOCAL_LOCK_WAIT_S = 5.0
"""For another command that is writing to the state folder."""
LOCAL_LOCK_POLL_S = 0.02
"""Between two attempts to take its lock."""
LIST_ROWS_MAX = 100_000
"""Rows of one page that may be asked for; a face has smaller bounds of its own."""
PLAN_TTL_S = 900.0
"""A plan that needs no approval is too old after this long."""
PLAN_APPROVAL_TTL_S = 3_600.0
"""The same of one that waits, or waited, for a person."""
PLAN_KEEP_S = 7 * 24 * 3_600.0
"""A plan that was applied, rejected or has expired can be looked at for this long."""
PLANS_MAX = 1_000
"""Kept at one time, those that are over first to go; with so many that wait, none is made."""
PLANS_OPEN_PER_CALLER_MAX = 100
"""Open plans of one caller, waiting or ready, so that no caller fills the room of the others."""
PLAN_NAMES_MAX = 20
"""Topics, and subscriptions, that a plan names; the rest is counted."""
PLAN_READERS_MAX = 5
"""Subscriptions that a plan names for each topic that loses messages they have not read; the rest is counted."""
PLAN_MESSAGES_MARGIN = 100
"""More messages than planned that may be there when a plan is applied, if a tenth is less."""
PLAN_BYTES_MARGIN = 1 * MIB
"""The same of their bytes."""
PLAN_CONSUMERS_MARGIN = 1
"""The same of producers, and of consumers."""
PLAN_ARGUMENTS_BYTES_MAX = 16 * KIB
"""Bytes of a plan's arguments as JSON."""
PLAN_ARGUMENTS_DEPTH_MAX = JSON_DEPTH_MAX // 2
"""Their levels: within the records of plans and of the audit log they can be read again."""
PLANS_PAGE_MAX = 100
"""Plans of one page."""
PLANS_PAGE_BYTES_MAX = 1 * MIB
"""The same, roughly: one plan may pass it, and it stays below CLIENT_RECEIVE_BYTES_MAX."""
CALLER_CHARS_MAX = 200
"""Characters of a caller's name, and of its program's."""
AUDIT_TEXT_CHARS_MAX = 2_048
"""Characters of a call's arguments, and of its detail, in the audit log."""
AUDIT_PAGE_MAX = 1_000
"""Records of one page of the audit log."""
AUDIT_PAGE_BYTES_MAX = 1 * MIB
"""The same, roughly: one record may pass it, and it stays below CLIENT_RECEIVE_BYTES_MAX."""

# Telemetry
TELEMETRY_INTERVAL_S = 5.0
"""Between two looks at what has changed, when nothing is set."""
TELEMETRY_INTERVAL_MIN_S = 0.05
"""The least that may be set: a tick is work for every topic."""
TELEMETRY_FULL_INTERVAL_S = 60.0
"""Between two full rounds: what a new reader waits for the whole picture, and all that an idle broker writes."""
TELEMETRY_RETENTION_S = 7 * 86_400
"""For which /system/telemetry is kept when nothing is set: a week of evidence for the rules of lag and for Spark."""
TELEMETRY_RETENTION_BYTES = 1024 * MIB
"""Bytes of it, the same: ten thousand busy topics tell some 100 MiB an hour."""
TELEMETRY_RECORDS_MAX = 1_600
"""Published in one tick; the rest waits its turn. With the longest names they fit BATCH_BYTES_MAX."""
TELEMETRY_SILENT_MAX = 3
"""Consumers named in a record of a subscription because they are silent; shorter than a list without end."""
TELEMETRY_LOOKS_MAX = 100
"""Subscriptions of one tick whose oldest unread message is looked up in a segment, and remembered until they go on."""
TELEMETRY_SLICE_S = 0.002
"""Reading topics and writing records lets others run after this long."""

# Client library
CLIENT_RECEIVE_MESSAGES_MAX = 100
"""Received by one consumer and not yet taken by the application."""
CLIENT_SENDS_IN_FLIGHT_MAX = 256
"""Sent by one producer to one topic, or by one `send_many`, and not yet answered."""
CLIENT_BATCH_BYTES = 256 * KIB
"""Payloads gathered into one batch; a larger payload goes alone. From here on larger ones bring nothing."""
CLIENT_BATCHES_IN_FLIGHT_MAX = 32
"""Sent on one stream and not yet acknowledged: with more, a slow source would make many small ones."""
CLIENT_ACKS_IN_FLIGHT_MAX = 256
"""Acknowledged without waiting by one consumer and not yet confirmed."""
CLIENT_CHANNELS_MAX = 256
"""Connections one client keeps; the one unused for longest is closed for a new one."""
CLIENT_RETRIES_DEFAULT = 5
"""Retries of one call, as in the official clients."""
CLIENT_RETRY_STEP_S = 0.2
"""The n-th retry waits n of these."""
CLIENT_RETRY_DELAY_MAX_S = 5.0
CLIENT_RETRY_TOTAL_S = 600.0
"""A send, an acknowledgement or a consumer that has lost its broker gives up after this long, when nothing is set."""
CLIENT_FAILOVER_S = 60.0
"""A producer that has lost its broker looks for another one this long, when nothing is set; a takeover is faster."""
CLIENT_HEALTH_INTERVAL_S = 5.0
"""Between two health checks of one producer or consumer, as in the official clients."""
CLIENT_PARTITIONS_INTERVAL_S = 10.0
"""Between two looks of a consumer for partitions that its topic has got."""
CLIENT_SETTLED_S = 5.0
"""Attached for this long, a loss counts as the first one again and is mended without a pause; sooner, after a pause."""
CLIENT_CLOSE_GRACE_S = 1.0
"""Told to go elsewhere, a consumer reads on for this long before it drops its stream."""
CLIENT_DETACH_TIMEOUT_S = 1.0
"""A producer that is closed tells its broker for this long at most; one that did not hear it notices by itself."""
CLIENT_CLOSE_TIMEOUT_S = 5.0
"""A consumer that is closed waits this long for its acknowledgements to be confirmed."""

# Process
DRAIN_TIMEOUT_S = 10.0
"""From SIGTERM to the end, at most."""
CONNECT_TIMEOUT_S = 5.0
CALL_TIMEOUT_S = 30.0

# Wire
NAME_CACHE_ENTRIES_MAX = 16_384
"""Names found valid and remembered, so that the calls made once per message need not check theirs again."""
VARINT_CACHE_ENTRIES_MAX = 4_096
"""Upper parts of encoded numbers; 128 consecutive offsets or request ids share one."""
