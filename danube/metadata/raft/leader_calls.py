"""Calls to the leader through any member: changes of membership, and the leader's status.

Between members, as messages beside Raft's, in plain data:

    {"type": "ask", "number", "what", "argument"}       what: add, promote, remove, transfer or look
    {"type": "answer", "number", "result"}              result: as `pack_result`
    {"type": "removed"}                                 of the leader: this learner was removed

A member that does not know a question answers an error.
"""

import asyncio
import itertools
from functools import partial
from typing import Any

from pysyncobj.node import Node

from danube.metadata.cluster.membership import Member as MemberView
from danube.metadata.cluster.membership import MemberRole, MembershipStatus
from danube.metadata.raft.core.message_filter import Message
from danube.metadata.raft.local_node import LocalNode
from danube.metadata.raft.membership import Changes, as_leader_knows
from danube.metadata.raft.thread import RaftThread
from danube.metadata.raft.values.node import RaftNode
from danube.model.errors import (
    DanubeError,
    InvalidRequestError,
    LimitReachedError,
    NotFoundError,
    PreconditionFailedError,
    UnavailableError,
)
from danube.model.limits.metadata import (
    RAFT_ASK_TIMEOUT_S,
    RAFT_ASKED_MAX,
    RAFT_CATCH_UP_TIMEOUT_S,
    RAFT_LOOK_TIMEOUT_S,
    RAFT_MEMBER_ID_BYTES_MAX,
    RAFT_MEMBERS_TOLD_MAX,
)
from danube.runtime.tasks import TaskScope, resolve

NO_LEADER = "no broker leads the metadata cluster: see to it that a majority of its voters runs and is connected"

_GOING_DOWN = "this broker went down before the leader had answered: look at `danube-admin cluster status` of another"
_UNREADABLE = "the leader answered what cannot be read: upgrade this broker"


class LeaderCalls:
    """One member's part in it, asking and answering. On the event loop, unless said otherwise."""

    def __init__(self, local_node: LocalNode, thread: RaftThread, tasks: TaskScope) -> None:
        self._local_node = local_node
        self._thread = thread
        self._tasks = tasks
        self._changes = Changes(local_node, thread)
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._asked_of: dict[int, Node] = {}
        self._answering = 0
        self._is_closed = False

    def close(self) -> None:
        """Answer no more, and have nobody wait for an answer. Idempotent."""
        self._is_closed = True
        for asked in self._asked.values():
            resolve(asked, pack_result(UnavailableError(_GOING_DOWN)))

    async def change(self, what: str, argument: Any) -> Any:  # noqa: ANN401 - plain data
        """Have the leader carry out a change. Raises as `Membership` says."""
        view = await self._view()
        if view.leader_id == view.node_id:
            return await self._changes.carry_out(what, argument)
        try:
            async with asyncio.timeout(RAFT_ASK_TIMEOUT_S + RAFT_CATCH_UP_TIMEOUT_S):
                return await self._ask(what, argument)
        except TimeoutError:
            raise UnavailableError("the leader did not answer: see `danube-admin cluster status`, try again") from None

    async def leader_status(self) -> MembershipStatus:
        """Status as the leader knows it, straight from Raft's thread.

        Raises DanubeError without a leader's answer, and TimeoutError after RAFT_LOOK_TIMEOUT_S.
        """
        async with asyncio.timeout(RAFT_LOOK_TIMEOUT_S):
            view = await self._view()
            if view.leader_id == view.node_id:
                return view
            told = await self._ask("look", None)
        if not isinstance(told, MembershipStatus):
            raise UnavailableError(_UNREADABLE)
        return as_leader_knows(view, told)

    def receive(self, node: Node, message: Message) -> None:
        """In Raft's thread: another member asks, answers, or sends this one away."""
        match message:
            case {"type": "ask", "number": int(number), "what": "look"}:
                self._send_answer(node, number, self._how_things_stand())
            case {"type": "ask", "number": int(number), "what": str(what), "argument": argument}:
                self._thread.tell(self._answer, node, number, what, argument)
            case {"type": "answer", "number": int(number), "result": dict(result)}:
                self._thread.tell(self._answered, node, number, result)
            case {"type": "removed"}:
                member = self._local_node.member
                if member is not None and node == member.core.leader():
                    member.removed()

    # Asking

    async def _view(self) -> MembershipStatus:
        """Status here and now. Raises UnavailableError while nobody leads."""
        view = await self._thread.call(self._local_node.view)
        if view.leader_id == 0:
            raise UnavailableError(NO_LEADER)
        return view

    async def _ask(self, what: str, argument: Any) -> Any:  # noqa: ANN401 - plain data
        if len(self._asked) >= RAFT_ASKED_MAX:
            raise LimitReachedError(f"{RAFT_ASKED_MAX} calls wait for the leader already: try again later")
        number, answered = next(self._numbers), asyncio.get_running_loop().create_future()
        self._asked[number] = answered
        try:
            message = {"type": "ask", "number": number, "what": what, "argument": argument}
            if not await self._thread.call(partial(self._send_to_leader, message)):
                raise UnavailableError(NO_LEADER)
            result = unpack_result(await answered)
        finally:
            del self._asked[number]
            self._asked_of.pop(number, None)
        if isinstance(result, Exception):
            raise result
        return result

    def _send_to_leader(self, message: Message) -> bool:
        member = self._local_node.member
        leader = member.core.leader() if member is not None else None
        if member is None or leader is None:
            return False
        self._thread.tell(self._is_asked, leader, message["number"])  # known before the answer can be
        return member.send(leader, message)

    def _is_asked(self, leader: Node, number: int) -> None:
        if number in self._asked:
            self._asked_of[number] = leader

    def _answered(self, node: Node, number: int, result: dict[str, Any]) -> None:
        """Only who was asked answers: what another member says under that number is nobody's answer."""
        if self._asked_of.get(number) == node:
            resolve(self._asked.get(number), result)

    # Answering

    def _how_things_stand(self) -> dict[str, Any]:
        """In Raft's thread: status of this member, if it leads."""
        view = self._local_node.view()
        leads = view.leader_id == view.node_id
        return pack_result(view if leads else UnavailableError("this member does not lead any more: try again"))

    def _answer(self, node: Node, number: int, what: str, argument: Any) -> None:  # noqa: ANN401 - plain data
        if not self._is_closed:
            self._tasks.spawn(self._carry_out_for(node, number, what, argument), "a change for another member")

    async def _carry_out_for(self, node: Node, number: int, what: str, argument: Any) -> None:  # noqa: ANN401 - plain data
        self._answering += 1
        try:
            if self._answering > RAFT_ASKED_MAX:
                raise LimitReachedError(f"{RAFT_ASKED_MAX} changes of membership wait already: try again later")
            result = pack_result(await self._changes.carry_out(what, argument))
        except DanubeError as error:
            result = pack_result(error)
        finally:
            self._answering -= 1
        self._thread.order(partial(self._send_answer, node, number, result))

    def _send_answer(self, node: Node, number: int, result: dict[str, Any]) -> None:
        if self._local_node.member is not None:
            self._local_node.member.send(node, {"type": "answer", "number": number, "result": result})


