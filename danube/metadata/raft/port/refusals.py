"""Why a connection goes no further, in words for whoever has to mend it, and as a number for the other side."""

from enum import IntEnum


class Reason(IntEnum):
    """Why a side goes no further; the number crosses the wire."""

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
        """Whether the other side said so, and need not be answered."""

    @property
    def passes(self) -> bool:
        """Whether this happens in a cluster that is well, while it starts or its members change."""
        return self.reason in _PASSING


def refused_by_peer(packed: bytes) -> RefusedError:
    """What the other side says with the number of a reason; nothing proves that it was the other side."""
    told = _TOLD.get(packed[0]) if len(packed) == 1 else None
    if told is None:
        return RefusedError(Reason.GARBAGE, "it refused this member without a reason", by_peer=True)
    return RefusedError(Reason(packed[0]), f"it refused this member: {told}", by_peer=True)


def garbage() -> RefusedError:
    """For what is no message of the handshake."""
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
