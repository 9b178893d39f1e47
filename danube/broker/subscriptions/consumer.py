"""One consumer of a subscription, and the conflict of several clients under its name.

A client that subscribed takes the place over. One that opens its stream again without having subscribed lost the place
a short while ago: official clients do so at once and for ever, so each of them waits longer. Pure: time is an argument.
"""

from dataclasses import dataclass, field

from danube.model.limits.broker import (
    ATTACH_GRACE_S,
    NAME_CONFLICT_CALM_S,
    NAME_CONFLICT_WAIT_MAX_S,
    RECEIVE_FAILURE_DELAY_S,
)
from danube.rpc.carrier import ServerStream

_DOUBLINGS_MAX = 16
"""More would pass NAME_CONFLICT_WAIT_MAX_S by far."""


@dataclass(slots=True)
class NameConflict:
    """Recent takeovers and waits under one consumer name."""

    takeovers: int = 0
    """In a row, with no more than NAME_CONFLICT_CALM_S between two events."""
    held_off: int = 0
    """Streams in this row that had to wait."""
    rival: str = ""
    """Address of the client that lost the place, or was held off, last."""
    last_s: float = float("-inf")
    """Monotonic time of the last event."""

    def is_on(self, now_s: float) -> bool:
        """Tell whether clients took the place from each other, or tried to, a short while ago."""
        return now_s < self.last_s + NAME_CONFLICT_CALM_S

    def wait_s(self, now_s: float, *, is_new: bool) -> float:
        """Seconds that a stream waits which is opened while another one is open. 0, the first time: it takes over."""
        if not self.is_on(now_s):
            return 0.0
        tries = self.takeovers - 1 if is_new else self.held_off
        return min(RECEIVE_FAILURE_DELAY_S * 2.0 ** min(max(tries, 0), _DOUBLINGS_MAX), NAME_CONFLICT_WAIT_MAX_S)

    def taken_over(self, now_s: float, rival: str) -> None:
        """The client at address `rival` lost the place."""
        self._record(now_s, rival)
        self.takeovers += 1

    def hold_off(self, now_s: float, rival: str) -> None:
        """The client at address `rival` has to wait."""
        self._record(now_s, rival)
        self.held_off += 1

    def _record(self, now_s: float, rival: str) -> None:
        if not self.is_on(now_s):
            self.takeovers = self.held_off = 0
        self.last_s, self.rival = now_s, rival


@dataclass(slots=True)
class Consumer:
    """A member of a subscription."""

    name: str
    consumer_id: int
    seen_s: float
    """Monotonic time of its last Subscribe, or of the end of its last stream."""
    filters: tuple[str, ...] = ()
    """Patterns of the keys that it takes, in a Key-Shared subscription; none means every key."""
    attached_before: bool = False
    """True if its stream was open since its last Subscribe."""
    stream: ServerStream | None = field(default=None, repr=False)
    conflict: NameConflict = field(default_factory=NameConflict, repr=False)

    def is_connected(self, now_s: float) -> bool:
        """Tell whether it has its place: its stream is open, or is expected after a recent Subscribe."""
        return self.stream is not None or (not self.attached_before and now_s < self.seen_s + ATTACH_GRACE_S)

    def subscribed(self, now_s: float, filters: tuple[str, ...] = ()) -> None:
        """It subscribed (again): its stream is expected."""
        self.filters = filters
        self.seen_s = now_s
        self.attached_before = False