PACKED_ERRORS: dict[str, type[DanubeError]] = {
    kind.__name__: kind for kind in (InvalidRequestError, NotFoundError, PreconditionFailedError, UnavailableError)
}
"""Errors that one member may have another raise."""


def pack_result(value: object) -> dict[str, Any]:
    """Result of a call as plain data for the member that asked."""
    match value:
        case Exception():
            kind = next((name for name, error in PACKED_ERRORS.items() if isinstance(value, error)), "UnavailableError")
            return {"error": kind, "text": str(value)}
        case MemberView():
            return {"member": _pack_member(value)}
        case MembershipStatus():
            told = value.members[:RAFT_MEMBERS_TOLD_MAX]
            return {"leader": [value.node_id, value.term], "members": [_pack_member(member) for member in told]}
    return {"value": value}


def unpack_result(message: dict[str, Any]) -> Any:  # noqa: ANN401 - a value, or an error to raise
    """Reverse of `pack_result`; a status has the reporting member, its term and the members.

    Answers an UnavailableError for anything else.
    """
    try:
        match message:
            case {"error": str(kind), "text": str(text)}:
                return PACKED_ERRORS.get(kind, UnavailableError)(text[:1_000])
            case {"member": member}:
                return _unpack_member(member)
            case {"leader": [int(by), int(term)], "members": list(members)} if len(members) <= RAFT_MEMBERS_TOLD_MAX:
                told = tuple(_unpack_member(member) for member in members)
                return MembershipStatus(kind="raft", node_id=by, leader_id=by, term=term, members=told)
            case {"value": int() | None as value}:
                return value
    except InvalidRequestError:
        pass
    return UnavailableError(_UNREADABLE)


def _pack_member(member: MemberView) -> list[Any]:
    lag = -1 if member.lag is None else member.lag
    return [member.node_id, member.address, member.role.value, member.connected, lag]


def _unpack_member(packed: object) -> MemberView:
    """Raises InvalidRequestError for what is no member, and for an address that a terminal would not take as text."""
    match packed:
        case [int(node_id), str(address), "voter" | "learner" as role, bool(connected), int(lag)] if _is_shown(address):
            RaftNode.of(node_id, address)
            shown = None if lag < 0 else lag
            return MemberView(node_id=node_id, address=address, role=MemberRole(role), connected=connected, lag=shown)
    raise InvalidRequestError("no member of a cluster")


def _is_shown(address: str) -> bool:
    return address.isprintable() and len(address) <= RAFT_MEMBER_ID_BYTES_MAX
