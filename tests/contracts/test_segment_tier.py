"""What every `SegmentTier` promises, whatever keeps the files."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from danube.model.limits.broker import SEGMENT_OPEN_FILES_MAX
from danube.objects.bill import Bill, Cause
from danube.objects.memory import MemoryObjects
from danube.objects.retrying import RetryingStore
from danube.runtime.disk import LocalDisk
from danube.runtime.rng import SystemRng
from danube.storage.object_store.object_tier import BlockCache, ObjectTier
from danube.storage.object_store.side_by_side import SideBySide
from danube.storage.object_store.tiered_tier import TieredTier
from danube.storage.tiers.directory import DirectoryTier
from danube.storage.tiers.tier import SegmentTier
from danube.testing.simulated.clock import SimClock
from danube.testing.simulated.disk import SimDisk

NAME = "segments/7/a.segment"


@dataclass(frozen=True)
class Placement:
    """Somewhere to keep segments, and how another broker reaches the same place."""

    open: Callable[[], SegmentTier]


def local(folder: Path) -> Placement:
    return Placement(lambda: DirectoryTier(LocalDisk(folder)))


def simulated(_: Path) -> Placement:
    disk = SimDisk()
    return Placement(lambda: DirectoryTier(disk))


def objects(_: Path) -> Placement:
    clock, rng = SimClock(), SystemRng(seed=1)
    store = RetryingStore(MemoryObjects(), clock, rng, bill=Bill(0.0), cause=Cause.SEGMENT)
    return Placement(lambda: ObjectTier(store, BlockCache(store, SideBySide(0))))


def tiered(_: Path) -> Placement:
    clock, disk = SimClock(), SimDisk()
    store = RetryingStore(MemoryObjects(), clock, SystemRng(seed=1), bill=Bill(0.0), cause=Cause.SEGMENT)
    return Placement(lambda: TieredTier(disk, ObjectTier(store, BlockCache(store, SideBySide(0)), below="b/")))


@pytest.fixture(params=[local, simulated, objects, tiered])
def placement(request: pytest.FixtureRequest, tmp_path: Path) -> Placement:
    placement: Placement = request.param(tmp_path)
    return placement


@pytest.fixture
def tier(placement: Placement) -> Iterator[SegmentTier]:
    tier = placement.open()
    yield tier
    tier.close()


@pytest.fixture
def other(placement: Placement) -> Iterator[SegmentTier]:
    """Another's view of the same place."""
    tier = placement.open()
    yield tier
    tier.close()


def content(tier: SegmentTier, name: str) -> bytes:
    return tier.read(name, 0, tier.size(name))


# Putting and reading


def test_what_was_put_is_read_by_everybody(tier: SegmentTier, other: SegmentTier) -> None:
    tier.put(NAME, [b"one", bytearray(b"two"), memoryview(b"three"), b""])
    for one in (tier, other):
        assert (one.size(NAME), content(one, NAME)) == (11, b"onetwothree")


def test_nothing_and_much_can_be_put(tier: SegmentTier) -> None:
    chunks = [b"%07d" % number for number in range(3_000)]
    tier.put("segments/7/many", chunks)
    tier.put("segments/7/none", [])
    assert (content(tier, "segments/7/many"), content(tier, "segments/7/none")) == (b"".join(chunks), b"")


def test_a_read_is_short_at_the_end_and_empty_beyond_it(tier: SegmentTier) -> None:
    tier.put(NAME, [b"0123456789"])
    asked = [(0, 3), (8, 5), (10, 5), (50, 5), (4, 0)]
    assert [tier.read(NAME, *one) for one in asked] == [b"012", b"89", b"", b"", b""]


@pytest.mark.parametrize("position", [0, 3, 9, 20])
def test_neighbouring_pieces_are_what_single_reads_answer(tier: SegmentTier, position: int) -> None:
    tier.put(NAME, [b"0123456789"])
    lengths, at, single = [2, 1, 4, 5], position, []
    for length in lengths:
        single.append(tier.read(NAME, at, length))
        at += length
    assert list(tier.read_run(NAME, position, lengths)) == single


