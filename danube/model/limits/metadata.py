"""Bounds of the metadata and its tools, each with its unit and its reason."""

from danube.model.limits.broker import KIB, MIB

METADATA_BACKUP_ORIGIN_BYTES_MAX = 64 * 1024
"""Bytes of what a backup says of itself: a place, and members of a Raft group."""
METADATA_BACKUP_BYTES_MAX = 1_025 * MIB
"""Bytes of a backup, which is held in memory: the largest snapshot, and what stands before it."""
METADATA_TOPIC_IDS_SKIPPED = 100_000
"""By a restore: topics may have been made after the backup was taken, and what is stored under their ids is theirs."""
METADATA_ASIDES_READ_MAX = 8
"""Newest metadata files that restores moved to the quarantine folder, and that are searched for names."""
METADATA_TOPICS_NAMED_MAX = 3
"""Topics that a refusal names; the command that it points to shows all of them."""
METADATA_KEYS_SHOWN_MAX = 500
"""Rows of keys in a table; JSON and YAML hold all of them."""
METADATA_VALUE_CHARS_SHOWN_MAX = 200
"""Characters of a value in a table, after which it is cut."""

# Metadata
METADATA_KEY_BYTES_MAX = 4 * KIB
"""Bytes of one key: four names of NAME_BYTES_MAX, percent-quoted, fit."""
METADATA_VALUE_BYTES_MAX = 512 * KIB
"""Bytes of one value: ZooKeeper takes 1 MiB in a whole transaction, etcd 1.5 MiB."""
METADATA_TRANSACTION_PARTS_MAX = 12_288
"""Conditions and writes in one transaction: deleting PARTITIONS_MAX partitions by a plan fits, at eight parts each."""
INHERITED_SUBSCRIPTIONS_MAX = 6_000
"""Subscriptions of all partitions that one change adds: they fit beside PARTITIONS_MAX new topics."""
PENDING_POLICIES_PER_TOPIC_MAX = 100
"""Subscriptions that do not exist yet and have policies already: they are part of the topic's record."""
METADATA_OUTCOMES_MAX = 10_000
"""Transactions whose outcome a store remembers; one submitted again after so many others is applied anew."""
METADATA_REQUEST_BYTES_MAX = 4 * MIB
"""Bytes of one change as it is agreed on, before it is compressed."""
METADATA_SNAPSHOT_BLOCK_BYTES_MAX = 256 * MIB
"""Bytes of one block of a snapshot, decompressed: 256 entries of the largest key and value fit."""
METADATA_LOG_ENTRIES_KEPT = 1_000
"""Entries of a shared log below its snapshot: a member that is no further behind needs no snapshot."""
METADATA_LOG_QUEUE_BYTES_MAX = 64 * MIB
"""Bytes of requests of one process that wait for their entry in a shared log; with more, further ones are put off."""
METADATA_LOG_COMPRESS_BYTES_MIN = 1 * KIB
"""An entry below this stays as it is: there is little to gain."""
METADATA_LOG_BODY_BYTES_MAX = METADATA_REQUEST_BYTES_MAX + 64 * KIB
"""Bytes of one entry of a shared log, decompressed: the largest request fits."""
METADATA_LOG_RUN_MAX = 32
"""Entries of a shared log read at once: with the largest, 45 MiB."""
METADATA_LOG_SNAPSHOT_ENTRIES = 2_000
"""Added to a shared log since its snapshot, until a new one is due: what a member that starts has to read."""
METADATA_LOG_SNAPSHOT_BYTES = 8 * MIB
"""The same in bytes, or as many as the last snapshot had, if that is more."""
METADATA_LOG_SNAPSHOT_PIECES_MAX = 4_096
"""Pieces of one snapshot of a shared log, each as large as an entry may be."""
METADATA_LOG_LEAPS_MAX = 8
"""Searches for an entry that is neither in the log nor in a snapshot before the log counts as damaged."""
METADATA_LOG_TURN_ENTRIES = 8
"""Added by one process in a row; then it waits a moment, so that others, which have to read first, get their turn."""
METADATA_LOG_TURN_WAIT_MAX_S = 0.1
"""For that moment, however slow the service is."""
METADATA_LOG_POLL_S = 5.0
"""A member looks for new entries after this long, if nothing told it of any: a watch may be lost."""
METADATA_LOG_CALL_TIMEOUT_S = 3.0
"""Time of one call to etcd or ZooKeeper: an election of theirs fits."""
METADATA_LOG_RETRY_DELAY_MAX_S = 1.0
"""Between attempts while etcd or ZooKeeper do not answer; they start at METADATA_RETRY_DELAY_S and double."""
METADATA_LOG_DELETES_MAX = 64
"""Old nodes that are removed from ZooKeeper at once."""
ETCD_ENTRY_BYTES_MAX = 1_400 * KIB
"""Bytes of one entry in etcd, which takes requests of 1.5 MiB when nothing is set."""
ZOOKEEPER_ENTRY_BYTES_MAX = 900 * KIB
"""Bytes of one entry in ZooKeeper, which takes requests of 1 MiB (`jute.maxbuffer`) when nothing is set."""
METADATA_ATTEMPTS_MAX = 64
"""Attempts of a change that lost against others, and questions for an unknown outcome."""
METADATA_WATCH_EVENTS_MAX = 4_096
"""Changes kept for one watcher that does not read; past it the watcher gets a new snapshot instead."""
METADATA_LEASES_MAX = 10_000
"""Leases at one time: brokers and what else announces itself."""
METADATA_SUBMIT_TIMEOUT_S = 10.0
"""Time to agree on a change; past it the outcome is unknown, or the change surely was not made."""
METADATA_ATTEMPT_TIMEOUT_S = 1.5
"""Time of one attempt before the same change is submitted again: a few rounds of consensus."""
METADATA_RETRY_DELAY_S = 0.05
"""Between attempts that failed at once, as while a leader is being elected."""
METADATA_EXPIRY_WAIT_S = 2.0
"""Wait of a read for the end of leases that have run out, before it answers without it."""
METADATA_SUBMISSIONS_MAX = 4_096
"""Changes that one process has under way; further ones wait for their turn."""
LEASE_TTL_S_MAX = 3_600.0
"""Time of one lease: a holder that died is missed after this long at the latest."""

