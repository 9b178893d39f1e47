"""Several clients under one consumer name: the newest has the place, those that come back for it wait longer each time.

A client that subscribed is new and takes the place over. One that opens its stream again without having subscribed is
the one that lost it, if that was a short while ago. Official clients do so at once and for ever. Pure: time is an
argument.
"""

from dataclasses import dataclass

from danube.model.limits.broker import NAME_CONFLICT_CALM_S, NAME_CONFLICT_WAIT_MAX_S, RECEIVE_FAILURE_DELAY_S

_DOUBLINGS_MAX = 16
"""More would pass NAME_CONFLICT_WAIT_MAX_S by far."""


@dataclass(slots=True)
class NameConflict:
    """What happened under one name lately."""

    takeovers: int = 0
    """In a row, with no more than NAME_CONFLICT_CALM_S between two events."""
    held_off: int = 0
    """Streams in this row that had to wait."""
    rival: str = ""
    """Address of the client that lost the place, or was held off, last."""
    last_s: float = float("-inf")
    """Monotonic time of the last event."""

    def is_on(self, now_s: float) -> bool:
        """Whether clients took the place from each other, or tried to, a short while ago."""
        return now_s < self.last_s + NAME_CONFLICT_CALM_S

    def wait_s(self, now_s: float, *, is_new: bool) -> float:
        """How long a stream waits that is opened while another one is open. 0, the first time: it takes over."""
        if not self.is_on(now_s):
            return 0.0
        tries = self.takeovers - 1 if is_new else self.held_off
        return min(RECEIVE_FAILURE_DELAY_S * 2.0 ** min(max(tries, 0), _DOUBLINGS_MAX), NAME_CONFLICT_WAIT_MAX_S)

    def taken_over(self, now_s: float, rival: str) -> None:
        """The client at address `rival` lost the place."""
        self._note(now_s, rival)
        self.takeovers += 1

    def hold_off(self, now_s: float, rival: str) -> None:
        """The client at address `rival` has to wait."""
        self._note(now_s, rival)
        self.held_off += 1

    def _note(self, now_s: float, rival: str) -> None:
        if not self.is_on(now_s):
            self.takeovers = self.held_off = 0
        self.last_s, self.rival = now_s, rival
