"""Faults on a cluster of metadata stores, planned by seed: kills, pauses, cuts, slow links.

A cluster has nodes: members, each with a store, and the servers of a service behind them, if there is one. What a kind
of cluster cannot suffer it leaves out of `faults()`.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lab.kernel.chance import seeded
from lab.kernel.rounds import pause
from lab.metadata.load import Life

GAP_S = (0.4, 1.6)  # between two faults
SPAN_S = (0.3, 2.5)  # time for which a node is paused, cut off, slow or dead
SLOW_S = (0.005, 0.15)  # added to each piece of what a slow link carries


class FaultKind(StrEnum):
    """A kind of fault of a cluster."""

    KILL = "kill"  # `kill -9` of one node; it is started again later
    KILL_ALL = "kill all"  # of all nodes, as a power cut of the building does
    PAUSE = "pause"  # SIGSTOP, later SIGCONT
    CUT = "cut"  # nothing passes between two nodes any more; the connections stay
    ISOLATE = "isolate"  # the same, between one node and all others
    SLOW = "slow"  # all links take longer
    TRANSFER = "transfer"  # another member is made the leader


OF_LINKS = {FaultKind.CUT, FaultKind.ISOLATE, FaultKind.SLOW}
TOGETHER = 0.3  # so many of the faults of links come together with one of a node


class Cluster:
    """Members that share a store, and the faults they can suffer. Nodes are numbered, the members first.

    A kind of fault that a cluster does not name in `faults` needs no method of its own.
    """

    span_s = SPAN_S

    def members(self) -> Sequence[int]:
        """The nodes that have a store."""
        raise NotImplementedError

    def servers(self) -> Sequence[int]:
        return ()

    def faults(self) -> Sequence[FaultKind]:
        """The kinds it can suffer; one that stands there twice comes twice as often."""
        raise NotImplementedError

    def life(self, member: int) -> Life | None:
        """The member's store, while it runs."""
        raise NotImplementedError

    async def start(self) -> None:
        """Start all nodes; returns when every member serves."""

    def kill(self, node: int) -> None:
        """`kill -9`. Harmless when it is dead."""

    def pause(self, node: int) -> None:
        """SIGSTOP."""

    def resume(self, node: int) -> None:
        """SIGCONT."""

    async def restart(self, node: int) -> None:
        """Start a dead node again, on the same folder. Harmless when it runs."""

    def cut(self, node: int, other: int) -> None:
        """Drop whatever goes between two nodes, until `heal`."""

    def slow(self, seconds: float) -> None:
        """Delay whatever goes between any two nodes, until `heal`."""

    def heal(self) -> None:
        """Mend all links."""

    async def transfer(self) -> None:
        """Have another member lead, where one leads; it may not come to that."""

    async def calm_down(self) -> None:
        """End what goes wrong by itself."""

    async def close(self) -> None:
        """End all nodes. Idempotent."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One of a plan."""

    kind: FaultKind
    after_s: float  # since the one before was over
    for_s: float
    node: int
    other: int
    delay_s: float

    def __str__(self) -> str:
        match self.kind:
            case FaultKind.KILL_ALL | FaultKind.TRANSFER:
                return str(self.kind)
            case FaultKind.SLOW:
                return f"slow ({self.delay_s * 1e3:.0f} ms)"
            case FaultKind.CUT:
                return f"cut {self.node}-{self.other}"
            case _:
                return f"{self.kind} {self.node}"


def planned(seed: int, cluster: Cluster, count: int) -> list[tuple[Fault, ...]]:
    """The faults of a round, those together that come together; the same for the same seed and kind of cluster."""
    rng = seeded(f"faults {seed}")
    node_faults = [kind for kind in cluster.faults() if kind not in OF_LINKS]
    link_faults = [kind for kind in cluster.faults() if kind in OF_LINKS]
    plan = []
    for _ in range(count):
        kinds = [rng.choice(list(cluster.faults()))]
        if link_faults and rng.random() < TOGETHER:
            kinds = [rng.choice(link_faults), rng.choice(node_faults)]
        plan.append(tuple(_fault(rng, kind, cluster) for kind in kinds))
    return plan


class Nemesis:
    """Injects faults into a cluster."""

    def __init__(self, cluster: Cluster, stop: asyncio.Event) -> None:
        self._cluster = cluster
        self._stop = stop

    async def strike(self, fault: Fault) -> None:
        """Wait, inject a fault, and end it."""
        await pause(fault.after_s, self._stop)
        if self._stop.is_set():
            return
        try:
            await self._begin(fault)
            await pause(fault.for_s, self._stop)
        finally:
            await self._end(fault)

    async def _begin(self, fault: Fault) -> None:
        cluster, nodes = self._cluster, self._nodes()
        match fault.kind:
            case FaultKind.KILL:
                cluster.kill(fault.node)
            case FaultKind.KILL_ALL:
                for node in nodes:
                    cluster.kill(node)
            case FaultKind.PAUSE:
                cluster.pause(fault.node)
            case FaultKind.CUT:
                cluster.cut(fault.node, fault.other)
            case FaultKind.ISOLATE:
                for other in nodes:
                    cluster.cut(fault.node, other)
            case FaultKind.SLOW:
                cluster.slow(fault.delay_s)
            case FaultKind.TRANSFER:
                await cluster.transfer()

    async def _end(self, fault: Fault) -> None:
        cluster = self._cluster
        if fault.kind is FaultKind.PAUSE:
            cluster.resume(fault.node)
        if fault.kind in OF_LINKS:
            cluster.heal()
        if fault.kind in {FaultKind.KILL, FaultKind.KILL_ALL}:
            dead = [fault.node] if fault.kind is FaultKind.KILL else self._nodes()
            # servers first; members that need each other to serve are started together
            servers = [node for node in dead if node in cluster.servers()]
            await asyncio.gather(*map(cluster.restart, servers))
            await asyncio.gather(*(cluster.restart(node) for node in dead if node not in servers))

    def _nodes(self) -> list[int]:
        return [*self._cluster.members(), *self._cluster.servers()]


def _fault(rng: random.Random, kind: FaultKind, cluster: Cluster) -> Fault:
    nodes = [*cluster.members(), *cluster.servers()]
    node = rng.choice(nodes)
    others = [other for other in nodes if other != node]
    servers = [other for other in others if other in cluster.servers()]
    if kind in {FaultKind.CUT, FaultKind.ISOLATE} and cluster.servers():
        node = rng.choice(list(cluster.members()))
        servers = list(cluster.servers())
    other = rng.choice(servers or others or nodes)
    return Fault(kind, rng.uniform(*GAP_S), rng.uniform(*cluster.span_s), node, other, rng.uniform(*SLOW_S))
