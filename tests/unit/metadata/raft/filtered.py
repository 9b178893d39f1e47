"""Stand-ins for what the guard and the keeper stand between."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from pysyncobj.node import Node
from pysyncobj.transport import Transport

from danube.metadata.raft.core.message_filter import Message
from danube.metadata.raft.core.overrides import Entry
from danube.metadata.raft.folder.snapshot import HeldSnapshot, MemoryBytes
from danube.metadata.raft.values.entries import NO_OP, REGULAR
from danube.metadata.raft.values.node import RaftNode

OWN = RaftNode("1@10.0.0.1:7650")
LEADER = RaftNode("2@10.0.0.2:7650")
VOTER = RaftNode("3@10.0.0.3:7650")
LEARNER = RaftNode("4@10.0.0.4:7650")
UNKNOWN_PEER = RaftNode("9@10.0.0.9:7650")


def entries(*terms: int, first: int = 1) -> list[Entry]:
    """Entries of these terms, one after the other."""
    return [(REGULAR + b"%d/%d" % (index, term), index, term) for index, term in enumerate(terms, first)]


def append(*added: Entry, previous: Entry, term: int = 5, commit: int = 0) -> Message:
    """An append_entries as the core sends it."""
    _, index, previous_term = previous
    return {
        "type": "append_entries",
        "term": term,
        "commit_index": commit,
        "entries": list(added),
        "prevLogIdx": index,
        "prevLogTerm": previous_term,
    }


def snapshot_at(index: int, term: int = 1, *, size: int = 10, members: tuple[str, ...] = ("1@a:1",)) -> HeldSnapshot:
    """A snapshot of the state after this entry."""
    payload = MemoryBytes(bytes(number % 251 for number in range(size)))
    return HeldSnapshot(prev=(NO_OP, index - 1, term), last=(NO_OP, index, term), members=members, payload=payload)


class ListLog:
    """A log in memory that counts its syncs."""

    def __init__(self, *terms: int) -> None:
        self.all = entries(*terms)
        self.shown = len(self.all)
        self.syncs = 0
        self.error: OSError | None = None

    @property
    def last_index(self) -> int:
        return self.all[self.shown - 1][1]

    def term_of(self, index: int) -> int | None:
        return next((term for _, own, term in self.all[: self.shown] if own == index), None)

    def sync(self) -> None:
        if self.error is not None:
            raise self.error
        self.syncs += 1

    def narrow(self, last_index: int) -> None:
        self.shown = sum(index <= last_index for _, index, _ in self.all)

    def widen(self) -> None:
        self.shown = len(self.all)


@dataclass
class FixedView:
    """What the core would say of itself."""

    term: int = 5
    commit: int = 1
    in_haste: int = 0
    led_by: Node | None = LEADER

    def current_term(self) -> int:
        return self.term

    def commit_index(self) -> int:
        return self.commit

    def leader(self) -> Node | None:
        return self.led_by

    def voters(self) -> AbstractSet[Node]:
        return {LEADER, VOTER}

    def learners(self) -> AbstractSet[Node]:
        return {LEARNER}

    def send_at_once(self) -> None:
        self.in_haste += 1


class KeptTransport(Transport):  # type: ignore[misc]  # pysyncobj has no types
    """Keeps what is sent."""

    def __init__(self) -> None:
        super().__init__(None, None, [])
        self.sent: list[tuple[Node, Message]] = []
        self.room = True

    @property
    def ready(self) -> bool:
        return True

    def has_room(self, node: Node) -> bool:
        return self.room

    def send(self, node: Node, message: Message) -> bool:
        self.sent.append((node, message))
        return True


@dataclass
class Pieces:
    """A keeper that says what it was told to."""

    agreed: int = 0
    got: tuple[int, int] | None = None
    progress: list[tuple[Node, int, int]] = field(default_factory=list)
    refusals: list[Node] = field(default_factory=list)

    def agreed_index(self, piece: Any) -> int:
        return self.agreed

    def received(self) -> tuple[int, int] | None:
        return self.got

    def progressed(self, node: Node, index: int, size: int) -> None:
        self.progress.append((node, index, size))

    def declined(self, node: Node) -> None:
        self.refusals.append(node)


@dataclass
class Snapshots:
    """Snapshots in memory."""

    snapshot: HeldSnapshot | None = None
    error: OSError | None = None
    on_save: Callable[[HeldSnapshot], None] = lambda _snapshot: None

    def save_snapshot(self, snapshot: HeldSnapshot) -> None:
        if self.error is not None:
            raise self.error
        self.on_save(snapshot)
        if self.snapshot is None or snapshot.index > self.snapshot.index:
            self.snapshot = snapshot
