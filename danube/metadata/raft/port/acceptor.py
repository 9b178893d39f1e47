"""Lets connections in, a bounded number at a time that have not proved who they are."""

import socket
from collections.abc import Callable

from danube.metadata.raft.core.poller import READ, Poller
from danube.metadata.raft.port.connection import Connection
from danube.metadata.raft.port.listener import Listener
from danube.model.limits.metadata import RAFT_ACCEPTS_AT_ONCE_MAX, RAFT_UNPROVED_MAX, RAFT_UNPROVED_PER_ADDRESS_MAX

_REST_S = 1.0
"""The door stays shut for so long when the system has no descriptor left for one more."""


class Acceptor:
    """Accepts at a listener. For one more than may be unproved the oldest goes: whoever only holds connections open
    keeps nobody out, since a member needs a moment only.
    """

    def __init__(
        self,
        listener: Listener,
        poller: Poller,
        enter: Callable[[socket.socket, str], Connection],
        tell: Callable[[str, str], None],
    ) -> None:
        self._listener = listener
        self._poller = poller
        self._enter = enter
        self._tell = tell
        self._unproved: list[Connection] = []
        self._shut_until_s: float | None = None
        self._now_s = 0.0
        self._open()

    def tick(self, now_s: float) -> None:
        """Let time pass."""
        self._now_s = now_s
        if self._shut_until_s is not None and now_s >= self._shut_until_s:
            self._shut_until_s = None
            self._open()

    def close(self) -> None:
        """Let nobody in any more."""
        self._poller.unsubscribe(self._listener.fileno())
        self._listener.close()

    def _open(self) -> None:
        self._poller.subscribe(self._listener.fileno(), self._on_event, READ)

    def _on_event(self, _descr: int, _events: int) -> None:
        try:
            for _ in range(RAFT_ACCEPTS_AT_ONCE_MAX):
                accepted = self._listener.accept()
                if accepted is None:
                    return
                self._let_in(*accepted)
        except OSError as error:
            self._poller.unsubscribe(self._listener.fileno())
            self._shut_until_s = self._now_s + _REST_S
            self._tell("all", f"nobody can connect for {_REST_S:g} s: {error.strerror}. Raise the limit of open files")

    def _let_in(self, accepted: socket.socket, host: str) -> None:
        self._unproved = [each for each in self._unproved if each.is_open and each.peer is None]
        same = [each for each in self._unproved if each.where == host]
        if len(same) >= RAFT_UNPROVED_PER_ADDRESS_MAX:
            self._make_room(same[0])
        elif len(self._unproved) >= RAFT_UNPROVED_MAX:
            self._make_room(self._unproved[0])
        connection = self._enter(accepted, host)
        if connection.is_open:
            self._unproved.append(connection)

    def _make_room(self, oldest: Connection) -> None:
        oldest.close()
        self._unproved.remove(oldest)
        self._tell(
            oldest.where,
            "too many connections that have not proved who they are, the oldest are closed: see who connects there, "
            "and keep all but members away from this port",
        )
