"""A Raft group in one process, by seed: real members on simulated disks, a simulated network and simulated time.

Members lose power in the midst of a write, all at once too; connections break, messages come late, members are paused,
the network is split, members are added and removed. What must hold all the while, and when all is well again:

- a position of the sequence holds the same batch wherever and whenever it is applied;
- a batch that its submitter saw applied stays in the sequence;
- a term has at most one leader;
- a member comes up again on what its disk kept;
- a member whose disk was full goes on by itself once there is room;
- a group that is left in peace agrees on new batches, and all of its members get them.
"""

import errno
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from msgspec import msgpack

from danube.metadata.raft.bootstrap import FIRST_ENTRIES, begin
from danube.metadata.raft.core import overrides, snapshot_keeper
from danube.metadata.raft.core.snapshot_keeper import SnapshotRequest
from danube.metadata.raft.folder.folder import RaftFolder
from danube.metadata.raft.folder.recovery import members_after
from danube.metadata.raft.member import Installed, Member, MemberParts, Ordered, pack_batch
from danube.metadata.raft.settings import LogBounds
from danube.metadata.raft.values.node import RaftNode
from danube.model.errors import DamagedDataError, DanubeError
from danube.runtime.disk import was_full
from danube.testing.simulated.disk import MachineOffError, Operation, SimDisk
from lab.kernel.chance import seeded, weighted
from lab.raft.courses import ALONE, BESIDE, COURSES, Course
from lab.raft.network import Agenda, SimNetwork, SimTransport

Batch = tuple[int, int]  # its origin, and its number there

_TICK_S = 0.02
_FIRST = FIRST_ENTRIES[1][1]
_PAYLOAD_BYTES = 60
_BURSTS_S = 8.0
_PIECE_BYTES = 400
_WINDOW_BYTES = 2_000
_BEHIND_MAX = 40  # entries that a member may lack in the end: those that are on their way


@dataclass(slots=True)
class Report:
    """The observations of a run."""

    seed: int
    course: str
    violations: list[str] = field(default_factory=list)
    acknowledged: int = 0
    elections: int = 0
    full_disks: int = 0  # times that a member took no part for one
    failed_disks: int = 0  # times that a member ended by one
    rests: int = 0  # times that a member without a port had nothing to do

    def __str__(self) -> str:
        return "\n".join([f"seed {self.seed} ({self.course}):", *self.violations])


class NullPoller:
    """Nothing to wait for: messages come by the agenda."""

    rests = False
    """True if the last call was to wait until somebody wakes it."""

    def poll(self, timeout: float | None) -> None:
        """Return."""
        self.rests = timeout is None


@dataclass(slots=True)
class Life:
    """One member, from a start to the next loss of power."""

    member: Member
    folder: RaftFolder
    disk: SimDisk
    transport: SimTransport
    poller: NullPoller
    applied: dict[int, Batch] = field(default_factory=dict)  # by position; a snapshot's positions included
    position: int = 0
    is_full: bool = False  # it takes no part, until there is room on its disk


