"""Transport of the Raft port: messages of SyncObj, and two questions that others may ask.

A peer authenticates first (`handshake`, `tls`): until then nothing of it is read as a message, and it has little room
and time. Messages are plain data (`encoding`). `docs/raft-port.md` says what that protects.

Of two voters the one with the larger id dials, and after a while the other one, too; learners dial all voters. A voter
of this cluster that this member does not know (yet) is an unknown peer: its messages are delivered and it can be
answered, and it does not count as connected. All runs in Raft's thread, driven by its poller and by `tick`.
"""

import logging
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pysyncobj.transport import Transport

from danube.metadata.cluster.membership import MemberRole
from danube.metadata.raft.core.poller import Poller
from danube.metadata.raft.port import inquiry
from danube.metadata.raft.port.addresses import Listener
from danube.metadata.raft.port.connection import Acceptor, Connection
from danube.metadata.raft.port.dialer import Dialer, TransportSettings
from danube.metadata.raft.port.handshake import Identity, Peer, Purpose
from danube.metadata.raft.port.inquiry import Inquiries, Invitation, Probe
from danube.metadata.raft.port.refusals import LogSuppressor, Reason, RefusedError
from danube.metadata.raft.values.encoding import EncodingError
from danube.metadata.raft.values.node import RaftNode
from danube.model.errors import SettingsError, UnavailableError
from danube.model.limits.metadata import (
    RAFT_ANSWER_TIMEOUT_S,
    RAFT_DIAL_ANYWAY_S,
    RAFT_PEERS_MAX,
    RAFT_SEND_ROOM_BYTES,
    RAFT_UNKNOWN_PEERS_MAX,
)
from danube.runtime.clock import Clock

_log = logging.getLogger(__name__)