# Raft port
RAFT_HELLO_BYTES_MAX = 512
"""Bytes of one handshake message; a peer gets to say two before it has proved who it is."""
RAFT_TLS_HANDSHAKE_BYTES_MAX = 64 * KIB
"""The same with TLS, whose handshake carries chains of certificates."""
RAFT_HANDSHAKE_TIMEOUT_S = 5.0
"""A peer that has not proved who it is after this long is disconnected."""
RAFT_UNPROVED_MAX = 64
"""Connections that have not proved who they are; for one more, the oldest goes."""
RAFT_UNPROVED_PER_ADDRESS_MAX = 16
"""The same, from one address: members that start together on one machine fit."""
RAFT_UNKNOWN_PEERS_MAX = 16
"""Connected voters that this member does not know as such: the votes of a change that it has not heard of, and some."""
RAFT_PEERS_MAX = 1_024
"""Authenticated connections to one port: members, and those who ask."""
RAFT_ASKS_MAX = 64
"""Questions of one member to others that are under way."""
RAFT_ANSWER_TIMEOUT_S = 60.0
"""A connection that asks a question is closed without an answer after this long."""
RAFT_SECRET_BYTES_MIN = 16
"""Bytes of the shared secret: whoever records a handshake can try secrets against it at leisure."""
RAFT_FRAME_BYTES_MAX = 3 * METADATA_REQUEST_BYTES_MAX
"""Bytes of one message between members: pysyncobj gathers entries up to one full batch, and then one more entry."""
RAFT_SEND_BUFFER_BYTES_MAX = 32 * MIB
"""Sent to one member and not yet taken by its kernel; past it the member is disconnected, and Raft sends again."""
RAFT_SEND_ROOM_BYTES = 8 * MIB
"""The same, above which whoever can wait (entries of a member far behind, a snapshot) should."""
RAFT_RECEIVE_BYTES = 256 * KIB
"""Bytes of one read from a connection, so that a busy one lets others have their turn."""
RAFT_UNPROVED_RECEIVE_BYTES = 4 * KIB
"""The same, from a peer that has not proved who it is."""
RAFT_ACCEPTS_AT_ONCE_MAX = 16
"""Connections that are accepted before others have their turn."""
RAFT_PING_S = 1.0
"""A connection on which nothing was sent for this long is sent an empty frame: followers have nothing to say to each
other."""
RAFT_SILENCE_S_MAX = 5.0
"""A connection on which nothing came for this long is dropped."""
RAFT_DIAL_ANYWAY_S = 3.0
"""A voter that the other one should dial is dialed by this one after so long: the other may not know this one (yet)."""
RAFT_DIAL_RETRY_S = 0.3
"""Between two attempts to connect with one member."""
RAFT_NAME_TTL_S = 10.0
"""The addresses of a host name are looked up again after this long."""
RAFT_NAME_RETRY_S = 1.0
"""The same of a name that meant nothing: the others may be starting just now."""
RAFT_NAMES_MAX = 256
"""Host names whose addresses are remembered."""
RAFT_NONCES_MAX = 4_096
"""Nonces of handshakes that a member began, by which it recognises its own port: seconds of attempts."""
RAFT_LOG_LINE_S = 60.0
"""The same trouble with the same peer is told of this often."""
RAFT_LOG_LINES_MAX = 256
"""Troubles that are remembered for it; with more, the rest of a minute is told of in one line."""
RAFT_ELECTION_MIN_S = 1.0
"""A follower that hears nothing for this long, at least, stands for election: a busy process is late, not dead."""
RAFT_ELECTION_MAX_S = 2.0
"""The same, at most; each picks its own time in between."""
RAFT_HEARTBEAT_S = 0.1
"""Between two messages of a leader that has nothing to say."""
RAFT_FALLBACK_S = 2.0
"""A leader that hears of no majority for this long leads no more."""
RAFT_TICK_S = 0.02
"""A member looks at its clock this often; what comes, and what is submitted, wakes it earlier."""
RAFT_COMMANDS_MAX = 4_096
"""Batches of requests of one member, and of those who forward to it, that wait for its next tick."""
RAFT_ENTRIES_A_MESSAGE_MAX = 1_000
"""Entries of the log in one message to a member that is behind."""
RAFT_LOG_ENTRIES_MAX = 10_000
"""Entries after which a member takes a snapshot of the state and cuts its log."""
RAFT_LOG_BYTES_MAX = 64 * MIB
"""The same, in bytes of its log."""
RAFT_UNAPPLIED_BYTES_MAX = 64 * MIB
"""Handed to the event loop and not yet applied there; past it a member applies nothing more, and its log grows."""
RAFT_APPLY_BATCHES_MAX = 64
"""Batches of requests that are applied before the event loop does something else."""
RAFT_SNAPSHOT_PIECE_BYTES = 256 * KIB
"""Bytes of a snapshot, in one message to a member that is too far behind for the log."""
RAFT_SNAPSHOT_WINDOW_BYTES = 4 * MIB
"""Bytes of a snapshot, sent to one member and not yet said to have come."""
RAFT_SNAPSHOT_STALL_S = 10.0
"""A snapshot that is being sent and has not gone on for this long keeps nobody from making a newer one."""
RAFT_SNAPSHOT_RETRY_S = 30.0
"""A snapshot that could not be written is tried again after this long."""
RAFT_VOTES_MAX = 7
"""Members that may be given a vote: each makes every change dearer; three or five are enough."""
RAFT_PROBE_S = 0.5
"""Between two questions to the other seeds, while a cluster is being formed, and to voters that are missing."""
RAFT_PROBE_TIMEOUT_S = 3.0
"""A member that is asked who it is has this long to answer."""
RAFT_START_TIMEOUT_S = 120.0
"""A member that has found no majority after this long does not start; the others may be started one after the other."""
RAFT_JOIN_TIMEOUT_S = 86_400.0
"""The same for one that waits to be added: an administrator does that by hand."""
RAFT_FULL_RETRY_S = 1.0
"""Between two looks of a member whose disk is full at whether there is room again."""
RAFT_WAITING_LINE_S = 10.0
"""Between two log lines of a member that waits for others."""
RAFT_BARRIER_TIMEOUT_S = 6.0
"""A linearizable read waits for a leader this long: an election or two."""
RAFT_ASK_TIMEOUT_S = 20.0
"""A change of membership takes this long at most, besides the time in which a new member gets the log."""
RAFT_CATCH_UP_TIMEOUT_S = 60.0
"""A new member has to have the log after this long, or adding it is given up; it goes on, and can be added again."""
RAFT_CATCH_UP_ENTRIES_MAX = 1_000
"""A learner that lacks more gets no vote yet: the majority would wait for it."""
RAFT_LOOK_S = 0.05
"""Between two looks at whether a change of membership has come about."""
RAFT_TRANSFER_TIMEOUT_S = 5.0
"""Nothing new is agreed on while another voter takes over the lead, and no longer than this."""
RAFT_REMOVED_S = 10.0
"""A member that is told again and again that it is removed, and has heard of no leader since, stops after this long;
once it has heard nothing of it for as long, the time begins anew."""
RAFT_ASKED_MAX = 64
"""Changes of membership that members ask of one leader at one time; and all that one member has asked of it."""
RAFT_LOOK_TIMEOUT_S = 1.0
"""A member that is asked how things stand tells what it knows itself if the leader has not answered after this long."""
ENCODING_DEPTH_MAX = 16
"""Nesting of lists, tuples and dicts in one message between members."""
ENCODING_CONTAINERS_MAX = 262_144
"""Lists, tuples and dicts in one message: a full batch of small entries fits, and decoding stays in proportion."""
BROKER_LEASE_TTL_S = 10.0
"""Time of a broker's lease: silence counts as death after this long. A process that ended is noticed sooner."""
LEASE_RENEWALS = 5
"""In the time of one lease: four of them may be lost without the lease."""
LATE_RENEWALS = 1.5
"""Times the time between two renewals, after which Raft's thread makes one for the event loop."""
LEASE_STALL_LEASES_MAX = 0.8
"""Times the time of a lease, for which an event loop or a journal may stand still and have its lease renewed."""
DEATH_LOOKS = 2
"""Connections, one after the other, that a broker must refuse to count as dead, once the one with it is closed."""
DEATH_LOOK_S = 0.1
"""Between two of them."""
DEATH_DIAL_TIMEOUT_S = 3.0
"""One attempt to connect with another broker."""
CLUSTER_RETRY_S = 1.0
"""Before a lease, a registration or a candidacy that failed is tried again, and a watch that ended is begun anew."""
SECRET_BYTES_MAX = 64 * KIB
"""Bytes of a file with a secret, a password or certificates."""
CLUSTER_GONE_SHOWN_S = 3_600.0
"""A broker that is gone and owns no topics is shown for this long: it may have been stopped for good."""
CLUSTER_LEAVE_TIMEOUT_S = 1.0
"""Wait of a broker that ends for the others to notice; the last ones of a cluster find no majority."""
NODE_ADDRESS_BYTES_MAX = 512
"""Bytes of the address of a node that is to be added: a host name has at most 253."""
CLUSTER_BROKERS_MAX = 1_000
"""Brokers of one cluster that a broker keeps in view; further ones are not seen."""

