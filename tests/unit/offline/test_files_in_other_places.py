"""A journal file in another's place, as after a wrong copy: told, repaired, and nothing in it is counted twice."""

import shutil
from pathlib import Path

import pytest

from danube.offline.storage.one_file import file_content
from danube.offline.storage.scan.scan import scan
from danube.storage.journal.folder import JournalFolder
from danube.storage.journal.format import FIRST_NAME, encode_first
from tests.unit.offline.conftest import CLICKS, IDLE, ORDERS
from tests.unit.offline.folder_world import FolderWorld, Life, flip
from tests.unit.offline.test_missing_files import journal_of, store_one_each, told
from tests.unit.offline.test_repair import check, contents, lost_of, passed_over, repair

PLACES = [(7, 3), (3, 5), (4, 1), (2, 1), (1, 7), (6, 7)]


@pytest.fixture
def seven(empty: FolderWorld) -> FolderWorld:
    """A journal of seven files, of which nothing was cut."""

    async def live(life: Life) -> None:
        await life.fill(ORDERS, 60)
        await life.fill(CLICKS, 20)
        await life.fill(IDLE, 1)

    empty.live(live)
    assert len(journal_of(empty)) == 7
    return empty


def put(folder: FolderWorld, source: int, place: int) -> Path:
    """Copy one file over another; answers the other."""
    files = journal_of(folder)
    return Path(shutil.copy(files[source - 1], files[place - 1]))


def check_ends(folder: FolderWorld, before: dict[str, dict[int, bytes | None]]) -> None:
    """No offset is given out again."""
    for name, end in folder.live(store_one_each).items():
        assert end >= max(before[name]) + 1, name


@pytest.mark.parametrize(("source", "place"), PLACES)
def test_a_file_in_another_s_place_is_told_and_one_repair_is_enough(
    seven: FolderWorld, source: int, place: int
) -> None:
    before = contents(seven)
    strange = put(seven, source, place)
    found = [one for one in seven.verify().findings if one.is_damage]
    assert found[0].file == f"journal/{strange.name}"
    assert found[0].what == f"it is file {source} of the journal"
    assert not scan(seven.disk, seven.known()).is_sound
    plan = repair(seven)
    told(plan, before)
    if place < 7:  # its own index tells what was in it
        assert all(lost_of(plan, name) or not passed_over(plan, name) for name in before)
        check(seven, before, plan)
    assert seven.verify().is_sound
    assert repair(seven).is_empty
    check_ends(seven, before)


@pytest.mark.parametrize(("source", "place"), [*PLACES, (4, 5)])
def test_it_can_be_repaired_also_when_its_header_is_damaged(seven: FolderWorld, source: int, place: int) -> None:
    before = contents(seven)
    flip(put(seven, source, place), 20)
    told(repair(seven), before)
    assert seven.verify().is_sound
    check_ends(seven, before)


@pytest.mark.parametrize("place", [1, 4])
def test_without_an_index_all_bytes_that_should_be_there_are_counted_not_those_that_are(
    seven: FolderWorld, place: int
) -> None:
    before, size = contents(seven), journal_of(seven)[place - 1].stat().st_size
    put(seven, 7, place).with_suffix(".index").unlink()
    assert journal_of(seven)[6].stat().st_size != size
    found = [one for one in seven.verify().findings if one.is_damage]
    assert [(one.file, one.what) for one in found] == [
        (f"journal/000000000{place}.journal", "it is file 7 of the journal")
    ]
    plan = repair(seven)
    assert plan.unknown_bytes == size
    told(plan, before)
    check_ends(seven, before)


def test_a_file_of_another_journal_is_not_taken_either(seven: FolderWorld, tmp_path: Path) -> None:
    other = FolderWorld(tmp_path / "other")

    async def live(life: Life) -> None:
        await life.fill(ORDERS, 60)

    other.live(live)
    before = contents(seven)
    shutil.copy(journal_of(other)[2], journal_of(seven)[2])
    found = [one for one in seven.verify().findings if one.is_damage]
    assert (found[0].file, found[0].what) == ("journal/0000000003.journal", "it belongs to another journal")
    check(seven, before, repair(seven))


def test_what_is_in_a_file_that_is_in_another_s_place_is_shown_as_damaged(seven: FolderWorld) -> None:
    strange = put(seven, 7, 3)
    (row,) = file_content(seven.disk, f"journal/{strange.name}", seven.known()).rows[:1]
    assert row == {
        "state": "damaged",
        "at": 0,
        "bytes": strange.stat().st_size,
        "what": "it is file 7 of the journal",
    }


def test_where_the_journal_is_said_to_begin_before_its_first_file_that_file_is_named(folder: FolderWorld) -> None:
    before, first = contents(folder), JournalFolder(folder.disk).read_first()
    assert first is not None
    early = first._replace(base_position=first.base_position - 100)
    (folder.path / "journal" / FIRST_NAME).write_bytes(encode_first(early))
    (finding,) = [one for one in folder.verify().findings if one.is_damage]
    assert (finding.file, finding.what) == ("journal/0000000004.journal", "the journal begins 100 bytes before it")
    check(folder, before, repair(folder))
