"""Questions to Raft ports elsewhere: one connection for one question and its answer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from danube.metadata.raft.handshake.hello import Peer, Purpose
from danube.metadata.raft.port.connection import Connection
from danube.metadata.raft.port.dialer import Dialer
from danube.metadata.raft.port.inquiry import PeerRefusedError
from danube.metadata.raft.port.refusals import RefusedError
from danube.model.errors import LimitReachedError, SettingsError, UnavailableError
from danube.model.limits.metadata import RAFT_ASKS_MAX

Done = Callable[[Any], None]
"""Takes the answer, or the exception that stands for it; called once, from `tick` or the poller."""


@dataclass(slots=True, eq=False)
class _Inquiry:
    address: str
    question: Any
    deadline_s: float
    timeout_s: float
    done: Done
    connection: Connection | None = None


class Inquiries:
    """All questions of one member that are under way."""

    def __init__(self, wires: Dialer) -> None:
        self._dialer = wires
        self._under_way: set[_Inquiry] = set()

    def ask(self, address: str, question: Any, timeout_s: float, now_s: float, done: Done) -> None:  # noqa: ANN401 - plain data
        """Ask whoever listens at `address`. Raises LimitReachedError with too many under way."""
        if len(self._under_way) >= RAFT_ASKS_MAX:
            raise LimitReachedError(f"{RAFT_ASKS_MAX} questions to other members are under way: try again later")
        self._under_way.add(_Inquiry(address, question, now_s + timeout_s, timeout_s, done))

    def tick(self, now_s: float) -> None:
        """Dial whom it is time for, and give up on who is too slow."""
        for inquiry in tuple(self._under_way):
            if now_s >= inquiry.deadline_s:
                told = f"{inquiry.address} has not answered within {inquiry.timeout_s:g} s: is a broker running there?"
                self._end(inquiry, UnavailableError(told))
            elif inquiry.connection is None:
                self._dial(inquiry)

    def close(self) -> None:
        """Ask no more; nobody is told."""
        self._under_way.clear()

    def _dial(self, inquiry: _Inquiry) -> None:
        try:
            dialed = self._dialer.dial(inquiry.address, Purpose.ASK)
        except (OSError, SettingsError, RefusedError) as error:
            self._fail(inquiry, error)
            return
        if dialed is None:
            return
        connection = inquiry.connection = dialed.connection

        def ask(_peer: Peer) -> None:
            connection.send(inquiry.question)

        connection.on_authenticated = ask
        connection.on_message = lambda answer: self._end(inquiry, answer)
        connection.on_end = lambda error: self._fail(inquiry, error)
        dialed.begin()

    def _fail(self, inquiry: _Inquiry, error: Exception) -> None:
        told = f"{inquiry.address} cannot be asked: {error}"
        if isinstance(error, RefusedError):
            self._end(inquiry, PeerRefusedError(told, error.reason))
        elif isinstance(error, SettingsError):
            self._end(inquiry, error)
        else:
            self._end(inquiry, UnavailableError(told))

    def _end(self, inquiry: _Inquiry, answer: Any) -> None:  # noqa: ANN401 - plain data, or an exception
        if inquiry in self._under_way:
            self._under_way.remove(inquiry)
            if inquiry.connection is not None:
                inquiry.connection.close()
            inquiry.done(answer)
