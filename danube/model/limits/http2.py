"""Bounds of the HTTP/2 engine."""

from danube.model.limits.broker import MIB

KIB = 1024

HTTP2_FRAME_BYTES_MAX = 256 * KIB
"""Largest frame that this end takes; a peer without our settings sends 16 KiB at most."""
HTTP2_STREAM_WINDOW_BYTES = 65_535
"""Bytes that a peer may send on a new stream before it is given credit: the protocol's default."""
HTTP2_ANSWER_WINDOW_BYTES = 1 * MIB
"""The same, at a client: answers to its calls."""
HTTP2_CONNECTION_WINDOW_BYTES = 64 * MIB
"""Credit of a whole connection, given back as frames arrive: streams have bounds of their own."""
HTTP2_HEADER_TABLE_BYTES = 4_096
"""Dynamic table of header compression, at each end: the protocol's default."""
HTTP2_HEADER_CACHE_HEADS = 64
"""Heads that a connection keeps by their blocks, and as many by their fields: some 600 KiB at most."""
HTTP2_HEADER_CACHE_LIST_BYTES = 2 * KIB
"""The head of a longer list of fields is read each time."""
HTTP2_HEADER_EXCESS = 16
"""Headers of so many times the bound of metadata are still read, to refuse one call; more ends the connection."""
HTTP2_HEADER_FRAMES_MAX = 32
"""Frames of one header block."""
HTTP2_SETTINGS_ENTRIES_MAX = 64
"""Entries of one SETTINGS frame."""
HTTP2_RESET_STREAMS_REMEMBERED = 1_000
"""Streams that this end reset: frames that were on their way are ignored."""

HTTP2_CONTROL_FRAMES_BURST = 1_000
"""PING and SETTINGS frames that a peer may send at once, between two answers on streams."""
HTTP2_CONTROL_FRAMES_PER_S = 100.0
"""The same, for ever."""
HTTP2_RESETS_BURST = 10_000
"""Streams that a peer may open and reset at once: as many as one port has calls."""
HTTP2_RESETS_PER_S = 500.0
"""The same, for ever."""
HTTP2_IDLE_FRAMES_BURST = 20_000
"""Frames without effect (empty DATA, PRIORITY, unknown kinds, credit) that a peer may send at once."""
HTTP2_IDLE_FRAMES_PER_S = 2_000.0
"""The same, for ever; each DATA frame that is sent to the peer allows a few more."""
HTTP2_IDLE_FRAMES_FOR_DATA = 4
"""Credit frames that answer one DATA frame."""

HTTP2_BACKLOG = 1_024
"""Connections that the system completes before they are accepted."""
HTTP2_CONNECTIONS_MAX = 10_000
"""Connections to one port; one more ends the one that has been without a call for longest."""
HTTP2_PREFACE_TIMEOUT_S = 10.0
"""A connection that has not said that it speaks HTTP/2 by then is closed."""
HTTP2_TICK_S = 2.0
"""Time between two looks at each connection: silence, late pings, answers that are not taken."""
HTTP2_WRITE_BUFFER_BYTES = 256 * KIB
"""Bytes that a connection hands to the system ahead; streams wait beyond it."""
HTTP2_TURN_BYTES = 256 * KIB
"""Bytes that one stream sends in one turn of the event loop; then others have theirs."""
HTTP2_BLOCKED_REPLIES_BYTES_MAX = 32 * MIB
"""Answers to calls of one connection for which its peer gives no credit; with more, further calls are refused."""
HTTP2_BLOCKED_REPLY_S = 60.0
"""An answer to a call for which the peer gives no credit for so long is dropped."""
HTTP2_REQUESTS_BYTES_MAX = 256 * MIB
"""Requests of a port that have arrived in part; a request that would pass it is refused."""
HTTP2_CALL_HEADERS_CACHED = 256
"""Header blocks of a client's calls, by path, metadata and timeout."""
HTTP2_CLOSE_S = 2.0
"""A connection that does not take its last bytes for so long is cut."""
