"""Damage by the medium to the files of a Raft member: flipped bits, cut ends, lost files.

A member lives a few lives: entries, votes, conflicts, snapshots. Then one file of `raft/` is damaged, or its whole log
is lost. The next start has everything that the member acknowledged, or refuses, names the file and the next step.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from danube.metadata.raft.bootstrap import begin
from danube.metadata.raft.folder.folder import RaftFolder
from danube.metadata.raft.folder.format import FOLDER, NEXT_STEP, Entry, file_sequence
from danube.metadata.raft.folder.snapshot import HeldSnapshot, MemoryBytes
from danube.model.errors import DamagedDataError, DataFolderError
from danube.model.limits.metadata import RAFT_MARK_DELAY_S
from danube.runtime.rng import SystemRng
from danube.testing.simulated.disk import SimDisk

_MEMBERS = ("1@10.0.0.1:7650", "2@10.0.0.2:7650", "3@10.0.0.3:7650")
_LIVES_MAX = 3
_STEPS_MAX = 30

Files = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class RaftPromise:
    """State that a member acknowledged: the least that its next start shows."""

    node_id: int
    cluster_id: str
    vote: tuple[int, str | None]
    entries: Mapping[int, Entry]
    """By index, committed or not."""


@dataclass(frozen=True, slots=True)
class RaftDamage:
    """One damage of the folder `raft/`."""

    what: str
    files: Files
    """All files of the data folder, damaged."""


def damage_raft(files: Files, chance: random.Random) -> RaftDamage:
    """Damage one file of a member that does not run, or remove all files of its log."""
    logs = [name for name in files if file_sequence(name.rpartition("/")[2]) is not None]
    names = [name for name, content in files.items() if name.startswith(f"{FOLDER}/") and content]
    name = chance.choice([*names, *logs[-1:]])
    content, kind = files[name], chance.choice(["flip", "flip", "cut", "cut", "zero", "remove", "remove the log"])
    at = chance.randrange(len(content))
    match kind:
        case "flip":
            flipped = content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1 :]
            return RaftDamage(f"{name}: a bit of byte {at} is flipped", {**files, name: flipped})
        case "cut" | "zero":
            rest = b"" if kind == "cut" else bytes(len(content) - at)
            what = f"{name}: {at} of {len(content)} bytes are left, and {len(rest)} zeros"
            return RaftDamage(what, {**files, name: content[:at] + rest})
        case _:
            gone = [name] if kind == "remove" else logs
            return RaftDamage(f"{', '.join(gone)}: removed", {one: files[one] for one in files if one not in gone})


def judge_raft(files: Files, promise: RaftPromise) -> tuple[str, str]:
    """Start a member on these files: answers what is wrong with that, if anything, and how it refused, if it did."""
    disk = SimDisk()
    disk.make_folder(FOLDER)
    for name, content in files.items():
        disk.replace_file(name, content)
    try:
        folder = RaftFolder.open(disk)
    except DamagedDataError as error:
        told = str(error)
        is_led = told.startswith(f"{FOLDER}/") and told.endswith(NEXT_STEP)
        return "" if is_led else f"the refusal leads nowhere: {told}", told
    except DataFolderError as error:  # a flipped bit of a format's version reads as another version
        return "" if "use the Danube" in str(error) else f"the refusal leads nowhere: {error}", str(error)
    try:
        return _missing(folder, promise), ""
    finally:
        folder.close()


def _missing(folder: RaftFolder, promise: RaftPromise) -> str:
    log, covered = folder.log, folder.snapshot.index if folder.snapshot is not None else 0
    if (folder.node_id, folder.cluster_id) != (promise.node_id, promise.cluster_id):
        return "it forgot who it is"
    if (log.getCurrentTerm(), log.getVotedForNodeId()) != promise.vote:
        return f"it forgot its vote {promise.vote}"
    shown = {entry[1]: entry for entry in log[:]}
    lost = [index for index, entry in promise.entries.items() if index > covered and shown.get(index) != entry]
    return f"entries {lost} were acknowledged and are gone" if lost else ""


@dataclass(slots=True)
class RaftDamaged:
    """A member that lives and is damaged, by `chance`."""

    chance: random.Random
    faults: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    """Errors with which it refused to start, as it should."""
    damage: RaftDamage | None = None
    _entries: dict[int, Entry] = field(default_factory=dict)
    _committed: int = 2

    def run(self) -> None:
        """Live, damage, judge."""
        disk = SimDisk(self.chance.getrandbits(32))
        for _ in range(self.chance.randint(1, _LIVES_MAX)):
            promise = self._live(disk)
            disk = disk.process_kill()
        self.damage = damage_raft(disk.contents(), self.chance)
        fault, told = judge_raft(self.damage.files, promise)
        self.faults += [f"{self.damage.what}: {fault}"] if fault else []
        self.told += [told] if told else []

    def _live(self, disk: SimDisk) -> RaftPromise:
        """One life; it ends in order, by a crash after a while of quiet, or by one right in the midst of its work."""
        folder = RaftFolder.open(disk, SystemRng(self.chance.getrandbits(63)))
        if folder.snapshot is None:
            begin(folder, "damaged", _MEMBERS)
        self._entries = {entry[1]: entry for entry in folder.log[:]}
        self._work(folder)
        end = self.chance.choice(["close", "quiet", "busy"])
        if end == "close":
            folder.close()
        for _ in range(RAFT_MARK_DELAY_S):
            folder.log.onOneSecondTimer()
        marked = self._entries
        if end == "busy":
            self._work(folder)
        kept = {index: entry for index, entry in marked.items() if self._entries.get(index) == entry}
        vote = (folder.log.getCurrentTerm(), folder.log.getVotedForNodeId())
        return RaftPromise(folder.node_id, folder.cluster_id, vote, kept)

    def _work(self, folder: RaftFolder) -> None:
        steps = {self._append: 6, self._vote: 2, self._replace: 2, self._take_image: 1, self._tick: 2}
        for step in self.chance.choices([*steps], [*steps.values()], k=self.chance.randint(1, _STEPS_MAX)):
            step(folder)

    def _tick(self, folder: RaftFolder) -> None:
        folder.log.onOneSecondTimer()

    def _append(self, folder: RaftFolder) -> None:
        """Acknowledge more entries of this term."""
        term = folder.log.getCurrentTerm()
        added: list[Entry] = []
        for index in range(folder.log.last_index + 1, folder.log.last_index + self.chance.randint(2, 6)):
            added.append((b"\0" + self.chance.randbytes(self.chance.randint(0, 99)), index, term))
            folder.log.add(*added[-1])
        self._entries = {**self._entries, **{entry[1]: entry for entry in added}}
        folder.log.sync()
        self._committed = self.chance.randint(self._committed, folder.log.last_index)

    def _vote(self, folder: RaftFolder) -> None:
        folder.log.setCurrentTerm(folder.log.getCurrentTerm() + 1, self.chance.choice([*_MEMBERS, None]))

    def _replace(self, folder: RaftFolder) -> None:
        """Take other entries of a newer leader in the place of those that are not committed."""
        first = self._committed + 1
        self._vote(folder)
        folder.log.deleteEntriesFrom(first - folder.log.first_index)
        self._entries = {index: entry for index, entry in self._entries.items() if index < first}
        self._append(folder)

    def _take_image(self, folder: RaftFolder) -> None:
        index, log = self._committed, folder.log
        if folder.snapshot is None or index <= folder.snapshot.index + 1:
            return
        prev, last = self._entries[index - 1], self._entries[index]
        folder.save_snapshot(HeldSnapshot(prev=prev, last=last, members=_MEMBERS, payload=MemoryBytes(b"state" * 9)))
        log.deleteEntriesTo(index - 1 - log.first_index)
