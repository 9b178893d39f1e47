"""pysyncobj's own SyncObj on the Raft port: it elects, replicates, elects again and catches up."""

from collections.abc import Sequence

from pysyncobj import SyncObj, SyncObjConf, replicated

from danube.metadata.cluster.membership import MemberRole
from danube.metadata.raft.values.node import RaftNode
from tests.unit.metadata.raft.ports import Port, Room, know, room


class Counter(SyncObj):  # type: ignore[misc]  # pysyncobj has no types
    """Numbers in an order that all agree on."""

    def __init__(self, own: RaftNode | None, others: Sequence[RaftNode], port: Port) -> None:
        self.numbers: list[int] = []
        conf = SyncObjConf(
            autoTick=False,
            appendEntriesUseBatch=False,
            raftMinTimeout=0.1,
            raftMaxTimeout=0.3,
            appendEntriesPeriod=0.02,
            leaderFallbackTimeout=0.5,
            appendEntriesBatchSizeBytes=2**24,
        )
        super().__init__(own, others, conf, nodeClass=RaftNode, transport=port.transport)

    @replicated  # type: ignore[untyped-decorator]  # pysyncobj has no types
    def add(self, number: int) -> None:
        """Put a number behind the others."""
        self.numbers.append(number)


class Counters:
    """One Counter for each port of a room."""

    def __init__(self, here: Room) -> None:
        self.here = here
        self.of: dict[Port, Counter] = {}
        here.also = self.tick

    def start(self, port: Port, others: Sequence[Port], *, learner: bool = False) -> Counter:
        counter = Counter(None if learner else port.node, [other.node for other in others], port)
        know(port, *others)
        self.of[port] = counter
        return counter

    def stop(self, port: Port) -> None:
        self.of.pop(port).destroy()
        self.here.ports.remove(port)

    def leader(self) -> Counter | None:
        leaders = [counter for counter in self.of.values() if counter._isLeader() and counter._isReady()]
        return leaders[0] if len(leaders) == 1 else None

    def tick(self) -> None:
        for counter in self.of.values():
            counter.doTick(0.0)

    def elected(self) -> Counter:
        self.here.until(self.leader)
        leader = self.leader()
        assert leader is not None
        return leader

    def agree_on(self, numbers: Sequence[int]) -> None:
        self.here.until(lambda: all(counter.numbers == numbers for counter in self.of.values()))


def test_members_agree_through_a_lost_leader_and_a_learner_follows() -> None:
    with room() as here:
        counters, ports = Counters(here), [here.port(node_id) for node_id in (1, 2, 3)]
        for port in ports:
            counters.start(port, [other for other in ports if other is not port])
        counters.elected().add(1)
        counters.agree_on([1])
        learner = here.port(9, role=MemberRole.LEARNER, cluster_id="")
        counters.start(learner, ports, learner=True)
        counters.agree_on([1])
        lost = next(port for port, counter in counters.of.items() if counter is counters.leader())
        counters.stop(lost)
        counters.elected().add(2)
        counters.agree_on([1, 2])
        again = here.port(lost.node.node_id, address=lost.transport.address)
        counters.start(again, [port for port in ports if port is not lost])
        counters.agree_on([1, 2])
        for counter in counters.of.values():
            counter.destroy()
