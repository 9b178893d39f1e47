"""One member of a Raft group and its disk, life after life, against a model that remembers everything.

The script is what a follower and a leader do: entries are appended and synced, a newer leader replaces what is not
committed, images are taken and received, votes are given. A command follows from its index and term, as Raft has it.
The power is cut in any operation of the disk, and operations fail. After each life the next one must find a state that
was there between the last sync and the end. Of a quiet member a copy is damaged, which must be noticed, or harmless.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from danube.metadata.raft.folder import recovery
from danube.metadata.raft.folder.folder import RaftFolder
from danube.metadata.raft.folder.format import Entry
from danube.metadata.raft.folder.snapshot import HeldSnapshot, MemoryBytes
from danube.metadata.raft.values.encoding import dumps
from danube.metadata.raft.values.entries import MEMBERSHIP
from danube.model.errors import DanubeError, JournalStoppedError
from danube.model.limits.metadata import RAFT_MARK_DELAY_S
from danube.runtime.rng import SystemRng
from danube.testing.simulated.disk import MachineOffError, Operation, SimDisk
from tests.simulation.raft_damage import RaftPromise, damage_raft, judge_raft

FOUNDERS = ("1@10.0.0.1:7650", "2@10.0.0.2:7650", "3@10.0.0.3:7650")
CANDIDATES = [*FOUNDERS, None]
_LIVES = 10
_STEPS = 25

Full = tuple[Entry, ...]
"""A log from entry 1 on, whatever images took the place of."""


class ViolationError(AssertionError):
    """The disk did not keep what was promised."""


def command_at(index: int, term: int) -> bytes:
    """Command that every leader of this term has at this index."""
    chance = random.Random(index * 1_000_003 + term)
    if chance.random() < 0.15:
        kind, number = chance.choice(["add", "rem"]), chance.randint(1, 6)
        member = f"{number}@10.0.0.{number}:7650"
        return MEMBERSHIP + dumps([kind, member])
    return b"\0" + b"%d/%d " % (index, term) * chance.choice([0, 1, 1, 5, 40, 80, 200])


def members_by_hand(log: Sequence[Entry]) -> tuple[str, ...]:
    """Members with a vote after a whole log."""
    voters = set(FOUNDERS)
    for index, term in ((index, term) for command, index, term in log if command[:1] == MEMBERSHIP):
        chance = random.Random(index * 1_000_003 + term)
        chance.random()
        kind, number = chance.choice(["add", "rem"]), chance.randint(1, 6)
        member = f"{number}@10.0.0.{number}:7650"
        voters = voters | {member} if kind == "add" else voters - {member}
    return tuple(sorted(voters))


def image_of(log: Full) -> HeldSnapshot:
    """The image after the last entry of a log."""
    payload = MemoryBytes(b"state after %d " % log[-1][1] * 40)
    return HeldSnapshot(prev=log[-2], last=log[-1], members=members_by_hand(log), payload=payload)


@dataclass
class Model:
    """State of the member, and all that a crash may leave of it."""

    log: Full = ((b"\1", 1, 0),)
    committed: int = 1
    snapshot_index: int = 0
    term: int = 0
    voted_for: str | None = None
    given: dict[int, str] = field(default_factory=dict)
    """Votes that somebody may have heard of."""
    logs: list[Full] = field(default_factory=list)
    """Logs since one was last known to be on the disk, that one included."""
    snapshots: list[int] = field(default_factory=list)
    """The same of the image's index."""
    votes: list[tuple[int, str | None]] = field(default_factory=list)
    image_logs: dict[int, Full] = field(default_factory=dict)

    def settled(self) -> None:
        """The present state is on the disk."""
        self.logs, self.snapshots, self.votes = [self.log], [self.snapshot_index], [(self.term, self.voted_for)]

    def change(self, log: Full) -> None:
        """The log is this now, and nothing is known of the disk."""
        self.log = log
        self.logs.append(log)