class RaftTransport(Transport):  # type: ignore[misc]  # pysyncobj has no types
    """One port, for the life of the process. SyncObj adds no nodes to a transport that it is given: whoever gives it
    calls `addNode` for each.

    Raises SettingsError for settings that would let unknown peers in, and for certificates that cannot be used; the
    listener is closed then.
    """

    def __init__(  # noqa: PLR0917 - what it is made of
        self,
        settings: TransportSettings,
        own: RaftNode,
        role: MemberRole,
        poller: Poller,
        clock: Clock,
        listener: Listener,
    ) -> None:
        super().__init__(None, own, ())
        self._settings = settings
        self._own = own
        self._role = role
        self._clock = clock
        self.address = listener.address
        """`host:port` where it listens."""
        self.on_probe: Callable[[], Mapping[str, Any]] = dict
        """Answer to a probe beside this member's identity: `has_leader`, and other plain data."""
        self.on_invite: Callable[[Invitation], bool] = lambda _invitation: False
        """True if the invitation is accepted."""
        self._links: dict[RaftNode, _Link] = {}
        self._learners: dict[RaftNode, Connection] = {}
        self._unknown_peers: dict[RaftNode, Connection] = {}
        self._asking: dict[Connection, float] = {}
        """Connections of peers that ask a question, with their deadlines."""
        self._log_suppressor = LogSuppressor()
        try:
            settings.check(loopback=listener.is_loopback)
            self._dialer = Dialer(settings, poller, clock, self._identity)
        except SettingsError:
            listener.close()
            raise
        self._inquiries = Inquiries(self._dialer)
        self._acceptor = Acceptor(listener, poller, self._enter, partial(self._log_line, logging.WARNING))

    # What SyncObj asks of a transport, `ready`, `tryGetReady` and `waitReady` being what it inherits: it is ready.

    def addNode(self, node: RaftNode) -> None:  # noqa: N802 - as pysyncobj calls it
        """Be connected with this voter from now on; an unknown peer is told as connected. Idempotent."""
        link = self._links.setdefault(node, _Link(node, self._clock.monotonic_s()))
        unknown_peer = self._unknown_peers.pop(node, None)
        if unknown_peer is not None:
            self._keep_voter(link, unknown_peer)

    def dropNode(self, node: RaftNode) -> None:  # noqa: N802 - as pysyncobj calls it
        """Be connected with it no more; it is told as disconnected if it was connected. Idempotent."""
        self._disconnect(node)
        link = self._links.pop(node, None)
        if link is not None:
            link.close()

    def send(self, node: RaftNode, message: Any) -> bool:  # noqa: ANN401 - plain data
        """Send a message to a node; False when it is not connected, or is disconnected because it takes nothing."""
        connection = self._connection_of(node)
        if connection is None:
            return False
        try:
            return connection.send(message)
        except EncodingError as error:
            self._log_line(logging.ERROR, str(node.id), f"a message cannot be sent: {error}. This is a fault of Danube")
            return False

    def destroy(self) -> None:
        """Connect no more, listen no more, call nobody any more. Idempotent."""
        self.setOnMessageReceivedCallback(None)
        self.setOnNodeConnectedCallback(None)
        self.setOnNodeDisconnectedCallback(None)
        self.setOnReadonlyNodeConnectedCallback(None)
        self.setOnReadonlyNodeDisconnectedCallback(None)
        self.become(self._role)
        self._asking.clear()
        self._inquiries.close()
        self._dialer.close()
        self._acceptor.close()

    # What is ours.

    def become(self, role: MemberRole, own: RaftNode | None = None) -> None:
        """Take part with another role from now on, known by all anew: all members are disconnected and forgotten, and
        SyncObj's callbacks are not called for them.
        """
        for link in self._links.values():
            link.close()
        for connection in (*self._learners.values(), *self._unknown_peers.values()):
            connection.close()
        self._links.clear()
        self._learners.clear()
        self._unknown_peers.clear()
        self._role, self._own = role, own or self._own

    def tick(self) -> None:
        """Let time pass: dial, retry, give up. To be called often, between two calls of the poller."""
        now_s = self._clock.monotonic_s()
        self._acceptor.tick(now_s)
        self._dialer.tick(now_s)
        self._inquiries.tick(now_s)
        for link in tuple(self._links.values()):
            if self._is_due(link, now_s):
                self._dial(link, now_s)
        for connection, until_s in tuple(self._asking.items()):
            if now_s >= until_s:
                connection.close()
            if not connection.is_open:
                del self._asking[connection]

    def has_room(self, node: RaftNode) -> bool:
        """True if little enough waits for this node that more than news may be sent to it."""
        connection = self._connection_of(node)
        return connection is not None and connection.pending_bytes <= RAFT_SEND_ROOM_BYTES

    def hears(self, node: RaftNode) -> bool:
        """True if this node is connected, if only as an unknown peer."""
        return self._connection_of(node) is not None

    def connected(self) -> frozenset[RaftNode]:
        """The members that are connected now, unknown peers aside."""
        return frozenset(link.node for link in self._links.values() if link.connection) | frozenset(self._learners)

    def probe(self, address: str, timeout_s: float, done: Callable[[Probe | Exception], None]) -> None:
        """Ask whoever listens at `address` who it is. `done` is called once, later: with UnavailableError when there is
        no answer, with PeerRefusedError when one of both refused the other.
        """
        self._ask(address, ["probe"], timeout_s, partial(_read, address), done)

    def invite(
        self, address: str, invitation: Invitation, timeout_s: float, done: Callable[[bool | Exception], None]
    ) -> None:
        """Ask whoever listens at `address` to take part; answers whether it will. `done` is called as for `probe`."""
        question = ["invite", invitation.cluster_id, list(invitation.members), invitation.role.value]
        self._ask(address, question, timeout_s, lambda answer: answer is True, done)

    def _ask(
        self,
        address: str,
        question: list[Any],
        timeout_s: float,
        read: Callable[[Any], Any],
        done: Callable[[Any], None],
    ) -> None:
        def answered(answer: Any) -> None:  # noqa: ANN401 - plain data, or an exception
            done(answer if isinstance(answer, Exception) else read(answer))

        self._inquiries.ask(address, question, timeout_s, self._clock.monotonic_s(), answered)

    # Connecting.

    def _identity(self) -> Identity:
        return Identity(node=self._own, role=self._role, cluster_id=self._settings.cluster_id())

    def _is_due(self, link: "_Link", now_s: float) -> bool:
        if link.connection is not None or link.dialing is not None or link.node in self._learners:
            return False
        dials = self._role is MemberRole.LEARNER or str(self._own.id) > str(link.node.id)
        dials = dials or now_s - link.alone_since_s >= RAFT_DIAL_ANYWAY_S
        return dials and now_s >= link.dial_at_s

    def _dial(self, link: "_Link", now_s: float) -> None:
        link.dial_at_s = now_s + self._settings.dial_retry_s
        try:
            connection = self._dialer.dial(link.node.address, Purpose.MEMBER, link.node)
        except (OSError, SettingsError, RefusedError) as error:
            self._log_unreachable(link, error)
            return
        if connection is not None:
            link.dialing = connection
            connection.on_authenticated = partial(self._on_dialed, link, connection)
            connection.on_end = partial(self._on_dial_failed, link)
            connection.begin()

    def _on_dialed(self, link: "_Link", connection: Connection, _peer: Peer) -> None:
        link.dialing = None
        self._keep_voter(link, connection)

    def _on_dial_failed(self, link: "_Link", error: Exception) -> None:
        link.dialing = None
        self._log_unreachable(link, error)

    def _enter(self, accepted: socket.socket, host: str) -> Connection:
        connection = self._dialer.accept(accepted, host, self._admit)
        connection.on_authenticated = partial(self._on_entered, connection)
        connection.on_end = partial(self._on_not_entered, host)
        connection.begin()
        return connection

    def _admit(self, peer: Peer) -> None:
        """Refuse a peer that has authenticated and is still not wanted."""
        if len(self._links) + len(self._learners) + len(self._unknown_peers) + len(self._asking) >= RAFT_PEERS_MAX:
            raise RefusedError(Reason.CROWDED, f"{RAFT_PEERS_MAX} members are connected already")
        if peer.purpose is Purpose.ASK:
            return
        if self._role is MemberRole.LEARNER:
            raise RefusedError(Reason.ROLE, f"member {peer.identity.node.id} connects as if this one had a vote")
        if peer.identity.role is MemberRole.VOTER and peer.identity.node not in self._links:
            self._admit_unknown_peer(peer.identity.node)

    def _admit_unknown_peer(self, node: RaftNode) -> None:
        """It may be the one to lead: a change that this member has not heard of may have given it its vote."""
        moved = any(link.node.node_id == node.node_id for link in self._links.values())
        if moved or (len(self._unknown_peers) >= RAFT_UNKNOWN_PEERS_MAX and node not in self._unknown_peers):
            raise RefusedError(
                Reason.UNKNOWN_MEMBER,
                f"{node.id} is no member that this one knows (yet): if it lost its data folder, remove the old member "
                "and add it anew",
            )

    def _on_not_entered(self, host: str, error: Exception) -> None:
        if isinstance(error, RefusedError):
            self._log_line(_level(error), host, f"a connection was refused, {error}", what=error.reason.name)

    def _on_entered(self, connection: Connection, peer: Peer) -> None:
        node = peer.identity.node
        if peer.purpose is Purpose.ASK:
            self._asking[connection] = self._clock.monotonic_s() + RAFT_ANSWER_TIMEOUT_S
            connection.on_message = partial(self._on_question, connection)
            connection.on_end = lambda _error: None
        elif peer.identity.role is MemberRole.LEARNER:
            self._keep(self._learners, node, connection, "connected, without a vote")
            self._onReadonlyNodeConnected(node)
        elif (link := self._links.get(node)) is not None:
            self._keep_voter(link, connection)
        elif self._role is MemberRole.VOTER:
            told = "connected, and this member does not know that it has a vote (yet)"
            self._keep(self._unknown_peers, node, connection, told)
        else:
            connection.close()  # this member has no vote any more

    # Connected.

    def _keep_voter(self, link: "_Link", connection: Connection) -> None:
        """The newer connection counts: the older one may be dead without a sign."""
        self._disconnect(link.node)
        link.connection = connection
        connection.on_message = partial(self._onMessageReceived, link.node)
        connection.on_end = partial(self._on_voter_lost, link, connection)
        self._log_line(logging.INFO, str(link.node.id), "connected")
        self._onNodeConnected(link.node)

    def _keep(self, peers: dict[RaftNode, Connection], node: RaftNode, connection: Connection, told: str) -> None:
        """Keep the connection of a learner, or of an unknown peer, in place of any before it."""
        self._disconnect(node)
        peers[node] = connection
        connection.on_message = partial(self._onMessageReceived, node)
        connection.on_end = partial(self._on_lost, peers, node, connection)
        self._log_line(logging.INFO, str(node.id), told)

    def _disconnect(self, node: RaftNode) -> None:
        """Close all connections with this node, and report them as lost."""
        link = self._links.get(node)
        if link is not None and link.connection is not None:
            link.connection.close()
            link.connection = None
            self._onNodeDisconnected(node)
        learner = self._learners.pop(node, None)
        if learner is not None:
            learner.close()
            self._onReadonlyNodeDisconnected(node)
        unknown_peer = self._unknown_peers.pop(node, None)
        if unknown_peer is not None:
            unknown_peer.close()

    def _on_voter_lost(self, link: "_Link", connection: Connection, error: Exception) -> None:
        if link.connection is connection:
            link.connection, link.alone_since_s = None, self._clock.monotonic_s()
            link.dial_at_s = link.alone_since_s + self._settings.dial_retry_s
            self._log_lost(link.node, error)
            self._onNodeDisconnected(link.node)

    def _on_lost(
        self, peers: dict[RaftNode, Connection], node: RaftNode, connection: Connection, error: Exception
    ) -> None:
        if peers.get(node) is connection:
            del peers[node]
            self._log_lost(node, error)
            if peers is self._learners:
                self._onReadonlyNodeDisconnected(node)

    def _on_question(self, connection: Connection, question: Any) -> None:  # noqa: ANN401 - plain data
        try:
            connection.send(inquiry.answer(question, self._answer_probe, self.on_invite))
        except ValueError as error:
            self._log_line(logging.WARNING, connection.where, f"asked what is no question: {error}")
            connection.close()

    def _answer_probe(self) -> Mapping[str, Any]:
        own = self._identity()
        known = {"node_id": own.node.node_id, "cluster_id": own.cluster_id, "address": own.node.address}
        return known | {"role": own.role.value, "has_leader": False} | dict(self.on_probe())

    def _connection_of(self, node: RaftNode) -> Connection | None:
        link = self._links.get(node)
        if link is not None and link.connection is not None:
            return link.connection
        return self._learners.get(node) or self._unknown_peers.get(node)

    # Telling.

    def _log_unreachable(self, link: "_Link", error: Exception) -> None:
        every = f"It is tried again every {self._settings.dial_retry_s:g} s"
        self._log_line(
            _level(error),
            str(link.node.id),
            f"cannot be connected with: {error}. {every}",
            what=error.reason.name if isinstance(error, RefusedError) else "unreachable",
        )

    def _log_lost(self, node: RaftNode, error: Exception) -> None:
        self._log_line(_level(error), str(node.id), f"the connection is lost: {error}", what="lost")

    def _log_line(self, level: int, who: str, told: str, what: str = "") -> None:
        again = self._log_suppressor.due(who, what or told, self._clock.monotonic_s())
        if again is not None:
            _log.log(level, "Raft port %s, %s: %s%s", self.address, who, told, again)


@dataclass(slots=True, eq=False)
class _Link:
    """One other voter."""

    node: RaftNode
    alone_since_s: float
    connection: Connection | None = None
    dialing: Connection | None = None
    dial_at_s: float = 0.0

    def close(self) -> None:
        for connection in (self.connection, self.dialing):
            if connection is not None:
                connection.close()


def _level(error: Exception) -> int:
    if isinstance(error, RefusedError) and error.reason is Reason.SELF:
        return logging.DEBUG
    return logging.WARNING if isinstance(error, RefusedError) and not error.passes else logging.INFO


def _read(address: str, answer: Any) -> Probe | Exception:  # noqa: ANN401 - plain data
    try:
        return inquiry.read_probe(answer)
    except ValueError as error:
        return UnavailableError(f"{address} gave no answer that this release understands: {error}")
