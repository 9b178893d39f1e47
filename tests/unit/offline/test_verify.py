"""Verify finds what is wrong, names it, and changes nothing."""

import pytest

from danube.data_folder.findings import Level
from danube.offline.storage.scan.scan import verify
from tests.unit.offline.conftest import CLICKS, ORDERS
from tests.unit.offline.folder_world import FolderWorld, bytes_of, flip


def test_a_folder_as_a_broker_left_it_is_sound(folder: FolderWorld) -> None:
    found = folder.verify()
    assert found.findings == []
    assert set(found.metadata.topics.values()) == {ORDERS, CLICKS, "/default/idle"}


def test_every_byte_is_read(folder: FolderWorld) -> None:
    headers = 52 * len(folder.files("journal/*.journal"))
    read = sum(path.stat().st_size for path in [*folder.files("journal/*.journal"), *folder.files("**/*.segment")])
    assert folder.verify().bytes_read == read - headers


def test_bytes_that_are_damaged_or_torn_were_read_too(folder: FolderWorld) -> None:
    before, journal = folder.verify().bytes_read, folder.files("journal/*.journal")
    flip(journal[0], journal[0].read_bytes().index(b"DnBt") + 20)
    with journal[-1].open("ab") as file:
        file.write(bytes(100))
    told: list[int] = []
    found = verify(folder.disk, folder.known(), told.append)
    assert {one.level for one in found.findings} == {Level.DAMAGE, Level.NOTE}
    assert (found.bytes_read, sum(told)) == (before + 100, before + 100)


def test_looking_changes_nothing(folder: FolderWorld) -> None:
    flip(folder.files("**/*.segment")[0], 100)
    before = bytes_of(folder.path)
    assert not folder.verify().is_sound
    assert bytes_of(folder.path) == before


def test_damage_in_a_journal_names_file_byte_topic_and_offsets(folder: FolderWorld) -> None:
    journal = folder.files("journal/*.journal")[0]
    at = journal.read_bytes().index(b"DnBt") + 20
    flip(journal, at)
    (finding,) = [one for one in folder.verify().findings if one.is_damage]
    assert finding.file == f"journal/{journal.name}"
    assert finding.at <= at < finding.end
    assert finding.topic_id == folder.known().find(ORDERS)
    assert (finding.first_offset, finding.end_offset) == (30, 31)


def test_damage_in_a_segment_names_its_offsets_and_leaves_other_topics_alone(folder: FolderWorld) -> None:
    segment = folder.files(f"segments/{folder.known().find(ORDERS)}/*.segment")[0]
    flip(segment, segment.read_bytes().index(b"DnBt") + 20)
    assert folder.damaged(ORDERS) == [(0, 1)]
    assert folder.damaged(CLICKS) == []


def test_segments_whose_manifest_is_missing_are_read_as_well(folder: FolderWorld) -> None:
    before = folder.verify()
    topic_id = folder.known().find(ORDERS)
    folder.files(f"segments/{topic_id}/*.manifest")[0].unlink()
    first, second = folder.files(f"segments/{topic_id}/*.segment")
    flip(first, first.read_bytes().index(b"DnBt") + 20)
    flip(second, second.stat().st_size - 1)
    assert folder.damaged(ORDERS) == [(None, None), (0, 1), (None, None)]
    assert (folder.verify().bytes_read, folder.verify().files) == (before.bytes_read, before.files - 1)


def test_a_segment_in_the_place_of_another_is_damage_also_where_the_manifest_is_missing(folder: FolderWorld) -> None:
    topic_id = folder.known().find(ORDERS)
    folder.files(f"segments/{topic_id}/*.manifest")[0].unlink()
    first, second = folder.files(f"segments/{topic_id}/*.segment")
    second.write_bytes(first.read_bytes())
    said = {one.what for one in folder.verify().findings if one.file == str(second.relative_to(folder.path))}
    assert said == {"it is another segment than its name says"}


@pytest.mark.parametrize("pattern", ["segments/*/*.segment", "segments/*/*.manifest", "journal/*.journal"])
def test_a_missing_file_is_damage(folder: FolderWorld, pattern: str) -> None:
    gone = folder.files(pattern)[0]
    gone.unlink()
    found = [one for one in folder.verify().findings if one.is_damage]
    assert str(gone.relative_to(folder.path)) in {one.file for one in found}


def test_a_torn_end_is_a_note(folder: FolderWorld) -> None:
    last = folder.files("journal/*.journal")[-1]
    last.write_bytes(last.read_bytes() + b"torn")
    (finding,) = folder.verify().findings
    assert (finding.level, finding.end - finding.at) == (Level.NOTE, 4)


def test_a_wrong_index_is_a_note(folder: FolderWorld) -> None:
    flip(folder.files("journal/*.index")[0], 50)
    assert [one.level for one in folder.verify().findings] == [Level.NOTE]


def test_files_that_nothing_names_are_notes(folder: FolderWorld) -> None:
    manifest = folder.files("segments/*/*.manifest")[0]
    manifest.with_name("0000000000.manifest").write_bytes(b"old")
    manifest.with_name(f"{manifest.name}.0123.new").write_bytes(b"half")
    assert {one.level for one in folder.verify().findings} == {Level.NOTE}


def test_metadata_that_cannot_be_read_is_damage_and_the_rest_is_still_looked_at(folder: FolderWorld) -> None:
    (folder.path / "raft" / "vote").write_bytes(b"nonsense" * 1_000)
    flip(folder.files("**/*.segment")[0], 100)
    files = {one.file for one in folder.verify().findings if one.is_damage}
    assert files == {"raft/", str(folder.files("**/*.segment")[0].relative_to(folder.path))}
