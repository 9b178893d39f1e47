"""How far the metadata had come is said beside it, before anybody acts upon it."""

import asyncio
from pathlib import Path

import pytest

from danube.metadata.high_water import NAME, HighWaterMark, Reached, rollback_of
from danube.metadata.records import keys
from danube.metadata.records.record_format import encode_counter
from danube.metadata.sqlite.store import SqliteStore
from danube.runtime.disk import LocalDisk
from danube.testing.simulated.clock import SimClock


def test_the_mark_says_what_was_written_last(tmp_path: Path) -> None:
    mark = HighWaterMark(tmp_path)
    assert (mark.reached, mark.is_unreadable) == (None, False)
    for revision in (3, 9, 7):
        mark.write(Reached(revision, 2))
        assert HighWaterMark(tmp_path).reached == Reached(revision, 2)


def test_a_mark_never_goes_back_by_itself(tmp_path: Path) -> None:
    mark = HighWaterMark(tmp_path)
    mark.advance(Reached(9, 2))
    mark.advance(Reached(4, 5))
    assert HighWaterMark(tmp_path).reached == Reached(9, 5)


@pytest.mark.parametrize("slot", [0, 4096])
def test_a_write_that_was_torn_leaves_the_mark_before(tmp_path: Path, slot: int) -> None:
    mark = HighWaterMark(tmp_path)
    mark.write(Reached(1, 1))
    mark.write(Reached(2, 1))
    content = bytearray((tmp_path / NAME).read_bytes())
    content[slot + 10] ^= 1
    (tmp_path / NAME).write_bytes(content)
    assert HighWaterMark(tmp_path).reached == (Reached(2, 1) if slot == 0 else Reached(1, 1))


def test_a_mark_that_is_not_what_was_written_says_nothing_and_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"x" * 50)
    mark = HighWaterMark(tmp_path)
    assert (mark.reached, mark.is_unreadable) == (None, True)
    mark.write(Reached(2, 1))
    assert HighWaterMark(tmp_path).reached == Reached(2, 1)


def test_a_mark_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    mark = HighWaterMark(tmp_path / "missing")
    mark.write(Reached(1, 1))
    assert mark.reached is None


def test_metadata_is_behind_in_its_revision_or_in_its_topic_ids() -> None:
    marked = Reached(5, 3)
    assert rollback_of(Reached(5, 3), marked, is_accepted=False) is None
    assert rollback_of(Reached(6, 4), None, is_accepted=False) is None
    for found in (Reached(4, 3), Reached(6, 2)):
        assert rollback_of(found, marked, is_accepted=False) is not None
    assert rollback_of(Reached(6, 3), marked, is_accepted=True) is not None


async def test_a_change_is_marked_before_it_is_answered(tmp_path: Path) -> None:
    mark = await asyncio.to_thread(HighWaterMark, tmp_path)
    store = await SqliteStore.open(tmp_path / "metadata.sqlite3", SimClock(), mark=mark)
    revision = await store.put(keys.TOPIC_ID_COUNTER, encode_counter(7))
    assert mark.reached == Reached(revision, 7)
    await store.close()


async def test_changes_that_come_together_share_one_sync_of_the_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[bytes] = []
    overwrite = LocalDisk.overwrite

    def count(self: LocalDisk, name: str, position: int, data: bytes) -> None:
        written.append(data)
        overwrite(self, name, position, data)

    monkeypatch.setattr(LocalDisk, "overwrite", count)
    mark = await asyncio.to_thread(HighWaterMark, tmp_path)
    store = await SqliteStore.open(tmp_path / "metadata.sqlite3", SimClock(), mark=mark)
    await store.put("/first", b"")
    await asyncio.gather(*(store.put(f"/{number}", b"") for number in range(50)))
    assert mark.reached == Reached(51)
    assert len(written) < 10
    await store.close()
