"""What is asked of a Raft port beside Raft, as values and as plain data: who are you, and will you take part.

["probe"]                                   -> {"node_id", "cluster_id", "has_leader", "address", "role", ...}
["invite", cluster id, members, role]       -> True or False
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from danube.metadata.cluster.membership import MemberRole
from danube.metadata.raft.core.node import RaftNode
from danube.metadata.raft.port.refusals import Reason
from danube.model.errors import InvalidRequestError, UnavailableError


class PeerRefusedError(UnavailableError):
    """One side of the connection refused the other; the text says what to do."""

    code = "PEER_REFUSED"

    def __init__(self, message: str, reason: Reason) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What a member says of itself."""

    node_id: int
    cluster_id: str
    """Empty while it takes part in none."""
    has_leader: bool
    address: str
    role: MemberRole
    more: Mapping[str, Any]
    """Whatever else it said; plain data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """What a broker that waits is told when it is added."""

    cluster_id: str
    members: tuple[str, ...]
    """Ids of the voters, as RaftNode has them."""
    role: MemberRole


def probe_question() -> list[Any]:
    """Who are you?"""
    return ["probe"]


def invite_question(invitation: Invitation) -> list[Any]:
    """Take part in this cluster."""
    return ["invite", invitation.cluster_id, list(invitation.members), invitation.role.value]


def read_probe(answer: Any) -> Probe:  # noqa: ANN401 - of a peer
    """The answer to `probe_question`. Raises ValueError."""
    said = dict(_typed(answer, dict))
    fields = {name: _typed(said.pop(name, None), kind) for name, kind in _PROBE.items()}
    return Probe(**fields | {"role": MemberRole(fields["role"])}, more=said)


def read_invitation(words: list[Any]) -> Invitation:
    """The words of `invite_question` behind the first. Raises ValueError, InvalidRequestError."""
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