class RaftWorld:
    """One run."""

    def __init__(self, seed: int, course: Course) -> None:
        self.report = Report(seed, course.name)
        self._course = course
        self._chance = seeded(f"{seed}/{course.name}")
        self._agenda = Agenda()
        self._network = SimNetwork(self._agenda, self._chance, self._deliver)
        self._network.longest_s = self._chance.choice(course.message_s)
        self._nodes = [
            RaftNode.of(100 + n, f"10.0.0.{n}:7650") for n in range(1, self._chance.choice(course.members) + 1)
        ]
        self._spares = [RaftNode.of(200 + n, f"10.0.1.{n}:7650") for n in range(1, 3)] if course.changes else []
        self._disks: dict[RaftNode, SimDisk] = {}
        self._lives: dict[RaftNode, Life] = {}
        self._truth: dict[int, Batch] = {}
        self._leaders: dict[int, int] = {}
        self._acknowledged: set[Batch] = set()
        self._number = 0
        self._at_peace = False

    def run(self) -> Report:
        with _simulated(lambda: self._agenda.now_s, self._chance):
            self._begin()
            self._agenda.advance(self._course.faults_s)
            self._make_peace()
            self._agenda.advance(self._course.peace_s)
            self._judge_the_end()
        self.report.acknowledged, self.report.elections = len(self._acknowledged), len(self._leaders)
        return self.report

    # The course of things

    def _begin(self) -> None:
        voters = tuple(str(node.id) for node in self._nodes)
        for node in (*self._nodes, *self._spares):
            disk = self._disks[node] = SimDisk(self._chance.getrandbits(32))
            folder = RaftFolder.open(disk)
            begin(folder, "simulated", voters)
            folder.close()
            self._start(node)
        for event, low_s, high_s in (
            (self._network.connect, 0.05, 0.3),
            (self._submit, 0.02, 0.15),
            (self._inject_fault, *self._course.fault_s),
            (self._change_membership, 0.5, 2.0),
        ):
            self._repeat(event, low_s, high_s)

    def _repeat(self, event: Callable[[], None], low_s: float, high_s: float) -> None:
        def again() -> None:
            event()
            self._agenda.after(self._chance.uniform(low_s, high_s), again)

        self._agenda.after(self._chance.uniform(low_s, high_s), again)

    def _start(self, node: RaftNode) -> None:
        disk = self._disks[node]
        if node in self._lives:
            return
        try:
            self._lives[node] = self._open(node, disk)
        except MachineOffError:
            self._lose_power(node)
        except (DamagedDataError, DanubeError, ValueError) as error:
            self._violated(f"{node} does not come up again: {error}")
        else:
            self._agenda.after(self._chance.uniform(0, _TICK_S), lambda life=self._lives[node]: self._tick(node, life))  # type: ignore[misc]  # bound now

    def _open(self, node: RaftNode, disk: SimDisk) -> Life:
        folder = RaftFolder.open(disk)
        transport, poller = SimTransport(self._network, node), NullPoller()
        self._network.start(transport)
        parts = MemberParts(
            own=node,
            log=folder.log,
            snapshots=folder,
            transport=transport,
            poller=poller,
            timing=self._course.timing,
            is_alone=self._course is ALONE,
            bounds=LogBounds(entries_max=self._chance.randint(*self._course.entries)),
            voters_after=members_after,
        )
        life = Life(Member(parts), folder, disk, transport, poller)
        self._receive(life)
        return life

    def _tick(self, node: RaftNode, life: Life) -> None:
        if self._lives.get(node) is not life:
            return
        if life.is_full:
            self._agenda.after(_TICK_S, lambda: self._tick(node, life))
            return
        pause_s = life.transport.pauses_until_s - self._agenda.now_s
        if pause_s > 0:
            self._agenda.after(pause_s, lambda: self._tick(node, life))
            return
        self._act(node, lambda: self._tick_once(life))
        if life.poller.rests and not life.is_full:
            self.report.rests += 1
            return
        self._agenda.after(self._chance.uniform(0.5, 1.2) * _TICK_S, lambda: self._tick(node, life))

    def _tick_once(self, life: Life) -> None:
        waiting, life.transport.waiting[:] = list(life.transport.waiting), []
        for sender, message in waiting:
            life.transport.deliver(sender, message)
        life.member.tick(0.0)
        self._receive(life)
        if life.member.core.is_leading():
            self._check_leader(life)

    def _check_leader(self, life: Life) -> None:
        self._check_majority(life)
        term, node_id = life.member.core.current_term(), life.transport.own.node_id
        leader_id = self._leaders.setdefault(term, node_id)
        if leader_id != node_id:
            self._violated(f"term {term} has two leaders: {leader_id} and {node_id}")

    def _check_majority(self, life: Life) -> None:
        """Committed entries are in the logs of a majority at every moment; members without power may have them."""
        core = life.member.core
        if self._course.changes:
            return  # it may have been agreed on by other voters
        voters = {life.transport.own, *core.voters()}
        lives = (self._lives.get(node) for node in voters)
        lacking = [each for each in lives if each is not None and each.folder.log.last_index < core.commit_index()]
        if 2 * len(lacking) >= len(voters):
            names = ", ".join(str(each.transport.own) for each in lacking)
            self._violated(f"{core.commit_index()} is agreed on, and {names} of {len(voters)} voters lack it")

    def _deliver(self, transport: SimTransport, sender: RaftNode, message: Any) -> None:  # noqa: ANN401 - plain data
        life = self._lives.get(transport.own)
        if life is not None and life.transport is transport:
            self._act(transport.own, lambda: transport.deliver(sender, message))

    def _act(self, node: RaftNode, action: Callable[[], None]) -> None:
        try:
            action()
        except MachineOffError:
            self._lose_power(node)
        except (DanubeError, OSError) as error:
            if was_full(error):
                self._stop_on_full_disk(self._lives[node])
                return
            if self._course.fails and isinstance(error.__cause__ or error, OSError):
                self._restart(node)
                return
            if "was removed from the cluster" not in str(error):
                self._violated(f"{node} stopped: {error}")
            self._end(node)
        except Exception as error:
            self._violated(f"{node} failed: {error!r}")
            self._end(node)

    def _restart(self, node: RaftNode) -> None:
        """The process ends by an error of its disk and is started again; what was not synced may be there or not."""
        self.report.failed_disks += 1
        self._end(node)
        self._disks[node] = self._disks[node].process_kill()
        self._agenda.after(self._chance.uniform(0.01, 0.1), lambda: self._start(node))

    def _stop_on_full_disk(self, life: Life) -> None:
        life.member.close()
        if not life.is_full:
            self.report.full_disks += 1
        life.is_full = True
        self._agenda.after(self._chance.uniform(0.05, 0.5), lambda: self._go_on(life))

    def _go_on(self, life: Life) -> None:
        if self._lives.get(life.transport.own) is life:
            life.is_full = False
            self._act(life.transport.own, life.member.reopen)

    # What is submitted and applied

    def _submit(self) -> None:
        if self._agenda.now_s % _BURSTS_S > self._course.busy * _BURSTS_S:
            return
        for life in self._chance.sample(list(self._lives.values()), min(2, len(self._lives))):
            self._number += 1
            request = self._number.to_bytes(8, "big") + bytes(self._chance.randint(0, _PAYLOAD_BYTES))
            life.member.propose(pack_batch(life.transport.own.node_id, self._number, [request]))
            if life.poller.rests:
                life.poller.rests = False
                self._tick(life.transport.own, life)

    def _receive(self, life: Life) -> None:
        newest = life.member.newest_snapshot_index()
        for found in life.member.take_events():
            match found:
                case Ordered(position, origin, number):
                    self._apply(life, position, (origin, number))
                case Installed(snapshot) if snapshot.index < newest:
                    pass  # its file is gone, and the newer one is told of next: the broker's queue skips it, too
                case Installed(snapshot):
                    payload = snapshot.payload.read(0, snapshot.payload.size)
                    history = [] if snapshot.index == _FIRST else msgpack.decode(payload)
                    life.applied = {position: (origin, number) for position, origin, number in history}
                    life.position = snapshot.index
                    self._check_history(life)
                case SnapshotRequest():
                    self._take_snapshot(life, found)

    def _apply(self, life: Life, position: int, batch: Batch) -> None:
        if position <= life.position:
            self._violated(f"{life.transport.own} applies {position} after {life.position}")
        life.applied[position], life.position = batch, position
        self._check_position(life, position, batch)
        if batch[0] == life.transport.own.node_id:
            self._acknowledged.add(batch)

    def _check_history(self, life: Life) -> None:
        for position, batch in life.applied.items():
            self._check_position(life, position, batch)

    def _check_position(self, life: Life, position: int, batch: Batch) -> None:
        truth = self._truth.setdefault(position, batch)
        if truth != batch:
            self._violated(f"{life.transport.own} has {batch} at {position}, where {truth} was applied before")

    def _take_snapshot(self, life: Life, wanted: SnapshotRequest) -> None:
        payload = msgpack.encode([[position, *batch] for position, batch in life.applied.items()])

        def made() -> None:
            if self._lives.get(life.transport.own) is life:
                self._act(life.transport.own, lambda: life.member.keeper.snapshot_made(wanted, [payload]))

        self._agenda.after(self._chance.uniform(0, 0.5), made)

    # What goes wrong

    def _inject_fault(self) -> None:
        if self._at_peace:
            return
        power = self._course.power
        faults: dict[Callable[[], None], float] = {
            self._stop_one: 2 * power,
            self._cut_power_of_one: power,
            self._cut_power_of_all: 0.5 * power,
            **({self._cut_one: 2, self._pause_one: 2, self._split: 1} if len(self._nodes) > 1 else {}),
            **({self._fill_disk_of_one: self._course.full} if self._course.full else {}),
            **({self._break_disk_of_one: self._course.fails} if self._course.fails else {}),
        }
        weighted(self._chance, faults)()

    def _stop_one(self) -> None:
        self._one().disk.stop_at(self._chance.randint(1, 8))

    def _cut_power_of_one(self) -> None:
        self._lose_power(self._one().transport.own)

    def _cut_power_of_all(self) -> None:
        for node in list(self._lives):
            self._lose_power(node)

    def _cut_one(self) -> None:
        one, other = self._chance.sample(self._nodes, 2)
        self._network.cut(one, other)

    def _pause_one(self) -> None:
        self._one().transport.pauses_until_s = self._agenda.now_s + self._chance.uniform(0.2, 4.0)

    def _split(self) -> None:
        self._network.side = {node: self._chance.randint(0, 1) for node in (*self._nodes, *self._spares)}
        self._network.cut_between_sides()
        self._agenda.after(self._chance.uniform(0.5, 5.0), self._network.side.clear)

    def _fill_disk_of_one(self) -> None:
        """From one of the next writes on there is no room, for a while; a sync may find it out, too."""
        life = self._one()
        operation = self._chance.choice((Operation.APPEND, Operation.APPEND, Operation.CREATE, Operation.SYNC))
        number, times = self._chance.randint(1, 4), self._chance.choice((1, 3, 1_000))
        life.disk.fail(operation, number, error=errno.ENOSPC, times=times)
        self._agenda.after(self._chance.uniform(0.2, 2.0), life.disk.clear_faults)

    def _break_disk_of_one(self) -> None:
        """One of the next calls of its disk fails."""
        operation = self._chance.choice((Operation.APPEND, Operation.SYNC, Operation.SYNC, Operation.CREATE))
        self._one().disk.fail(operation, self._chance.randint(1, 4))

    def _one(self) -> Life:
        if not self._lives:
            self._start(self._nodes[0])
        return self._chance.choice(list(self._lives.values()))

    def _lose_power(self, node: RaftNode) -> None:
        self._end(node)
        self._disks[node] = self._disks[node].power_cut()
        off_s = self._chance.uniform(0.01, self._chance.choice((0.1, self._course.off_s_max)))
        self._agenda.after(off_s, lambda: self._start(node))

    def _end(self, node: RaftNode) -> None:
        life = self._lives.pop(node, None)
        if life is not None:
            life.member.close()
            life.transport.destroy()

    def _make_peace(self) -> None:
        self._at_peace = True
        self._network.side.clear()
        for life in self._lives.values():
            life.disk.clear_faults()
            life.transport.pauses_until_s = 0.0

    # Members come and go

    def _change_membership(self) -> None:
        if not self._course.changes or self._at_peace:
            return
        leaders = [life for life in self._lives.values() if life.member.core.is_leading()]
        if not leaders:
            return
        core = self._chance.choice(leaders).member.core
        voters = sorted(core.voters(), key=lambda node: str(node.id))
        learners = sorted(core.learners() - core.voters(), key=lambda node: str(node.id))
        if learners and (len(voters) < 3 or self._chance.random() < 0.5):
            core.addNodeToCluster(self._chance.choice(learners))
        elif len(voters) > 1:
            core.removeNodeFromCluster(self._chance.choice(voters))

    # The end

    def _judge_the_end(self) -> None:
        leaders = [life for life in self._lives.values() if life.member.core.is_leading()]
        if not leaders:
            self._violated("nobody leads in the end")
            return
        leader = max(leaders, key=lambda life: life.member.core.current_term())
        for batch in sorted(self._acknowledged - set(leader.applied.values())):
            self._violated(f"{batch} was acknowledged and is not in the sequence")
        voters = {leader.transport.own, *leader.member.core.voters()}
        for node in sorted(voters, key=lambda each: str(each.id)):
            life = self._lives.get(node)
            if life is None or life.position < leader.position - _BEHIND_MAX:
                self._violated(f"{node} is at {life.position if life else None}, the leader at {leader.position}")

    def _violated(self, what: str) -> None:
        self.report.violations.append(f"{self._agenda.now_s - 1_000:.3f} s: {what}")


@contextmanager
def _simulated(now_s: Callable[[], float], chance: random.Random) -> Iterator[None]:
    """Give the core another time, chance by seed, and snapshots that take several messages."""
    clockwork: Any = overrides.core
    before = clockwork.monotonicTime, clockwork.random
    snapshots: Any = snapshot_keeper
    sizes = snapshots.RAFT_SNAPSHOT_PIECE_BYTES, snapshots.RAFT_SNAPSHOT_WINDOW_BYTES
    snapshots.RAFT_SNAPSHOT_PIECE_BYTES, snapshots.RAFT_SNAPSHOT_WINDOW_BYTES = _PIECE_BYTES, _WINDOW_BYTES
    clockwork.monotonicTime, clockwork.random = now_s, chance
    try:
        yield
    finally:
        clockwork.monotonicTime, clockwork.random = before
        snapshots.RAFT_SNAPSHOT_PIECE_BYTES, snapshots.RAFT_SNAPSHOT_WINDOW_BYTES = sizes


def simulate(seed: int, course: str = "faults") -> Report:
    """One run of a course."""
    return RaftWorld(seed, {**COURSES, **{one.name: one for one in BESIDE}}[course]).run()
