"""Budgets of frames that cost this end work and the peer nothing: beyond them a connection ends.

Time is an argument. Each budget is a leaky bucket: a burst, and a rate that may go on for ever.
"""

from danube.model.limits import http2 as limits
from danube.rpc.http2.protocol.frames import ErrorCode, ProtocolError


class Bucket:
    """One budget."""

    __slots__ = ("_burst", "_filled_s", "_left", "_per_s", "_what")

    def __init__(self, what: str, burst: int, per_s: float) -> None:
        self._what = what
        self._burst = burst
        self._per_s = per_s
        self._left = float(burst)
        self._filled_s = 0.0

    def spend(self, now_s: float) -> None:
        """Count one. Raises ProtocolError when the peer has no more of them."""
        if self._left < 1:
            self._left = min(self._burst, self._left + (now_s - self._filled_s) * self._per_s)
            self._filled_s = now_s
            if self._left < 1:
                raise ProtocolError(ErrorCode.ENHANCE_YOUR_CALM, f"too many {self._what}")
        if self._left >= self._burst:
            self._filled_s = now_s
        self._left -= 1

    def restore(self, count: int) -> None:
        """Allow so many more, up to the burst."""
        self._left = min(self._burst, self._left + count)


class FloodBudget:
    """The budgets of one connection."""

    __slots__ = ("control", "idle", "resets")

    def __init__(self) -> None:
        self.control = Bucket(
            "PING and SETTINGS frames", limits.HTTP2_CONTROL_FRAMES_BURST, limits.HTTP2_CONTROL_FRAMES_PER_S
        )
        """Restored by what is sent to the peer: clients measure bandwidth by pings while they receive."""
        self.resets = Bucket("streams opened and reset", limits.HTTP2_RESETS_BURST, limits.HTTP2_RESETS_PER_S)
        """Of the peer, and of this end for faults of the peer."""
        self.idle = Bucket("frames without effect", limits.HTTP2_IDLE_FRAMES_BURST, limits.HTTP2_IDLE_FRAMES_PER_S)
