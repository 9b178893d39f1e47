"""Bounds of streams of batches, of streaming consumption, and of batches that a client gathers."""

from danube.model.limits.broker import BATCH_BYTES_MAX, KIB, MIB

PUBLISH_WINDOW_BYTES = BATCH_BYTES_MAX
"""Received on one Publish stream and not yet acknowledged; any single batch fits."""
PUBLISH_RETRY_S = 0.005
"""A batch that found the journal's backlog full is tried again this much later."""
PUBLISH_BATCH_COST_BYTES = 256
"""Cost of a batch against the window beside its body, so that tiny ones are bounded too."""
DEDUPLICATION_PRODUCERS_MAX = 1_000
"""Numberings of one topic whose last batches are remembered; the one that stored nothing for longest is forgotten."""
DEDUPLICATION_BATCHES_MAX = 64
"""Newest batches of one sequence: what a producer with de-duplication may have unacknowledged, and sends again."""
FETCH_ANSWER_BYTES = 640 * KIB
"""One answer of a Fetch that names no bound: two full batches of our client. Encoding and writing it takes well below a
millisecond, and then others have their turn; smaller ones cost the broker a third more for the same bytes."""
BOUNDS_TIMES_MAX = 16
"""Times that one Bounds call may ask offsets for; a reader needs two."""

CONSUME_MESSAGES_MAX = 1_000_000
"""Messages that a streaming consumer may have unacknowledged where its subscription sets no window."""
CONSUME_CREDIT_BYTES_MAX = 256 * MIB
"""Credit of one stream; what a client gives beyond it is dropped."""
CONSUME_ANSWER_BYTES = 256 * KIB
"""Bodies that go together in one answer; a larger one goes alone."""
CONSUME_ANSWER_BATCHES_MAX = 256
"""The same, in batches."""
CONSUME_TURN_MESSAGES = 1_024
"""Messages of one turn in a Shared subscription where the end of their batch is not at hand."""
CONSUME_RANGES_MAX = 1_024
"""Ranges of acknowledgements, and of nacks, in one update."""
CONSUME_SEEN_RANGES_MAX = 65_536
"""Ranges that one consumer has seen and not answered, and answers on their way; beyond it, nothing is sent to it."""
CONSUME_CUT_BYTES_MIN = 4 * KIB
"""Smaller bodies are sent whole, whatever range is meant: cutting costs more than they do."""
CLIENT_PREFETCH_BYTES = 4 * MIB
"""Bodies that a streaming consumer's client holds, or has asked for, by default."""
CLIENT_PREFETCH_S = 1.0
"""Work of the application that waits in a client, where it takes one message at a time; one message at least."""
CLIENT_BATCH_WORK_S = 120.0
"""The same where it takes many at a time: a call may take its time, whatever the number of messages."""
CLIENT_PREFETCH_MESSAGES = 32
"""Messages that may wait before the rate of the application is known: so many that consumers get equal shares."""
CLIENT_TAKEN_SPANS_MAX = 1_024
"""Ranges of messages whose age a client remembers, where they are not answered."""
CONSUME_WORK_TIMEOUTS = 12
"""Acknowledgement timeouts for which a busy application may work on a message: 6 minutes by default."""
CLIENT_RECEIVE_MANY_MAX = 65_536
"""Messages of one `receive_many` by default."""
CLIENT_UNANSWERED_RANGES_MAX = 65_536
"""Ranges of answers that wait for a broker; beyond it, they are dropped and the messages come again."""
CLIENT_SENDS_SINGLE_MAX = 2
"""Single sends under way that are calls of their own; further ones go together in batches."""
CLIENT_SENDS_WAITING_BYTES_MAX = 16 * MIB
"""Single sends that wait for room in a batch; further ones wait before they join."""
CLIENT_SINGLES_IDLE_S = 1.0
"""A stream of single sends without any for so long is ended."""