@pytest.mark.parametrize("position", [0, 3, 9, 20])
def test_a_run_is_taken_in_order_up_to_its_end(tier: SegmentTier, position: int) -> None:
    tier.put(NAME, [b"0123456789"])
    take = tier.open_run(NAME, position, 6)
    assert b"".join([take(1), take(0), take(3), take(2), take(5)]) == b"0123456789"[position : position + 6]
    assert take(1) == b""


def test_names_of_one_folder_are_listed_in_order(tier: SegmentTier) -> None:
    for name in ("segments/7/b", "segments/7/a", "segments/8/c", "segments/77/d"):
        tier.put(name, [b"x"])
    assert (tier.list("segments/7"), tier.list("segments/8"), tier.list("segments/9")) == (["a", "b"], ["c"], [])


@pytest.mark.parametrize("call", ["read", "read_run", "open_run", "size"])
def test_what_is_not_there_cannot_be_read(tier: SegmentTier, call: str) -> None:
    tier.put("segments/7/b", [b"x"])
    calls = {
        "read": lambda name: tier.read(name, 0, 1),
        "read_run": lambda name: list(tier.read_run(name, 0, [1])),
        "open_run": lambda name: tier.open_run(name, 0, 1)(1),
        "size": tier.size,
    }
    for name in (NAME, "segments/8/a"):
        with pytest.raises(FileNotFoundError):
            calls[call](name)


# A name is put once


def test_the_same_content_may_be_put_again(tier: SegmentTier, other: SegmentTier) -> None:
    tier.put(NAME, [b"one", b"two"])
    tier.put(NAME, [b"onetwo"])
    other.put(NAME, [b"o", b"netwo"])
    assert (content(tier, NAME), tier.list("segments/7")) == (b"onetwo", ["a.segment"])


@pytest.mark.parametrize("again", [[], [b"on"], [b"one "], [b"two"], [b"o", b"nf"]])
def test_other_content_under_a_name_that_is_taken_is_refused(
    tier: SegmentTier, other: SegmentTier, again: list[bytes]
) -> None:
    tier.put(NAME, [b"one"])
    for one in (tier, other):
        with pytest.raises(FileExistsError):
            one.put(NAME, again)
        assert (content(one, NAME), one.list("segments/7")) == (b"one", ["a.segment"])


def test_a_name_that_was_deleted_is_free_again(tier: SegmentTier) -> None:
    tier.put(NAME, [b"old"])
    tier.read(NAME, 0, 1)
    tier.delete(NAME)
    tier.put(NAME, [b"newer"])
    assert (tier.size(NAME), content(tier, NAME)) == (5, b"newer")


# Deleting


def test_deleting_is_done_once_and_asked_for_as_often_as_one_likes(tier: SegmentTier, other: SegmentTier) -> None:
    tier.put(NAME, [b"one"])
    tier.put("segments/7/b", [b"two"])
    for one in (tier, other, tier):
        one.delete(NAME)
        assert one.list("segments/7") == ["b"]
    tier.delete("segments/9/a")
    with pytest.raises(FileNotFoundError):
        tier.size(NAME)


def test_a_deleted_folder_takes_its_files_along_and_no_others(tier: SegmentTier) -> None:
    for name in ("segments/7/a", "segments/7/b", "segments/77/c"):
        tier.put(name, [b"x"])
    tier.read("segments/7/a", 0, 1)
    for _ in range(2):
        tier.delete_folder("segments/7")
        assert (tier.list("segments/7"), tier.list("segments/77")) == ([], ["c"])
    with pytest.raises(FileNotFoundError):
        tier.read("segments/7/a", 0, 1)
    tier.put("segments/7/a", [b"new"])
    assert content(tier, "segments/7/a") == b"new"


# What is kept open


def test_more_files_are_read_than_are_kept_open(tier: SegmentTier) -> None:
    names = [f"segments/{number}/a" for number in range(SEGMENT_OPEN_FILES_MAX + 10)]
    for number, name in enumerate(names):
        tier.put(name, [b"%03d" % number])
    for _ in range(2):
        assert [content(tier, name) for name in names] == [b"%03d" % number for number in range(len(names))]


def test_letting_go_and_closing_change_nothing_of_what_is_there(tier: SegmentTier) -> None:
    tier.put(NAME, [b"one"])
    for folder in ("segments/7", "segments/8"):
        tier.close_folder(folder)
        assert content(tier, NAME) == b"one"
    tier.close()
    assert content(tier, NAME) == b"one"
