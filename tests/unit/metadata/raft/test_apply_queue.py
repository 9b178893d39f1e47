"""What Raft found, as the follower gets it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from danube.metadata.raft.apply_queue import ApplyQueue
from danube.metadata.raft.core.snapshot_keeper import SnapshotRequest
from danube.metadata.raft.folder.snapshot import HeldSnapshot, MemoryBytes
from danube.metadata.raft.member import Installed, Ordered
from danube.metadata.raft.values.entries import NO_OP
from danube.metadata.replication.snapshot_format import encode_state
from danube.metadata.state import StateSnapshot
from danube.model.errors import UnsupportedError
from danube.model.limits.metadata import RAFT_APPLY_BATCHES_MAX
from danube.runtime.blocking import InlineRunner
from danube.runtime.tasks import TaskScope

STATE = StateSnapshot(revision=7)


class Follower:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.error: Exception | None = None

    def apply(self, position: int, requests: Sequence[bytes]) -> None:
        if self.error is not None:
            raise self.error
        self.told.append(position)

    def reset(self, position: int, snapshot: StateSnapshot) -> None:
        self.told.append(("reset", position, snapshot.revision))

    def snapshot(self) -> StateSnapshot:
        self.told.append("image")
        return STATE

    def led_anew(self) -> None:
        self.told.append("led anew")

    def failed(self, error: Exception) -> None:
        self.told.append(error)


class Source:
    """What the feed tells back."""

    def __init__(self) -> None:
        self.bytes = 0
        self.snapshots: list[Sequence[bytes]] = []
        self.newest = 0
        self.not_made_for: list[Exception] = []

    def applied(self, size: int) -> None:
        self.bytes += size

    def snapshot_made(self, wanted: SnapshotRequest, payload: Sequence[bytes]) -> None:
        self.snapshots.append(payload)

    def snapshot_failed(self, error: Exception) -> None:
        self.not_made_for.append(error)

    def newest_snapshot_index(self) -> int:
        return self.newest


class GoneBytes(MemoryBytes):
    """Of a snapshot whose file went when a newer one came."""

    def read(self, position: int, length: int) -> bytes:
        raise FileNotFoundError("a newer snapshot took its place")


class Fed:
    """A feed and its ends."""

    def __init__(self, tasks: TaskScope) -> None:
        self.follower, self.source = Follower(), Source()
        self.batches: list[int] = []
        self.failures: list[Exception] = []
        self.queue = ApplyQueue(
            self.follower,
            InlineRunner(),
            tasks,
            on_batch=lambda _origin, number: self.batches.append(number),
            on_failed=self.failures.append,
        )
        self.queue.source = self.source


@pytest.fixture
async def fed() -> AsyncIterator[Fed]:
    tasks = TaskScope("test")
    yield Fed(tasks)
    await tasks.close()


def _batch(position: int, *requests: bytes) -> Ordered:
    return Ordered(position, 1, 100 + position, requests or (b"x",), 10)


def _snapshot(index: int, payload: bytes | None = None) -> Installed:
    packed = MemoryBytes(*encode_state(STATE)) if payload is None else MemoryBytes(payload)
    return Installed(
        HeldSnapshot(prev=(NO_OP, index - 1, 1), last=(NO_OP, index, 1), members=("1@a:1",), payload=packed)
    )


async def test_batches_are_applied_in_order_and_their_makers_told(fed: Fed) -> None:
    fed.queue.enqueue([_batch(3), _batch(4)])
    assert fed.follower.told == [3, 4]
    assert fed.batches == [103, 104]
    assert fed.source.bytes == 20


async def test_a_batch_without_requests_is_a_question_and_reaches_no_follower(fed: Fed) -> None:
    fed.queue.enqueue([Ordered(3, 1, 5, (), 10)])
    assert fed.follower.told == []
    assert fed.batches == [5]


async def test_what_comes_behind_an_image_waits_for_it(fed: Fed) -> None:
    fed.queue.enqueue([_snapshot(9), _batch(10)])
    assert fed.follower.told == []
    fed.queue.enqueue([_batch(11)])
    for _ in range(3):
        await asyncio.sleep(0)
    assert fed.follower.told == [("reset", 9, 7), 10, 11]


async def test_an_image_is_of_its_very_place_in_the_sequence(fed: Fed) -> None:
    wanted = SnapshotRequest((NO_OP, 3, 1), (NO_OP, 4, 1), ("1@a:1",))
    fed.queue.enqueue([_batch(4), wanted, _batch(5)])
    assert fed.follower.told == [4, "image", 5]
    await asyncio.sleep(0)
    assert fed.source.snapshots == [list(encode_state(STATE))]


async def test_a_long_run_lets_others_have_their_turn(fed: Fed) -> None:
    count = 3 * RAFT_APPLY_BATCHES_MAX
    fed.queue.enqueue([_batch(position) for position in range(1, count + 1)])
    assert len(fed.follower.told) == RAFT_APPLY_BATCHES_MAX
    fed.queue.enqueue([_batch(count + 1)])
    for _ in range(4):
        await asyncio.sleep(0)
    assert fed.follower.told == list(range(1, count + 2))


@pytest.mark.parametrize("error", [UnsupportedError("newer rules"), KeyError("a fault of ours")])
async def test_after_an_error_nothing_more_is_applied(fed: Fed, error: Exception) -> None:
    fed.follower.error = error
    fed.queue.enqueue([_batch(3), _batch(4)])
    fed.follower.error = None
    fed.queue.enqueue([_batch(5)])
    assert fed.follower.told == []
    assert fed.failures == [error]


async def test_an_image_that_cannot_be_read_ends_it(fed: Fed) -> None:
    fed.queue.enqueue([_snapshot(9, b"nonsense"), _batch(10)])
    for _ in range(3):
        await asyncio.sleep(0)
    assert fed.follower.told == []
    assert len(fed.failures) == 1


def _missed(index: int) -> Installed:
    return Installed(replace(_snapshot(index).snapshot, payload=GoneBytes(b"x")))


async def test_an_image_that_a_newer_one_replaced_is_passed_over(fed: Fed) -> None:
    wanted = SnapshotRequest((NO_OP, 9, 1), (NO_OP, 10, 1), ("1@a:1",))
    fed.source.newest = 20
    fed.queue.enqueue([_missed(9), _batch(10), wanted])
    await _settle()
    assert not fed.failures
    fed.queue.enqueue([_snapshot(20), _batch(21)])
    await _settle()
    assert fed.follower.told == [("reset", 20, 7), 21]
    assert fed.source.bytes == 20  # those that were passed over count as applied
    assert len(fed.source.not_made_for) == 1


async def test_an_image_that_is_gone_without_a_newer_one_ends_it(fed: Fed) -> None:
    fed.source.newest = 9
    fed.queue.enqueue([_missed(9), _batch(10)])
    await _settle()
    assert fed.follower.told == []
    assert len(fed.failures) == 1


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)
