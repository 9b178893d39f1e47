"""Connections of the Raft port, in Raft's thread: sockets that never block, and the acceptor of new ones."""

import errno
import os
import socket
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any

from danube.metadata.raft.core.poller import ERROR, READ, WRITE, Poller
from danube.metadata.raft.port.addresses import Listener, Target, prepare
from danube.metadata.raft.port.handshake import Peer
from danube.metadata.raft.port.session import Authenticated, Received, Refused, Session
from danube.model.limits.metadata import (
    RAFT_ACCEPTS_AT_ONCE_MAX,
    RAFT_RECEIVE_BYTES,
    RAFT_SEND_BUFFER_BYTES_MAX,
    RAFT_UNPROVED_MAX,
    RAFT_UNPROVED_PER_ADDRESS_MAX,
)

_BUFFERS_AT_ONCE = 64
"""Given to one `sendmsg`; the system takes 1024 at most."""
_DRAIN_READS = 4


class LostConnectionError(Exception):
    """The connection was lost, or never came about; the text says how."""


class Connection:
    """One connection with a session. Who owns it is told through three callbacks, which are set once after it is made.

    `on_authenticated` and `on_message` come from the poller; `on_end` comes once, with the error that ended it, from
    wherever that shows, `send` included, and not after `close`.
    """

    def __init__(
        self,
        endpoint: socket.socket,
        session: Session,
        poller: Poller,
        clock: Callable[[], float],
        where: str,
        *,
        target: Target | None,
    ) -> None:
        """`target` is what to dial; None on the side that accepted."""
        self._socket = endpoint
        self._target = target
        self._fileno = endpoint.fileno()
        self._session = session
        self.where = where
        """The other end, for people: the host it comes from, or the address that was dialed."""
        self._poller = poller
        self._clock = clock
        self._waiting: deque[memoryview] = deque()
        self._connecting = False
        self._interest = 0
        self.pending_bytes = 0
        """Bytes sent and not yet accepted by the system."""
        self.is_open = True
        self.on_authenticated: Callable[[Peer], None] = _ignore
        self.on_message: Callable[[Any], None] = _ignore
        self.on_end: Callable[[Exception], None] = _ignore

    @property
    def peer(self) -> Peer | None:
        """The other side, once it has authenticated."""
        return self._session.peer

    def begin(self) -> None:
        """Begin, once the callbacks are set: connect on the side that dials. All errors, here too, go to `on_end`."""
        if self._target is None:
            self._flush()  # which has the poller watch it
            return
        self._connecting = True
        error = self._socket.connect_ex(self._target.address)
        if error in (0, errno.EINPROGRESS):
            self._watch(READ | WRITE)
        else:
            self._end(LostConnectionError(os.strerror(error)))

    def send(self, message: Any) -> bool:  # noqa: ANN401 - plain data
        """Have a message sent, in order; False when the connection is at its end.

        A peer that takes nothing for so long that RAFT_SEND_BUFFER_BYTES_MAX wait for it is disconnected. Raises
        EncodingError for what is no plain data.
        """
        if not self.is_open:
            return False
        self._session.send(message, self._clock())
        self._flush()
        if self.pending_bytes > RAFT_SEND_BUFFER_BYTES_MAX:
            self._end(LostConnectionError(f"it takes nothing, and {self.pending_bytes} bytes wait for it"))
        return self.is_open

    def tick(self, now_s: float) -> None:
        refused = self._session.tick(now_s)
        if refused is not None:
            self._end_refused(refused)
        elif self.is_open and not self._connecting:
            self._flush()

    def close(self) -> None:
        """Disconnect at once, and tell nobody. Idempotent."""
        if self.is_open:
            self.is_open = False
            self._poller.unsubscribe(self._fileno)
            self._socket.close()
            self._waiting.clear()
            self.pending_bytes = 0
            self.on_authenticated = self.on_message = self.on_end = _ignore  # so that nothing holds it any more

    def _on_event(self, _descr: int, events: int) -> None:
        if self._connecting and not self._is_connected(events):
            return
        if events & (READ | ERROR):
            self._receive()
        if self.is_open:
            self._flush()

    def _is_connected(self, events: int) -> bool:
        error = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self._end(LostConnectionError(os.strerror(error)))
        elif events & WRITE:
            self._connecting = False
            prepare(self._socket)
        return self.is_open and not self._connecting

    def _receive(self) -> None:
        try:
            data = self._socket.recv(self._session.read_bytes)
        except BlockingIOError:
            return
        except OSError as error:
            self._end(LostConnectionError(error.strerror or type(error).__name__))
            return
        if not data:
            hint = "" if self._session.peer else " before it said who it is, as when only one side has TLS"
            self._end(LostConnectionError(f"it closed the connection{hint}"))
            return
        for event in self._session.receive(data, self._clock()):
            if self.is_open:
                self._handle(event)

    def _handle(self, event: Authenticated | Received | Refused) -> None:
        match event:
            case Authenticated(peer):
                self._flush()
                self.on_authenticated(peer)
            case Received(message):
                self.on_message(message)
            case Refused():
                self._end_refused(event)

    def _end_refused(self, refused: Refused) -> None:
        """Say why, if the peer takes it, and leave nothing unread: closing would throw away what was said."""
        if not self._connecting:
            self._flush()
            self._drain()
        self._end(refused.error)

    def _drain(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_WR)
            for _ in range(_DRAIN_READS):
                if not self._socket.recv(RAFT_RECEIVE_BYTES):
                    return
        except OSError:
            return

    def _flush(self) -> None:
        self._gather()
        if self._connecting or not self.is_open:
            return
        try:
            while self._waiting:
                self._sent(self._socket.sendmsg(islice(self._waiting, _BUFFERS_AT_ONCE)))
        except BlockingIOError:
            pass
        except OSError as error:
            self._end(LostConnectionError(error.strerror or type(error).__name__))
            return
        self._watch(READ | WRITE if self._waiting else READ)

    def _gather(self) -> None:
        for part in self._session.take_output():
            self._waiting.append(memoryview(part))
            self.pending_bytes += len(part)

    def _sent(self, count: int) -> None:
        self.pending_bytes -= count
        while count:
            part = self._waiting.popleft()
            if count < len(part):
                self._waiting.appendleft(part[count:])
                return
            count -= len(part)

    def _watch(self, interest: int) -> None:
        if interest != self._interest:
            self._interest = interest
            self._poller.subscribe(self._fileno, self._on_event, interest | ERROR)

    def _end(self, error: Exception) -> None:
        if self.is_open:
            on_end = self.on_end
            self.close()
            on_end(error)


def _ignore(_told: object) -> None:
    return None


_REST_S = 1.0
"""Pause of accepting when the system has no descriptor left for one more."""


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
        self._now_s = now_s
        if self._shut_until_s is not None and now_s >= self._shut_until_s:
            self._shut_until_s = None
            self._open()

    def close(self) -> None:
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