# Raft's files
RAFT_LOG_FILE_BYTES_MAX = 4 * MIB
"""Bytes of one file of Raft's log: past it a new one is begun, and a file goes when a snapshot covers it. A torn one is
written anew, for which the reserve of a full disk has room."""
RAFT_LOG_UNSYNCED_BYTES_MAX = 8 * MIB
"""Appended and not yet synced; past it an append syncs by itself."""
RAFT_MARK_DELAY_S = 2
"""Delay of the file that marks the synced end of a busy log: after a crash the mark is at most this old."""
RAFT_ENTRY_BYTES_MAX = METADATA_REQUEST_BYTES_MAX + 64 * KIB
"""Bytes of one entry: the largest change, and what pysyncobj puts around it."""
RAFT_SNAPSHOT_BYTES_MAX = 1_024 * MIB
"""Bytes of a snapshot of the metadata, compressed: one that is received, or read at a start, is held in memory."""
RAFT_SNAPSHOT_READ_BYTES = 1 * MIB
"""At a time, where a snapshot is checked at a start."""
RAFT_VOTERS_MAX = 64
"""Members with a vote that a snapshot names; three or five are usual."""
RAFT_MEMBERS_TOLD_MAX = RAFT_PEERS_MAX + RAFT_VOTERS_MAX
"""In a leader's answer how things stand: all that can be connected, and voters that are away."""
RAFT_MEMBER_ID_BYTES_MAX = 512
"""Bytes of a member's id: its number, a host name and a port."""
RAFT_CLUSTER_ID_BYTES_MAX = 128
"""Bytes of a cluster's id."""
