"""Bounds of topics on their way between brokers."""

from danube.model.limits.broker import MIB

PLACEMENT_INTERVAL_S = 5.0
"""Topics are where they should be, or somebody works on it, this often also when nothing changed."""
ASSIGNMENTS_PER_CHANGE_MAX = 2_000
"""Topics that the leader assigns in one transaction."""
ABSENT_BROKER_GRACE_S = 15.0
"""A broker that has not been seen since the leader started may still start for so long: its topics wait for it."""
RELEASES_AT_ONCE_MAX = 16
"""Topics that a broker releases at the same time."""
PLACEMENT_RETRY_S = 1.0
"""Before the release of a topic that failed is tried again."""
LEAVE_LOOK_S = 0.05
"""Between two looks at whether the topics of a broker that stops have left it."""
PARALLEL_MOVES_MAX = 64
"""Topics that may leave a drained broker at a time."""
LEAVING_MOVES_MAX = 64
"""Topics that leave a broker at a time when it stops."""
LEAVE_TIMEOUT_S = 10.0
"""A broker that stops waits this long for others to take its topics; those left are taken over."""
CARRY_PIECE_BYTES_MAX = MIB // 4
"""Bytes of a segment that one broker asks another for at a time."""
CARRY_TAIL_BYTES = 4 * MIB
"""A topic is paused for the rest of its log once this little was left in a copy of it."""
CARRY_PASSES_MAX = 20
"""Copies of what was appended meanwhile; after that the topic is paused whatever is left."""
CARRY_PAUSE_S_MAX = 20.0
"""A topic that is paused for its next owner is served again by its old one after this long."""
CARRY_CALL_TIMEOUT_S = 30.0
"""One call between brokers that carry a log: a flush of it, or a piece."""
CARRIES_AT_ONCE_MAX = 2
"""Logs that one broker copies to its disk at the same time, unless it is set; each holds one segment in memory."""
CARRY_BYTES_PER_S = 8 * MIB
"""Pace of all copies to one broker while their topics are served, unless it is set."""
LOCAL_OWNER_LOST_AFTER_S = 600.0
"""A topic waits so long for the disk of its owner before it may start anew, unless it is set."""
CARRY_OFFERS_MAX = 3
"""Offers that are taken in one pause: files may go, and the record may change, between an offer and its copy."""
UNOWNED_LOGS_LOOK_S = 60.0
"""Between two looks for logs on a broker's disk that are not its own."""
CARRY_RETRY_S_MAX = 30.0
"""The time before a copy that failed is tried again doubles up to this."""
CLIENT_TAKEOVER_S = 10.0
"""A topic that no broker serves for the moment is waited for this long by who creates or subscribes."""
CLIENT_TAKEOVER_PAUSE_S = 0.3
"""The longest pause between two tries for so long after a broker was lost: others serve its topics soon."""
MOVES_SHOWN_MAX = 20
"""Topics on the move that the status of a cluster names; the rest is counted."""
UNSERVED_SHOWN_MAX = 20
"""Reasons why topics are not served that the status of a cluster gives."""
STATES_LISTED_MAX = 10_000
"""Topics that one call lists because nobody serves them, or because they move."""
PLAN_OWNERS_TIMEOUT_S = 2.0
"""For the owners of the topics that a plan is about to say what they hold: what is not known then is unknown."""
