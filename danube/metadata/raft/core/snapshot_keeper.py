"""Snapshots of the state between pysyncobj's core, the disk and members that are too far behind for the log.

Replaces pysyncobj's `Serializer`. The core requests a snapshot of the state after the last applied entry; the keeper of
the state answers with `snapshot_made`. A piece that is sent is

    {"index", "term", "size", "offset", "bytes"}   and, in the first, "prev", "last": entries, "members": ids of voters

so a follower knows from the first piece if it needs the snapshot. It reports what it has received, and no more than
RAFT_SNAPSHOT_WINDOW_BYTES are on their way to one member.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pysyncobj.config import SERIALIZER_STATE
from pysyncobj.node import Node

from danube.metadata.raft.core.overrides import Entry, now_s
from danube.metadata.raft.folder.snapshot import HeldSnapshot, MemoryBytes
from danube.metadata.raft.values.node import RaftNode
from danube.model.errors import InvalidRequestError
from danube.model.limits.metadata import (
    RAFT_SNAPSHOT_BYTES_MAX,
    RAFT_SNAPSHOT_PIECE_BYTES,
    RAFT_SNAPSHOT_RETRY_S,
    RAFT_SNAPSHOT_STALL_S,
    RAFT_SNAPSHOT_WINDOW_BYTES,
    RAFT_VOTERS_MAX,
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """A snapshot to be made: of the state right after `last`."""

    prev: Entry
    last: Entry
    members: tuple[str, ...]


class Snapshots(Protocol):
    """Store of snapshots."""

    @property
    def snapshot(self) -> HeldSnapshot | None:
        """The newest whole one."""

    def save_snapshot(self, snapshot: HeldSnapshot) -> None:
        """Keep it, unless a newer one is there; durable when it returns. From any thread. Raises OSError."""


class SnapshotLog(Protocol):
    """The log, as the keeper needs it."""

    def term_of(self, index: int) -> int | None: ...


@dataclass(slots=True)
class _Sending:
    snapshot: HeldSnapshot
    moved_s: float
    """Time of its last progress."""
    sent: int = 0
    confirmed: int = 0


@dataclass(slots=True)
class _Coming:
    prev: Entry
    last: Entry
    members: tuple[str, ...]
    size: int
    pieces: list[bytes]
    got: int = 0


class SnapshotKeeper:
    """The core's `Serializer`. Raft's thread calls it; `snapshot_made` and `snapshot_failed` come from any thread."""

    def __init__(self, snapshots: Snapshots, log: SnapshotLog, *, on_wanted: Callable[[SnapshotRequest], None]) -> None:
        """`on_wanted` has to lead to `snapshot_made` or `snapshot_failed`, each time."""
        self._snapshots = snapshots
        self._log = log
        self._on_wanted = on_wanted
        self._saving = threading.Lock()
        self._wanted: SnapshotRequest | None = None
        self._wanted_id = 0
        self._ended: int | None = None
        self._quiet_until_s = 0.0
        self._sending: dict[Node, _Sending] = {}
        self.sent_index: dict[Node, int] = {}
        """Index of the snapshot that each connected member was, or is being, sent: it goes on from there."""
        self._coming: _Coming | None = None
        self.members_applied: Callable[[], Iterable[str]] = tuple
        """Voters after the last applied entry."""
        self.members_now: Callable[[], Iterable[str]] = tuple
        """Voters after the last entry of the log, which stands on the newest snapshot."""
        self._installed = False
        self.on_pause: Callable[[Node], None] = lambda _node: None
        """Told that a member is sent nothing more of a snapshot for now."""

    @property
    def newest(self) -> HeldSnapshot | None:
        """The snapshot that the log stands on."""
        return self._snapshots.snapshot

    # Making snapshots

    def checkSerializing(self) -> tuple[int, int | None]:  # noqa: N802 - pysyncobj's name
        if self._ended is not None:
            ended, self._ended, self._wanted = self._ended, None, None
            return ended, self._wanted_id
        if self._wanted is not None or now_s() < self._quiet_until_s:
            return SERIALIZER_STATE.SERIALIZING, self._wanted_id
        return SERIALIZER_STATE.NOT_SERIALIZING, None

    def serialize(self, data: tuple[Any, Entry, Entry, Any], id: int) -> None:  # noqa: A002 - pysyncobj's name
        if self._wanted is None:
            _, last, prev, _ = data
            self._wanted, self._wanted_id = SnapshotRequest(prev, last, tuple(sorted(self.members_applied()))), id
            self._on_wanted(self._wanted)

    def snapshot_made(self, wanted: SnapshotRequest, payload: Sequence[bytes]) -> None:
        """The snapshot that was wanted, as bytes: keep it, and have the log cut."""
        try:
            with self._saving:
                self._snapshots.save_snapshot(_held(wanted.prev, wanted.last, wanted.members, payload))
        except OSError as error:
            self.snapshot_failed(error)
        else:
            self._ended = SERIALIZER_STATE.SUCCESS

    def snapshot_failed(self, error: Exception) -> None:
        """Another one will be wanted later."""
        _log.error("no snapshot of the metadata was written, and the log cannot be cut: %s", error)
        self._quiet_until_s = now_s() + RAFT_SNAPSHOT_RETRY_S
        self._ended = SERIALIZER_STATE.FAILED

    def deserialize(self) -> tuple[None, Entry, Entry, list[RaftNode]]:
        snapshot = self._snapshots.snapshot
        assert snapshot is not None  # noqa: S101 - the core asks after it was told that there is one
        members = snapshot.members if self._installed else self.members_now()
        self._installed = False
        return None, snapshot.last, snapshot.prev, [RaftNode(member) for member in members]

    # Sending them

    def getTransmissionData(self, transmissionID: Node) -> tuple[Any, bool, bool] | None:  # noqa: N802, N803 - pysyncobj's
        piece = self._piece_for(transmissionID)
        if piece is None:
            self.on_pause(transmissionID)
        return piece

    def _piece_for(self, node: Node) -> tuple[Any, bool, bool] | None:
        snapshot = self._snapshots.snapshot
        if snapshot is None:
            return None
        sending = self._sending.setdefault(node, _Sending(snapshot, now_s()))
        self.sent_index[node] = sending.snapshot.index
        if sending.sent - sending.confirmed >= RAFT_SNAPSHOT_WINDOW_BYTES:
            return None
        try:
            return self._next_piece(node, sending)
        except OSError:
            self._sending.pop(node)  # a newer one has come: it is sent from its beginning
            return None

    def cancelTransmisstion(self, id: Node) -> None:  # noqa: N802, A002 - pysyncobj's name
        self._sending.pop(id, None)
        self.sent_index.pop(id, None)

    def restart_sending(self) -> None:
        """Begin with every snapshot anew: whoever was sent one has dropped it if another has led meanwhile."""
        self._sending.clear()
        self.sent_index.clear()

    def declined(self, node: Node) -> None:
        self._sending.pop(node, None)

    def progressed(self, node: Node, index: int, size: int) -> None:
        sending = self._sending.get(node)
        if sending is not None and sending.snapshot.last[1] == index:
            sending.confirmed = max(sending.confirmed, min(size, sending.sent))
            sending.moved_s = now_s()

    @property
    def is_making(self) -> bool:
        return self._wanted is not None

    @property
    def is_sending(self) -> bool:
        return bool(self._sending)

    @property
    def delays_newer(self) -> bool:
        """True if a newer snapshot would take the place of one that is on its way, which would begin anew each time."""
        return any(now_s() - sending.moved_s < RAFT_SNAPSHOT_STALL_S for sending in self._sending.values())

    def _next_piece(self, node: Node, sending: _Sending) -> tuple[Any, bool, bool]:
        snapshot, offset = sending.snapshot, sending.sent
        data = snapshot.payload.read(offset, RAFT_SNAPSHOT_PIECE_BYTES)
        if not data:
            raise OSError("the snapshot ends early")
        piece: dict[str, Any] = {"index": snapshot.last[1], "term": snapshot.last[2], "size": snapshot.payload.size}
        piece |= {"offset": offset, "bytes": data}
        if offset == 0:
            piece |= {"prev": snapshot.prev, "last": snapshot.last, "members": tuple(snapshot.members)}
        sending.sent += len(data)
        is_last = sending.sent >= snapshot.payload.size
        if is_last:
            self._sending.pop(node)
        return piece, offset == 0, is_last

    # Taking them

    def agreed_index(self, piece: Any) -> int:  # noqa: ANN401 - read from a peer
        """0 if the snapshot that comes is wanted; else the index up to which this log agrees with the leader's.

        What is up to our own snapshot is committed, so every later leader has it; and logs that have one entry in
        common have all before it in common. To take an older snapshot would be to forget entries that were promised.
        """
        match piece:
            case ({"index": int(index), "term": int(term)}, _, _):
                own = self._snapshots.snapshot
                if own is not None and own.last[1] >= index:
                    return own.last[1]
                return index if self._log.term_of(index) == term else 0
        return 0

    def received(self) -> tuple[int, int] | None:
        coming = self._coming
        return None if coming is None else (coming.last[1], coming.got)

    def setTransmissionData(self, data: Any) -> bool:  # noqa: N802, ANN401 - pysyncobj's name
        """Take a piece; True when the snapshot is whole, and on the disk. Raises OSError when it cannot be kept."""
        try:
            return self._add_piece(data)
        except (ValueError, TypeError, KeyError, InvalidRequestError):
            self._coming = None
            return False

    def _add_piece(self, data: Any) -> bool:  # noqa: ANN401 - read from a peer
        if data is None:
            return False
        piece, is_first, _ = data
        if is_first:
            self._coming = _first(piece)
        coming = self._coming
        if coming is None or piece["index"] != coming.last[1] or piece["offset"] != coming.got:
            return False
        coming.pieces.append(piece["bytes"])
        coming.got += len(piece["bytes"])
        if coming.got > coming.size:
            raise ValueError("a snapshot that is longer than it says")
        if coming.got < coming.size:
            return False
        self._coming = None
        with self._saving:
            self._snapshots.save_snapshot(_held(coming.prev, coming.last, coming.members, coming.pieces))
        self._installed = True
        return True


def _first(piece: dict[str, Any]) -> _Coming:
    """Raises ValueError, and what the kinds of its parts raise, for what cannot begin a snapshot."""
    prev, last, members, size = piece["prev"], piece["last"], piece["members"], piece["size"]
    if not 0 < size <= RAFT_SNAPSHOT_BYTES_MAX or not 0 < len(members) <= RAFT_VOTERS_MAX:
        raise ValueError("a snapshot of an impossible size")
    if last[1] != prev[1] + 1 or last[1] != piece["index"] or last[2] != piece["term"]:
        raise ValueError("a snapshot whose entries do not fit")
    return _Coming(tuple(prev), tuple(last), tuple(str(RaftNode(member).id) for member in members), size, [])


def _held(prev: Entry, last: Entry, members: tuple[str, ...], payload: Sequence[bytes]) -> HeldSnapshot:
    return HeldSnapshot(prev=prev, last=last, members=members, payload=MemoryBytes(*payload))
