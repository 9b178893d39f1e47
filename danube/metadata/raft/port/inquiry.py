"""Questions to a Raft port beside Raft: one connection for one question and its answer, as plain data.

["probe"]                                   -> {"node_id", "cluster_id", "has_leader", "address", "role", ...}
["invite", cluster id, members, role]       -> True or False
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from danube.metadata.cluster.membership import MemberRole
from danube.metadata.raft.port.connection import Connection
from danube.metadata.raft.port.dialer import Dialer
from danube.metadata.raft.port.handshake import Peer, Purpose
from danube.metadata.raft.port.refusals import Reason, RefusedError
from danube.metadata.raft.values.node import RaftNode
from danube.model.errors import InvalidRequestError, LimitReachedError, SettingsError, UnavailableError
from danube.model.limits.metadata import RAFT_ASKS_MAX


class PeerRefusedError(UnavailableError):
    """One side of the connection refused the other; the text says what to do."""

    code = "PEER_REFUSED"

    def __init__(self, message: str, reason: Reason) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Answer of a member about itself."""

    node_id: int
    cluster_id: str
    """Empty while it takes part in none."""
    has_leader: bool
    address: str
    role: MemberRole
    more: Mapping[str, Any]
    """All other fields of its answer; plain data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """Invitation to a broker that waits to be added."""

    cluster_id: str
    members: tuple[str, ...]
    """Ids of the voters, as RaftNode has them."""
    role: MemberRole


def read_probe(answer: Any) -> Probe:  # noqa: ANN401 - of a peer
    """The answer to a probe. Raises ValueError."""
    said = dict(_typed(answer, dict))
    fields = {name: _typed(said.pop(name, None), kind) for name, kind in _PROBE.items()}
    return Probe(**fields | {"role": MemberRole(fields["role"])}, more=said)


def read_invitation(words: list[Any]) -> Invitation:
    """The words of an invitation behind the first. Raises ValueError, InvalidRequestError."""
    if len(words) != 3:
        raise ValueError("an invitation has three words")
    cluster_id, members, role = (_typed(word, kind) for word, kind in zip(words, (str, list, str), strict=True))
    names = tuple(str(RaftNode(_typed(member, str)).id) for member in members)
    return Invitation(cluster_id=cluster_id, members=names, role=MemberRole(role))


def answer(question: Any, on_probe: Callable[[], Any], on_invite: Callable[[Invitation], bool]) -> Any:  # noqa: ANN401
    """The answer to a question. Raises ValueError for what is none."""
    if not isinstance(question, list) or not question:
        raise ValueError("no question")
    try:
        match question:
            case ["probe"]:
                return on_probe()
            case ["invite", *words]:
                return on_invite(read_invitation(words))
    except InvalidRequestError as error:
        raise ValueError(str(error)) from error
    raise ValueError("an unknown question")


_PROBE: dict[str, type] = {"node_id": int, "cluster_id": str, "has_leader": bool, "address": str, "role": str}


def _typed(value: Any, kind: type) -> Any:  # noqa: ANN401 - of a peer
    if type(value) is not kind:
        raise ValueError(f"a {kind.__name__} was expected")
    return value


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

    def __init__(self, dialer: Dialer) -> None:
        self._dialer = dialer
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
        """Drop all questions without an answer."""
        self._under_way.clear()

    def _dial(self, inquiry: _Inquiry) -> None:
        try:
            connection = self._dialer.dial(inquiry.address, Purpose.ASK)
        except (OSError, SettingsError, RefusedError) as error:
            self._fail(inquiry, error)
            return
        if connection is None:
            return
        inquiry.connection = connection

        def ask(_peer: Peer) -> None:
            connection.send(inquiry.question)

        connection.on_authenticated = ask
        connection.on_message = lambda answer: self._end(inquiry, answer)
        connection.on_end = lambda error: self._fail(inquiry, error)
        connection.begin()

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
