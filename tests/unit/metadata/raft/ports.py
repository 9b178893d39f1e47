"""Real Raft ports on loopback, driven in one thread by one poller, and what they told."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from danube.metadata.cluster.membership import MemberRole
from danube.metadata.raft.core.poller import Poller
from danube.metadata.raft.port.addresses import listen
from danube.metadata.raft.port.dialer import TransportSettings
from danube.metadata.raft.port.tls import TlsSettings
from danube.metadata.raft.port.transport import RaftTransport
from danube.metadata.raft.values.node import RaftNode
from danube.runtime.clock import Clock, SystemClock
from danube.testing.patience import PATIENCE_S

SECRET = b"a secret of thirty-two bytes ..."
CLUSTER = "cluster-1"


@dataclass(eq=False)
class Port:
    """One transport and what it was told to tell."""

    transport: RaftTransport
    node: RaftNode
    told: list[tuple[Any, ...]] = field(default_factory=list)

    def messages(self) -> Sequence[Any]:
        return [told[2] for told in self.told if told[0] == "message"]

    def tells(self, kind: str) -> Sequence[Any]:
        return [told[1] for told in self.told if told[0] == kind]


class Room:
    """Ports that share a thread."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self.poller = Poller()
        self.ports: list[Port] = []
        self.also: Callable[[], None] = lambda: None
        """What else is done each turn."""

    def port(
        self,
        node_id: int,
        *,
        secret: bytes | None = SECRET,
        tls: TlsSettings | None = None,
        cluster_id: str = CLUSTER,
        role: MemberRole = MemberRole.VOTER,
        host: str = "127.0.0.1",
        address: str = "",
    ) -> Port:
        listener = listen(address or f"{host}:0")
        node = RaftNode.of(node_id, listener.address)
        settings = TransportSettings(
            cluster_id=lambda: cluster_id, secret=secret, tls=tls, silence_s_max=3.0, dial_retry_s=0.01
        )
        port = Port(RaftTransport(settings, node, role, self.poller, self.clock, listener), node)
        tell = port.told.append
        port.transport.setOnMessageReceivedCallback(lambda node, message: tell(("message", node, message)))
        port.transport.setOnNodeConnectedCallback(lambda node: tell(("connected", node)))
        port.transport.setOnNodeDisconnectedCallback(lambda node: tell(("disconnected", node)))
        port.transport.setOnReadonlyNodeConnectedCallback(lambda node: tell(("learner connected", node)))
        port.transport.setOnReadonlyNodeDisconnectedCallback(lambda node: tell(("learner disconnected", node)))
        self.ports.append(port)
        return port

    def group(self, *node_ids: int, **settings: Any) -> Sequence[Port]:
        """Voters that know each other."""
        ports = [self.port(node_id, **settings) for node_id in node_ids]
        for port in ports:
            know(port, *(other for other in ports if other is not port))
        return ports

    def turn(self, wait_s: float = 0.001) -> None:
        for port in self.ports:
            port.transport.tick()
        self.also()
        self.poller.poll(wait_s)

    def turns(self, count: int) -> None:
        for _ in range(count):
            self.turn()

    def until(self, true: Callable[[], object]) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < end_s, [port.told for port in self.ports]
            self.turn(0.01)

    def all_connected(self) -> None:
        self.until(lambda: all(len(port.transport.connected()) == len(self.ports) - 1 for port in self.ports))

    def close(self) -> None:
        for port in self.ports:
            port.transport.destroy()
        self.poller.close()


def know(port: Port, *others: Port) -> None:
    for other in others:
        port.transport.addNode(other.node)


@contextmanager
def room(clock: Clock | None = None) -> Iterator[Room]:
    made = Room(clock)
    try:
        yield made
    finally:
        made.close()
