"""A network between simulated members of a Raft group: delays, lost connections, late messages, partitions.

It keeps the promises of `RaftTransport` that the core relies on: what is sent over one connection arrives in order or,
when the connection is lost, perhaps not at all; both ends are told of the loss. Beyond what sockets do, a message of a
lost connection may still arrive later.
"""

import itertools
import random
from collections.abc import Callable
from typing import Any

from pysyncobj.transport import Transport

from danube.metadata.cluster.membership import MemberRole
from danube.metadata.raft.values.node import RaftNode
from danube.testing.simulated.clock import SimClock

_LATE_CHANCE = 0.3
_LATE_S_MAX = 3.0


class Agenda(SimClock):
    """Events by their simulated time."""

    def __init__(self) -> None:
        super().__init__(start_s=1_000.0)

    @property
    def now_s(self) -> float:
        return self.monotonic_s()

    def after(self, seconds: float, event: Callable[[], None]) -> None:
        self.call_at(self.now_s + seconds, event)


class SimConnection:
    """One connection between two members that run."""

    def __init__(self, one: "SimTransport", other: "SimTransport") -> None:
        self.ends = (one, other)
        self.is_open = True
        self.free_s = {one: 0.0, other: 0.0}  # when the last message to an end arrives: the next one comes no earlier

    def other_end(self, end: "SimTransport") -> "SimTransport":
        """The one that is not this one."""
        return self.ends[1] if end is self.ends[0] else self.ends[0]


class SimTransport(Transport):  # type: ignore[misc]  # pysyncobj has no types
    """The transport of one life of a member."""

    def __init__(self, network: "SimNetwork", own: RaftNode) -> None:
        super().__init__(None, None, [])
        self.network = network
        self.own = own
        self.role = MemberRole.LEARNER
        self.nodes: set[RaftNode] = set()
        self.is_alive = True
        self.pauses_until_s = 0.0
        self.waiting: list[tuple[RaftNode, Any]] = []  # what came while the member was paused

    @property
    def ready(self) -> bool:
        return True

    def become(self, role: MemberRole) -> None:
        """Drop all connections and nodes, and go on with this role."""
        self.network.drop_all(self)
        self.nodes.clear()
        self.role = role

    def addNode(self, node: RaftNode) -> None:  # noqa: N802 - pysyncobj's name
        self.nodes.add(node)
        self.network.know(self, node)

    def dropNode(self, node: RaftNode) -> None:  # noqa: N802 - pysyncobj's name
        self.nodes.discard(node)
        self.network.cut(self.own, node)

    def hears(self, node: RaftNode) -> bool:
        """True with a connection, even with an unknown peer."""
        return self.network.is_connected(self.own, node)

    def has_room(self, node: RaftNode) -> bool:  # noqa: ARG002 - as the real one
        return True

    def send(self, node: RaftNode, message: Any) -> bool:  # noqa: ANN401 - plain data
        return self.network.send(self, node, message)

    def destroy(self) -> None:
        self.is_alive = False
        self.network.drop_all(self)

    def connected(self, node: RaftNode, role: MemberRole) -> None:
        if role is MemberRole.VOTER:
            self._onNodeConnected(node)
        else:
            self._onReadonlyNodeConnected(node)

    def disconnected(self, node: RaftNode, role: MemberRole) -> None:
        if role is MemberRole.VOTER:
            self._onNodeDisconnected(node)
        else:
            self._onReadonlyNodeDisconnected(node)

    def deliver(self, node: RaftNode, message: Any) -> None:  # noqa: ANN401 - plain data
        self._onMessageReceived(node, message)


