"""Reasons for refusing a connection, in words for operators and as a number for the peer; and their log lines. Pure."""

from collections import OrderedDict
from enum import IntEnum

from danube.model.limits.metadata import RAFT_LOG_LINE_S, RAFT_LOG_LINES_MAX


class Reason(IntEnum):
    """Reason for refusing a connection; the number crosses the wire."""

    GARBAGE = 0
    VERSION = 1
    SECRET_MISSING = 2
    SECRET_UNWANTED = 3
    SECRET_WRONG = 4
    CLUSTER = 5
    SELF = 6
    """A member reached its own port."""
    COPY = 7
    """Another process has this member's node id."""
    IDENTITY = 8
    """Another member answers than the one that was dialed."""
    UNKNOWN_MEMBER = 9
    ROLE = 10
    TIMEOUT = 11
    TLS = 12
    CROWDED = 13


class RefusedError(Exception):
    """This connection goes no further. The text says why and what to do, and holds no secret."""

    def __init__(self, reason: Reason, told: str, *, by_peer: bool = False) -> None:
        super().__init__(told)
        self.reason = reason
        self.by_peer = by_peer
        """True if the other side said so, and need not be answered."""

    @property
    def passes(self) -> bool:
        """True if this happens in a cluster that is well, while it starts or its members change."""
        return self.reason in _PASSING


def refused_by_peer(packed: bytes) -> RefusedError:
    """Error for a refusal by the other side, which is not authenticated."""
    told = _TOLD.get(packed[0]) if len(packed) == 1 else None
    if told is None:
        return RefusedError(Reason.GARBAGE, "it refused this member without a reason", by_peer=True)
    return RefusedError(Reason(packed[0]), f"it refused this member: {told}", by_peer=True)


def garbage() -> RefusedError:
    """Error for bytes that are no message of the handshake."""
    return RefusedError(
        Reason.GARBAGE, "it does not speak the protocol of this port: only members of a Danube cluster may connect here"
    )


def shown(text: str) -> str:
    """A text of a peer, for a log line: printable ASCII in quotes, not long."""
    return ascii(text[:80])


_PASSING = frozenset((Reason.SELF, Reason.UNKNOWN_MEMBER, Reason.ROLE))

_TOLD: dict[int, str] = {
    Reason.GARBAGE: "it did not understand a word, as when only one side has TLS",
    Reason.VERSION: "it speaks another version of the protocol of this port: run the same release on all members",
    Reason.SECRET_MISSING: "it has a secret and this member has none: give this member the same",
    Reason.SECRET_UNWANTED: "it has no secret and this member has one: give it the same",
    Reason.SECRET_WRONG: "the secrets differ: give all members of the cluster the same one",
    Reason.CLUSTER: "it belongs to another cluster: check the seeds and the addresses of both",
    Reason.SELF: "it is this member itself",
    Reason.COPY: "both have the same node id: each member needs a data folder of its own",
    Reason.IDENTITY: "it expected another member at this address",
    Reason.UNKNOWN_MEMBER: "it does not know this member (yet): a member that lost its data folder must be added anew",
    Reason.ROLE: "it takes part without a vote (yet), and connects by itself",
    Reason.TIMEOUT: "this member was too slow",
    Reason.TLS: "its TLS did not accept this member",
    Reason.CROWDED: "it has too many connections",
}


class LogSuppressor:
    """Decides if a log line is due. The same line (of the same peer) is due again after RAFT_LOG_LINE_S.

    Unknown peers from ever new addresses fill the memory of RAFT_LOG_LINES_MAX lines; then nothing further
    is due until the oldest of them is old enough, so that nobody can fill the log.
    """

    def __init__(self) -> None:
        self._last: OrderedDict[tuple[str, str], tuple[float, int]] = OrderedDict()

    def due(self, who: str, what: str, now_s: float) -> str | None:
        """Suffix of the line ("" or the number of suppressed ones), or None when none is due."""
        self._drop_old(now_s)
        key = (who, what)
        told = self._last.get(key)
        if told is None:
            if len(self._last) >= RAFT_LOG_LINES_MAX:
                return None
            self._last[key] = (now_s, 0)
            return ""
        at_s, untold = told
        if now_s - at_s < RAFT_LOG_LINE_S:
            self._last[key] = (at_s, untold + 1)
            return None
        self._last[key] = (now_s, 0)
        self._last.move_to_end(key)
        return f" ({untold} more times since the last such line)" if untold else ""

    def _drop_old(self, now_s: float) -> None:
        """Forget what is old; what came again and was not told is kept as long once more, to be told next time."""
        kept_s = RAFT_LOG_LINE_S
        old = [key for key, (at_s, untold) in self._last.items() if now_s - at_s >= (2 * kept_s if untold else kept_s)]
        for key in old:
            del self._last[key]
