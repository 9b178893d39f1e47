"""Members of one group in simulated time, without faults but those that a test causes."""

import random

from danube.metadata.cluster.membership import MemberRole
from danube.metadata.raft.bootstrap import begin
from danube.metadata.raft.core.snapshot_keeper import SnapshotRequest
from danube.metadata.raft.folder.folder import RaftFolder
from danube.metadata.raft.folder.recovery import members_after
from danube.metadata.raft.member import Member, MemberEvent, MemberParts, Ordered, pack_batch
from danube.metadata.raft.settings import LogBounds, RaftTiming
from danube.metadata.raft.values.node import RaftNode
from danube.testing.simulated.disk import SimDisk
from lab.raft.network import Agenda, SimNetwork, SimTransport
from lab.raft.world import NullPoller

NODES = [RaftNode(f"{number}@10.0.0.{number}:7650") for number in range(1, 5)]
ORIGIN = 77
ENTRIES_MAX = 30
TICK_S = 0.02


class One:
    """A member, its disk and what it found."""

    def __init__(self, group: "Group", node: RaftNode, disk: SimDisk) -> None:
        self.node, self.disk = node, disk
        self.folder = RaftFolder.open(disk)
        self.transport = SimTransport(group.network, node)
        group.network.start(self.transport)
        self.member = Member(
            MemberParts(
                own=node,
                log=self.folder.log,
                snapshots=self.folder,
                transport=self.transport,
                poller=NullPoller(),
                timing=RaftTiming(),
                bounds=LogBounds(entries_max=ENTRIES_MAX),
                voters_after=members_after,
            )
        )
        self.found: list[MemberEvent] = []
        self.error: Exception | None = None

    def tick(self) -> None:
        if self.error is None:
            try:
                self.member.tick(0.0)
            except Exception as error:  # what ends a member is what some tests look for
                self.error = error
                self.transport.destroy()
        for found in self.member.take_events():
            self.found.append(found)
            if isinstance(found, SnapshotRequest):
                self.member.keeper.snapshot_made(found, [b"the state"])

    @property
    def numbers(self) -> list[int]:
        """The batches that it was told, in order."""
        return [found.number for found in self.found if isinstance(found, Ordered)]


class Group:
    """Members that form a group of `voters`, and further ones that do not vote."""

    def __init__(self, agenda: Agenda) -> None:
        self.agenda = agenda
        self.network = SimNetwork(agenda, random.Random(1), lambda to, sender, message: to.deliver(sender, message))
        self.ones: dict[RaftNode, One] = {}
        self.numbers = 0

    def form(self, count: int, learners: int = 0) -> "Group":
        voters = [str(node.id) for node in NODES[:count]]
        for node in NODES[: count + learners]:
            disk = SimDisk(1)
            folder = RaftFolder.open(disk)
            begin(folder, "c1", voters)
            folder.close()
            self.start(node, disk)
        self.run(4.0)
        return self

    def start(self, node: RaftNode, disk: SimDisk) -> One:
        one = self.ones[node] = One(self, node, disk)
        return one

    def stop(self, one: One) -> SimDisk:
        self.ones.pop(one.node)
        one.member.close()
        one.transport.destroy()
        return one.disk.power_cut()

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / TICK_S)):
            self.network.connect()
            for one in list(self.ones.values()):
                one.tick()
            self.agenda.advance(TICK_S)

    def submit(self, one: One, count: int = 1) -> None:
        for _ in range(count):
            self.numbers += 1
            assert one.member.propose(pack_batch(ORIGIN, self.numbers, [b"x"]))

    @property
    def leader(self) -> One:
        return max((one for one in self.ones.values() if one.member.core.is_leading()), key=_term_of)

    @property
    def followers(self) -> list[One]:
        return [one for one in self.ones.values() if one is not self.leader]


def _term_of(one: One) -> int:
    return one.member.core.current_term()


def role_of(one: One) -> MemberRole:
    return one.member.role


def cut_off(group: Group, *ones: One) -> None:
    for one in ones:
        group.network.side[one.node] = 1
    group.network.cut_between_sides()
