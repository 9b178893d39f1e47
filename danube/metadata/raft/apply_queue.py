"""Queue between Raft's thread and the follower on the event loop: in order, in bounded slices of work.

A snapshot that replaces the state is decoded away from the loop, and later events wait. If a newer snapshot has
replaced it meanwhile, all events before that one are skipped. A requested snapshot is of the follower's state at that
place in the sequence; it is encoded and written away from the loop.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from danube.metadata.raft.bootstrap import FIRST_ENTRIES
from danube.metadata.raft.core.snapshot_keeper import SnapshotRequest
from danube.metadata.raft.folder.snapshot import HeldSnapshot
from danube.metadata.raft.member import Installed, MemberEvent, Ordered
from danube.metadata.replication.sequencer import Follower
from danube.metadata.replication.snapshot_format import decode_state, encode_state
from danube.metadata.state import StateSnapshot
from danube.model.errors import DanubeError, MetadataError
from danube.model.limits.metadata import RAFT_APPLY_BATCHES_MAX
from danube.runtime.blocking import BlockingRunner
from danube.runtime.tasks import TaskScope


class Source(Protocol):
    """The member that events come from."""

    def applied(self, size: int) -> None: ...
    def snapshot_made(self, wanted: SnapshotRequest, payload: Sequence[bytes]) -> None: ...
    def snapshot_failed(self, error: Exception) -> None: ...
    def newest_snapshot_index(self) -> int: ...


class ApplyQueue:
    """Everything on the event loop."""

    def __init__(
        self,
        follower: Follower,
        runner: BlockingRunner,
        tasks: TaskScope,
        *,
        on_batch: Callable[[int, int], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        """`on_batch` is told who made each batch and which of theirs it is, after it was applied."""
        self._follower = follower
        self._runner = runner
        self._tasks = tasks
        self._on_batch = on_batch
        self._on_failed = on_failed
        self._waiting: deque[MemberEvent] = deque()
        self._is_resetting = False
        self._is_scheduled = False
        self._awaits_snapshot = False
        """True after a snapshot was missed, until a newer one comes."""
        self.source: Source | None = None
        """Known once this process is a member; nothing is found before."""
        self.position = 0
        """Position that the follower received last."""
        self._closed = False

    def enqueue(self, found: Sequence[MemberEvent]) -> None:
        """Queue these events behind all before them."""
        self._waiting.extend(found)
        if not self._is_scheduled:
            self._run()

    def close(self) -> None:
        self._closed = True
        self._waiting.clear()

    def _run(self) -> None:
        self._is_scheduled = False
        for _ in range(RAFT_APPLY_BATCHES_MAX):
            if not self._waiting or self._is_resetting or self._closed:
                return
            self._process(self._waiting.popleft())
        self._is_scheduled = True
        asyncio.get_running_loop().call_soon(self._run)

    def _process(self, found: MemberEvent) -> None:
        if self._awaits_snapshot and not isinstance(found, Installed):
            self._skip(found)
            return
        match found:
            case Ordered():
                self._apply(found)
            case Installed(snapshot):
                self._is_resetting, self._awaits_snapshot = True, False
                self._tasks.spawn(self._reset(snapshot), "take over a snapshot")
            case SnapshotRequest():
                self._tasks.spawn(self._make(found, self._follower.snapshot()), "make a snapshot")

    def _apply(self, found: Ordered) -> None:
        if found.requests:
            try:
                self._follower.apply(found.position, found.requests)
            except Exception as error:  # whatever it is, nothing that comes later may be applied
                self.close()
                self._on_failed(error)
                return
        self.position = found.position
        if self.source is not None:
            self.source.applied(found.size)
        self._on_batch(found.origin, found.number)

    async def _reset(self, held: HeldSnapshot) -> None:
        try:
            snapshot = await self._runner.run(lambda: _state_of(held))
        except (MetadataError, OSError) as error:
            if isinstance(error, MetadataError) or not self._has_newer(held):
                self.close()
                self._on_failed(error)
                return
            self._awaits_snapshot = True
        else:
            self._follower.reset(held.index, snapshot)
            self.position = held.index
        self._is_resetting = False
        if not self._is_scheduled:
            self._run()

    def _has_newer(self, held: HeldSnapshot) -> bool:
        """True if a newer snapshot is kept: the files of this one are gone then, and the newer one is told of next."""
        return self.source is not None and self.source.newest_snapshot_index() > held.index

    def _skip(self, found: Ordered | SnapshotRequest) -> None:
        """Skip what the next snapshot has already."""
        if self.source is None:
            return
        if isinstance(found, Ordered):
            self.source.applied(found.size)
        else:
            self.source.snapshot_failed(MetadataError("a newer one came meanwhile"))

    async def _make(self, wanted: SnapshotRequest, snapshot: StateSnapshot) -> None:
        source = self.source
        if source is None:
            return
        try:
            await self._runner.run(lambda: source.snapshot_made(wanted, list(encode_state(snapshot))))
        except DanubeError as error:
            source.snapshot_failed(error)


def _state_of(held: HeldSnapshot) -> StateSnapshot:
    if held.index == FIRST_ENTRIES[1][1]:
        return StateSnapshot()
    return decode_state(held.payload.read(0, held.payload.size))