class World:
    """The lives of one member, by seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.disk = SimDisk(seed)
        self.model = Model(logs=[()], snapshots=[0], votes=[(0, None)])
        self.rng = SystemRng(seed)
        self.folder: RaftFolder
        self.steps = 0
        self.lives = 0
        self.node_ids: set[int] = set()

    def run(self) -> None:
        """Live; raises ViolationError."""
        for _ in range(_LIVES):
            self._live()
        self.disk.clear_faults()
        self._open()

    def _live(self) -> None:
        self.lives += 1
        if self.chance.random() < 0.6:
            self.disk.stop_at(self.chance.randint(1, 80))
        try:
            self._open()
            if self.chance.random() < 0.8:
                self._plan_failure()
            for _ in range(self.chance.randint(1, _STEPS)):
                self._step()
            if self.chance.random() < 0.5:
                self.folder.close()
                self._told_synced()
            else:
                self._damage_a_copy()
        except (MachineOffError, JournalStoppedError, OSError):
            pass
        self.disk = self.disk.process_kill() if self.chance.random() < 0.2 else self.disk.power_cut()

    def _damage_a_copy(self) -> None:
        """Damage what a quiet member has on its disk: it is all there at a start, or missed. Lives go on without."""
        self._acknowledge()
        failed = self.disk.failed.total()
        for _ in range(RAFT_MARK_DELAY_S):
            self.folder.log.onOneSecondTimer()
        if self.disk.failed.total() == failed:
            entries = {entry[1]: entry for entry in self.model.log}
            vote = (self.model.term, self.model.voted_for)
            damage = damage_raft(self.disk.contents(), self.chance)
            fault, _ = judge_raft(damage.files, RaftPromise(self.folder.node_id, "", vote, entries))
            if fault:
                raise ViolationError(f"life {self.lives}: {damage.what}: {fault}")

    def _plan_failure(self) -> None:
        kinds = [Operation.SYNC, Operation.APPEND, Operation.CREATE, Operation.SYNC_FOLDER]
        operation = self.chance.choices(kinds, [8, 2, 1, 1])[0]
        self.disk.fail(operation, self.chance.randint(1, 8), name=self.chance.choice(["*", "raft/log-*"]))

    # What is found

    def _open(self) -> None:
        try:
            self.folder = RaftFolder.open(self.disk, self.rng)
        except DanubeError as error:
            raise ViolationError(f"life {self.lives}: a crash alone left what is refused: {error}") from error
        self._check_identity()
        self._check_vote()
        self._check_log()
        if not len(self.folder.log):
            self.folder.log.add(b"\1", 1, 0)
            self.model.change(((b"\1", 1, 0),))

    def _check_identity(self) -> None:
        self.node_ids.add(self.folder.node_id)
        if len(self.node_ids) > 1:
            raise ViolationError("the member forgot who it is")

    def _check_vote(self) -> None:
        log, model = self.folder.log, self.model
        found = (log.getCurrentTerm(), log.getVotedForNodeId())
        if found not in model.votes:
            raise ViolationError(f"the vote {found} is none of {model.votes}")
        model.term, model.voted_for = found

    def _check_log(self) -> None:
        model, snapshot = self.model, self.folder.snapshot
        index = snapshot.index if snapshot is not None else 0
        if index not in model.snapshots:
            raise ViolationError(f"the image at {index} is none of those at {model.snapshots}")
        entries = tuple(self.folder.log[:])
        fitting = [full for full in self._logs_with(index) if full[max(index - 2, 0) :] == entries]
        if not fitting:
            raise ViolationError(
                f"life {self.lives}: with the image at {index} the log {_short(entries)} was never there"
            )
        model.log, model.snapshot_index = fitting[-1], index
        model.committed = max(min(model.committed, len(model.log)), index, 1)
        self._check_members(snapshot)
        model.settled()

    def _logs_with(self, index: int) -> list[Full]:
        """The logs that may be found with this image: one that does not go on from it is the image's own."""
        if not index:
            return self.model.logs
        own = self.model.image_logs[index]
        return [full if full[:index] == own else own for full in self.model.logs]

    def _check_members(self, snapshot: HeldSnapshot | None) -> None:
        log = self.folder.log
        before = snapshot.members if snapshot is not None else FOUNDERS
        after = log[2:] if snapshot is not None else log[:]
        if recovery.members_after(before, after) != members_by_hand(self.model.log):
            raise ViolationError("the members are not those of the newest configuration in the log")

    # What is done

    def _step(self) -> None:
        self.steps += 1
        weights: dict[Callable[[], None], int] = {
            self._append: 6,
            self._acknowledge: 4,
            self._commit: 3,
            self._vote: 2,
            self._conflict: 3,
            self._take_image: 2,
            self._receive_image: 1,
            self._look: 1,
            self.folder.log.onOneSecondTimer: 1,
        }
        (step,) = self.chance.choices(list(weights), list(weights.values()))
        step()

    def _append(self) -> None:
        """The leader's entries follow."""
        for _ in range(self.chance.randint(1, 6)):
            self._add()

    def _add(self) -> None:
        index, term = len(self.model.log) + 1, max(self.model.term, self.model.log[-1][2])
        entry = (command_at(index, term), index, term)
        self.model.change((*self.model.log, entry))
        self.folder.log.add(*entry)

    def _acknowledge(self) -> None:
        self.folder.log.sync()
        self._told_synced()

    def _told_synced(self) -> None:
        if self.folder.log.unsynced:
            raise ViolationError("synced, and yet not")
        self.model.logs = [self.model.log]

    def _commit(self) -> None:
        """As leader or follower: what is committed counts this member's copy."""
        index = self.chance.randint(self.model.committed, len(self.model.log))
        self.folder.log.setRaftCommitIndex(index)
        self.model.logs = [log for log in self.model.logs if log[:index] == self.model.log[:index]]
        self.model.committed = index

    def _vote(self, term: int = 0) -> None:
        """Enter a term, or vote in this one if there is no vote yet."""
        model = self.model
        again = not term and model.voted_for is None and model.term and self.chance.random() < 0.5
        now = model.term if again else term or model.term + 1
        vote = (now, self.chance.choice(CANDIDATES))
        model.votes.append(vote)
        self.folder.log.setCurrentTerm(*vote)
        model.votes = [vote]
        model.term, model.voted_for = vote
        if vote[1] is not None and model.given.setdefault(now, vote[1]) != vote[1]:
            raise ViolationError(f"two votes in term {now}")

    def _conflict(self) -> None:
        """A leader of a newer term has other entries behind what is committed."""
        model = self.model
        if len(model.log) <= model.committed:
            return
        self._vote(model.term + 1)
        first = self.chance.randint(model.committed + 1, len(model.log))
        model.change(model.log[: first - 1])
        self.folder.log.deleteEntriesFrom(first - self.folder.log.first_index)
        if self.chance.random() < 0.9:
            self._append()

    def _take_image(self) -> None:
        """Take a snapshot of what is applied; then the log goes up to it."""
        index = self.chance.randint(max(2, self.model.snapshot_index), max(2, self.model.committed))
        if index <= self.model.snapshot_index or index > self.model.committed:
            return
        self._save(index, self.model.log[:index])
        log = self.folder.log
        log.deleteEntriesTo(index - 1 - log.first_index)

    def _receive_image(self) -> None:
        """From a leader that is so far ahead that it has no log for this member any more."""
        model = self.model
        self._vote(model.term + 1)
        full = model.log[: model.committed]
        for index in range(model.committed + 1, len(model.log) + self.chance.randint(2, 6)):
            full = (*full, (command_at(index, model.term), index, model.term))
        self._save(len(full), full)
        log = self.folder.log
        model.change(full)
        log.clear()
        log.add(*full[-2])
        log.add(*full[-1])
        log.sync()
        model.committed = len(full)
        self._told_synced()

    def _save(self, index: int, full: Full) -> None:
        self.model.snapshots.append(index)
        self.model.image_logs[index] = full
        self.folder.save_snapshot(image_of(full))
        self.model.snapshot_index = index
        self.model.snapshots = [index]

    def _look(self) -> None:
        """As the guard does with a message that brings nothing new."""
        log = self.folder.log
        all_of_it, last = log[:], self.chance.randint(log.first_index, log.last_index)
        log.narrow(last)
        if self.chance.random() < 0.5:
            log.setRaftCommitIndex(log.last_index)
            self.model.logs = [each for each in self.model.logs if each[:last] == self.model.log[:last]]
        if log[-1][1] != last or log[:] != all_of_it[: last + 1 - log.first_index]:
            raise ViolationError("a narrowed log shows what it should not")
        log.widen()
        if log[:] != all_of_it:
            raise ViolationError("a log is another one after it was narrowed")


def _short(entries: Sequence[Entry]) -> str:
    return " ".join(f"{index}/{term}" for _, index, term in entries)