class SimNetwork:
    """All members' connections."""

    def __init__(
        self, agenda: Agenda, chance: random.Random, deliver: Callable[[SimTransport, RaftNode, Any], None]
    ) -> None:
        """`deliver` hands a message to the member behind a transport."""
        self._agenda = agenda
        self._chance = chance
        self._deliver = deliver
        self._running: dict[RaftNode, SimTransport] = {}
        self._open: dict[frozenset[RaftNode], SimConnection] = {}
        self._roles: dict[tuple[SimConnection, SimTransport], MemberRole | None] = {}
        """As what the other end is known; None for an unknown peer, which is reported to nobody."""
        self.side: dict[RaftNode, int] = {}  # members on different sides cannot reach each other
        self.longest_s = 0.02  # a message takes up to this long

    def start(self, transport: SimTransport) -> None:
        self._running[transport.own] = transport

    def connect(self) -> None:
        """Connect all who want to and can; to be called again and again."""
        for one, other in itertools.combinations(sorted(self._running.values(), key=lambda each: str(each.own.id)), 2):
            pair = frozenset((one.own, other.own))
            if pair not in self._open and self._reaches(one, other) and _want(one, other):
                self._establish(pair, one, other)

    def cut(self, one: RaftNode, other: RaftNode) -> None:
        connection = self._open.get(frozenset((one, other)))
        if connection is not None:
            self._lose(connection)

    def cut_between_sides(self) -> None:
        """Have all connections lost that cross sides."""
        for connection in list(self._open.values()):
            if not self._reaches(*connection.ends):
                self._lose(connection)

    def drop_all(self, transport: SimTransport) -> None:
        """One end is gone, or begins anew."""
        for connection in list(self._open.values()):
            if transport in connection.ends:
                self._lose(connection)
        if not transport.is_alive and self._running.get(transport.own) is transport:
            del self._running[transport.own]

    def know(self, transport: SimTransport, node: RaftNode) -> None:
        """One end knows this voter from now on, which may be an unknown peer to it."""
        connection = self._open.get(frozenset((transport.own, node)))
        if connection is not None and self._roles[connection, transport] is None:
            self._roles[connection, transport] = MemberRole.VOTER
            transport.connected(node, MemberRole.VOTER)

    def is_connected(self, one: RaftNode, other: RaftNode) -> bool:
        return frozenset((one, other)) in self._open

    def send(self, sender: SimTransport, node: RaftNode, message: Any) -> bool:  # noqa: ANN401 - plain data
        """Send over the open connection; False without one."""
        connection = self._open.get(frozenset((sender.own, node)))
        if connection is None:
            return False
        receiver = connection.other_end(sender)
        arrives_s = max(connection.free_s[receiver], self._agenda.now_s + self._chance.uniform(0.0005, self.longest_s))
        connection.free_s[receiver] = arrives_s
        self._agenda.after(arrives_s - self._agenda.now_s, lambda: self._arrive(connection, sender, message))
        return True

    def _arrive(self, connection: SimConnection, sender: SimTransport, message: Any) -> None:  # noqa: ANN401 - plain data
        receiver = connection.other_end(sender)
        if not connection.is_open:
            if self._chance.random() < _LATE_CHANCE:
                late_s = self._chance.uniform(0, _LATE_S_MAX)
                self._agenda.after(late_s, lambda: self._arrive_late(receiver, sender, message))
            return
        self._receive(receiver, sender.own, message)

    def _arrive_late(self, receiver: SimTransport, sender: SimTransport, message: Any) -> None:  # noqa: ANN401 - as above
        current = self._running.get(receiver.own)
        if current is not None and sender.own in current.nodes:
            self._receive(current, sender.own, message)

    def _receive(self, receiver: SimTransport, sender: RaftNode, message: Any) -> None:  # noqa: ANN401 - as above
        if not receiver.is_alive:
            return
        if self._agenda.now_s < receiver.pauses_until_s:
            receiver.waiting.append((sender, message))
        else:
            self._deliver(receiver, sender, message)

    def _reaches(self, one: SimTransport, other: SimTransport) -> bool:
        return self.side.get(one.own, 0) == self.side.get(other.own, 0)

    def _establish(self, pair: frozenset[RaftNode], one: SimTransport, other: SimTransport) -> None:
        connection = self._open[pair] = SimConnection(one, other)
        for end in connection.ends:
            self._roles[connection, end] = _known_as(connection.other_end(end), end)
        for end in connection.ends:
            peer, role = connection.other_end(end).own, self._roles.get((connection, end))
            if role is not None:
                end.connected(peer, role)

    def _lose(self, connection: SimConnection) -> None:
        one, other = connection.ends
        connection.is_open = False
        del self._open[frozenset((one.own, other.own))]
        for end in connection.ends:
            role = self._roles.pop((connection, end))
            if end.is_alive and role is not None:
                end.disconnected(connection.other_end(end).own, role)


def _known_as(peer: SimTransport, end: SimTransport) -> MemberRole | None:
    is_unknown_peer = peer.role is MemberRole.VOTER and end.role is MemberRole.VOTER and peer.own not in end.nodes
    return None if is_unknown_peer else peer.role


def _want(one: SimTransport, other: SimTransport) -> bool:
    """Voters of whom one knows the other, and a learner with a voter that it knows."""
    if one.role is MemberRole.VOTER and other.role is MemberRole.VOTER:
        return other.own in one.nodes or one.own in other.nodes
    if one.role is other.role:
        return False
    learner, voter = (one, other) if one.role is MemberRole.LEARNER else (other, one)
    return voter.own in learner.nodes
