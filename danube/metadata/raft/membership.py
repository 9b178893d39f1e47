"""Changes of membership, one at a time, carried out by the leader; and the rules that refuse them.

`refuse_promotion`, `refuse_removal` and `refuse_transfer` decide, and `as_leader_knows` merges, without effects.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

from danube.metadata.cluster.membership import Member, MemberRole, MembershipStatus
from danube.metadata.raft.bootstrap import is_sound
from danube.metadata.raft.local_node import LocalNode
from danube.metadata.raft.member import Member as RaftMember
from danube.metadata.raft.port.inquiry import Invitation, Probe
from danube.metadata.raft.thread import RaftThread
from danube.metadata.raft.values.node import RaftNode
from danube.model.errors import (
    InvalidRequestError,
    NotFoundError,
    PreconditionFailedError,
    UnavailableError,
)
from danube.model.limits.metadata import (
    RAFT_ASK_TIMEOUT_S,
    RAFT_CATCH_UP_ENTRIES_MAX,
    RAFT_CATCH_UP_TIMEOUT_S,
    RAFT_LOOK_S,
    RAFT_PROBE_TIMEOUT_S,
    RAFT_TRANSFER_TIMEOUT_S,
    RAFT_VOTES_MAX,
)


def member_of(status: MembershipStatus, node_id: int) -> Member:
    """The member with this id. Raises NotFoundError."""
    for member in status.members:
        if member.node_id == node_id:
            return member
    raise NotFoundError(f"no member of the cluster has the id {node_id}: `danube-admin cluster status` lists them")


def voters_of(status: MembershipStatus) -> list[Member]:
    """Members with a vote."""
    return [member for member in status.members if member.role is MemberRole.VOTER]


def refuse_promotion(status: MembershipStatus, member: Member) -> None:
    """Raise PreconditionFailedError if this learner must not get a vote now."""
    if not member.connected:
        raise PreconditionFailedError(f"member {member.node_id} is not connected: start it, then promote it")
    if member.lag is None:
        raise PreconditionFailedError(
            f"member {member.node_id} has not said yet how much of the log it has: try again in a moment"
        )
    if member.lag > RAFT_CATCH_UP_ENTRIES_MAX:
        raise PreconditionFailedError(
            f"member {member.node_id} lacks {member.lag} entries of the log: try again when it lacks fewer than"
            f" {RAFT_CATCH_UP_ENTRIES_MAX}"
        )
    if len(voters_of(status)) >= RAFT_VOTES_MAX:
        raise PreconditionFailedError(
            f"the cluster has {RAFT_VOTES_MAX} voters, the most there may be: remove one first, or let this one learn"
        )


def refuse_removal(status: MembershipStatus, member: Member) -> None:
    """Raise PreconditionFailedError if this member must not be removed now."""
    if member.role is MemberRole.LEARNER:
        return
    voters = voters_of(status)
    if len(voters) == 1:
        raise PreconditionFailedError("this is the last voter: without it there is no cluster")
    if member.node_id == status.leader_id:
        raise PreconditionFailedError(
            f"member {member.node_id} leads: run `danube-admin cluster transfer-leader` first, then remove it"
        )
    rest = [voter for voter in voters if voter.node_id != member.node_id]
    connected = sum(voter.connected for voter in rest)
    if 2 * connected <= len(rest):
        raise PreconditionFailedError(
            f"of the {len(rest)} voters that would remain only {connected} are connected, which is no majority: start"
            " the others first"
        )


def refuse_transfer(status: MembershipStatus, node_id: int | None) -> None:
    """Raise if this member cannot lead now."""
    others = [voter for voter in voters_of(status) if voter.node_id != status.leader_id]
    if node_id is not None:
        member = member_of(status, node_id)
        if member.role is not MemberRole.VOTER:
            raise PreconditionFailedError(f"member {node_id} has no vote: promote it first")
        others = [member]
    if not any(voter.connected for voter in others):
        raise PreconditionFailedError("no other voter that could lead is connected: start one first")


def as_leader_knows(own: MembershipStatus, told: MembershipStatus) -> MembershipStatus:
    """Status of this member, with the members as their leader reported them. `own` where another one reported.

    A learner that the leader does not name is connected with this member alone: it is shown as not connected.
    """
    if (told.node_id, told.term) != (own.leader_id, own.term):
        return own
    named = {member.node_id for member in told.members}
    unreached = [
        replace(member, connected=False, lag=None)
        for member in own.members
        if member.node_id not in named and member.role is MemberRole.LEARNER
    ]
    return replace(own, members=tuple(sorted((*told.members, *unreached), key=lambda member: member.node_id)))


class Changes:
    """Changes that the leader carries out. On the event loop; one after the other."""

    def __init__(self, local_node: LocalNode, thread: RaftThread) -> None:
        self._local_node = local_node
        self._thread = thread
        self._turn = asyncio.Lock()

    async def carry_out(self, what: str, argument: Any) -> Any:  # noqa: ANN401 - plain data
        """One of `add`, `promote`, `remove` and `transfer`. Raises as `Membership` says."""
        steps: dict[str, Callable[[Any], Awaitable[Any]]] = {
            "add": self._add,
            "promote": self._promote,
            "remove": self._remove,
            "transfer": self._transfer,
        }
        if what not in steps:
            raise InvalidRequestError("no such change of membership: upgrade this broker")
        try:
            async with asyncio.timeout(RAFT_ASK_TIMEOUT_S + RAFT_CATCH_UP_TIMEOUT_S), self._turn:
                return await steps[what](_checked(what, argument))
        except TimeoutError:
            raise UnavailableError(
                "the change of membership took too long, and may still be made: look at `danube-admin cluster status`"
            ) from None

    async def _status(self) -> MembershipStatus:
        """Current status. Raises UnavailableError when this member does not lead any more."""
        status = await self._thread.call(self._local_node.view)
        if status.leader_id != self._local_node.own.node_id:
            raise UnavailableError("the leader has changed meanwhile: look at the status, then try again")
        return status

    async def _until(self, holds: Callable[[MembershipStatus], bool], seconds: float, or_else: str) -> MembershipStatus:
        """Look again and again. Raises UnavailableError with `or_else` when it does not come about."""
        for _ in range(round(seconds / RAFT_LOOK_S)):
            status = await self._status()
            if holds(status):
                return status
            await asyncio.sleep(RAFT_LOOK_S)
        raise UnavailableError(or_else)

    # Adding

    async def _add(self, argument: tuple[str, int | None]) -> Member:
        address, node_id = argument
        status, probe = await self._status(), await self._probe(address)
        if node_id is not None and probe.node_id != node_id:
            raise PreconditionFailedError(
                f"the broker at {address} is {probe.node_id} and not {node_id}: see whether the address is right"
            )
        known = [member for member in status.members if member.node_id == probe.node_id]
        if known and known[0].connected:
            return known[0]
        if probe.cluster_id == "":
            await self._invite(address)
        elif probe.cluster_id != self._local_node.cluster_id:
            raise PreconditionFailedError(
                f"the broker at {address} belongs to another cluster ({probe.cluster_id}): to have it take part in this"
                " one, move its folder `raft` away and start it with --join"
            )
        late = f"the broker at {address} was invited and has not got the log in time: see its log, then add it again"
        status = await self._until(lambda now: _has_log(now, probe.node_id), RAFT_CATCH_UP_TIMEOUT_S, late)
        return member_of(status, probe.node_id)

    async def _probe(self, address: str) -> Probe:
        try:
            RaftNode.of(1, address)
        except InvalidRequestError:
            raise InvalidRequestError(
                f"{address[:80]!r} is no address of a Raft port: it must look like 10.0.0.5:7650"
            ) from None
        transport = self._local_node.transport
        probe: Probe = await self._thread.ask(partial(transport.probe, address, RAFT_PROBE_TIMEOUT_S))
        if not is_sound(probe):
            raise UnavailableError(f"what listens at {address} answers what cannot be read: see what runs there")
        return probe

    async def _invite(self, address: str) -> None:
        def invite(answer: Callable[[Any], None]) -> None:
            voters = tuple(sorted(self._member.voters()))
            invitation = Invitation(cluster_id=self._local_node.cluster_id, members=voters, role=MemberRole.LEARNER)
            self._local_node.transport.invite(address, invitation, RAFT_PROBE_TIMEOUT_S, answer)

        if not await self._thread.ask(invite):
            raise PreconditionFailedError(
                f"the broker at {address} does not wait to be added: start it with --join, and without data of another"
                " cluster"
            )

    # The others

    async def _promote(self, node_id: int) -> Member:
        status = await self._status()
        member = member_of(status, node_id)
        if member.role is not MemberRole.VOTER:
            refuse_promotion(status, member)
            await self._change("add", RaftNode.of(member.node_id, member.address))
        late = f"member {node_id} was given a vote and has not come back with it yet: see its log"
        status = await self._until(lambda now: _votes(now, node_id), RAFT_ASK_TIMEOUT_S, late)
        return member_of(status, node_id)

    async def _remove(self, node_id: int) -> None:
        status = await self._status()
        member = member_of(status, node_id)
        refuse_removal(status, member)
        node = RaftNode.of(member.node_id, member.address)
        if member.role is MemberRole.VOTER:
            await self._change("rem", node)
        else:
            await self._thread.call(lambda: self._member.send(node, {"type": "removed"}))
        late = f"member {node_id} is being removed, which the others have not agreed on yet: look at the status"
        await self._until(lambda now: all(other.node_id != node_id for other in now.members), RAFT_ASK_TIMEOUT_S, late)

    async def _change(self, what: str, node: RaftNode) -> None:
        """Put the change in the log, and wait until it is agreed on."""
        index = await self._thread.call(lambda: self._member.change(what, node))
        late = "the change of membership is in the log and not agreed on yet: see to it that a majority runs"
        await self._until(lambda now: now.position >= index, RAFT_ASK_TIMEOUT_S, late)

    async def _transfer(self, node_id: int | None) -> int:
        status = await self._status()
        if node_id == status.leader_id:
            return status.leader_id
        refuse_transfer(status, node_id)
        try:
            for _ in range(round(RAFT_TRANSFER_TIMEOUT_S / RAFT_LOOK_S)):
                await self._thread.call(lambda: self._member.transfer_lead(node_id))
                await asyncio.sleep(RAFT_LOOK_S)
                now = await self._thread.call(self._local_node.view)
                if now.leader_id not in (0, status.leader_id):
                    return now.leader_id
        finally:
            await self._thread.call(lambda: self._member.hold_proposals(0.0))
        raise UnavailableError("no other voter has taken over the lead, and it stays: see whether the others keep up")

    @property
    def _member(self) -> RaftMember:
        """In Raft's thread."""
        member = self._local_node.member
        assert member is not None  # noqa: S101 - it leads
        return member


def _checked(what: str, argument: Any) -> Any:  # noqa: ANN401 - plain data, of another member
    match what, argument:
        case ("add", (str(), int() | None)) | ("promote" | "remove", int()) | ("transfer", int() | None):
            return argument
    raise InvalidRequestError("a change of membership that cannot be read: upgrade this broker")


def _has_log(status: MembershipStatus, node_id: int) -> bool:
    return any(
        member.node_id == node_id and member.connected and member.lag is not None and member.lag <= 1
        for member in status.members
    )


def _votes(status: MembershipStatus, node_id: int) -> bool:
    return any(voter.node_id == node_id and voter.connected for voter in voters_of(status))
