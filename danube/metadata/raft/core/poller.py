"""Poller of sockets in Raft's thread, with pysyncobj's interface; any thread can wake it.

pysyncobj's own poller keeps the callback of a closed descriptor, and may call it for the next socket with that number.
Here an event counts only for the subscription that it was seen for.
"""

import contextlib
import select
import socket
from collections.abc import Callable

from pysyncobj.poller import POLL_EVENT_TYPE
from pysyncobj.poller import Poller as PysyncobjPoller

READ: int = POLL_EVENT_TYPE.READ
WRITE: int = POLL_EVENT_TYPE.WRITE
ERROR: int = POLL_EVENT_TYPE.ERROR

Callback = Callable[[int, int], None]
"""Takes the descriptor and what is there, READ, WRITE and ERROR in one number."""

_TO_POLL = ((READ, select.POLLIN), (WRITE, select.POLLOUT))
_FROM_POLL = (
    (select.POLLIN, READ),
    (select.POLLOUT, WRITE),
    (select.POLLERR | select.POLLHUP | select.POLLNVAL, ERROR),
)


class Poller(PysyncobjPoller):  # type: ignore[misc]  # pysyncobj has no types
    """Poller for one thread; only `wake` may be called by others."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._callbacks: dict[int, Callback] = {}
        self._waker, self._woken = socket.socketpair()
        for end in (self._waker, self._woken):
            end.settimeout(0)
        self.subscribe(self._woken.fileno(), self._drain, READ)

    def subscribe(self, descr: int, callback: Callback, eventMask: int) -> None:  # noqa: N803 - as pysyncobj calls it
        """Call `callback` when there is something of `eventMask`; it takes the place of what was subscribed."""
        self._callbacks[descr] = callback
        self._poll.register(descr, sum(theirs for ours, theirs in _TO_POLL if eventMask & ours))

    def unsubscribe(self, descr: int) -> None:
        """Call nobody any more for this descriptor. Idempotent; to be called before it is closed."""
        if self._callbacks.pop(descr, None) is not None:
            self._poll.unregister(descr)

    def poll(self, timeout: float | None) -> None:
        """Wait for something, at most `timeout` seconds (None: without end), and call whom it concerns."""
        timeout_ms = None if timeout is None else timeout * 1000
        seen = [(descr, events, self._callbacks[descr]) for descr, events in self._poll.poll(timeout_ms)]
        for descr, events, callback in seen:
            if self._callbacks.get(descr) is callback:
                callback(descr, sum(ours for theirs, ours in _FROM_POLL if events & theirs))

    def wake(self) -> None:
        """Have `poll` return now, or at once when it is called next. From any thread; does nothing once closed."""
        with contextlib.suppress(OSError):  # it is full of wake-ups, or closed
            self._waker.send(b"\0")

    def close(self) -> None:
        """Idempotent."""
        self.unsubscribe(self._woken.fileno())
        self._waker.close()
        self._woken.close()

    def _drain(self, _descr: int, _events: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._woken.recv(4096):
                pass
