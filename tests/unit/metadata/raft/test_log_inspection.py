"""Looking into a folder: everything is told, nothing is changed, and what is refused is said as the broker says it."""

import pytest

from danube.metadata.raft.folder.inspection import inspect_folder
from danube.model.errors import DamagedDataError
from danube.testing.simulated.disk import SimDisk
from tests.golden.raft.make import CLUSTER, LOG, MEMBERS, files
from tests.unit.metadata.raft.raft_files import opened, put


def test_a_sound_folder_is_told() -> None:
    disk = put(files())
    before = (disk.contents(), disk.changes_done)
    report = inspect_folder(disk)
    assert not report.findings
    assert (report.cluster_id, report.term, report.voted_for) == (CLUSTER, 3, MEMBERS[1])
    assert (report.snapshot_index, report.snapshot_term, report.members) == (8, 1, MEMBERS[1:])
    assert (report.first_index, report.last_index, report.last_term) == (LOG[0][1], LOG[-1][1], 3)
    assert report.node_id == opened(put(files())).node_id
    assert (disk.contents(), disk.changes_done) == before


def test_each_file_is_told() -> None:
    told = {file.name: file.holds for file in inspect_folder(put({**files(), "raft/x.new": b"1", "raft/y": b""})).files}
    assert told == {
        "raft/identity": "who this member is",
        "raft/image-00000000000000000008": "a snapshot",
        "raft/log-0000000001": "entries 1 to 12",
        "raft/log-0000000002": "entries 10 to 13",
        "raft/mark": "how far its log is synced",
        "raft/vote": "its term and its vote",
        "raft/x.new": "a file that was being written; it does not count",
        "raft/y": "not Danube's",
    }


@pytest.mark.parametrize("name", sorted({*files()} - {"raft/mark"}))
def test_what_the_broker_refuses_is_said_in_its_words(name: str) -> None:
    content = bytearray(files()[name])
    content[len(content) // 2] ^= 1
    disk = put({**files(), name: bytes(content)})
    with pytest.raises(DamagedDataError) as refused:
        opened(put({**files(), name: bytes(content)}))
    assert str(refused.value) in inspect_folder(disk).findings


@pytest.mark.parametrize("name", ["raft/identity", "raft/vote", "raft/log-0000000001", "raft/log-0000000002"])
def test_a_missing_file_is_told(name: str) -> None:
    report = inspect_folder(put({other: content for other, content in files().items() if other != name}))
    assert any("missing" in trouble or "not there any more" in trouble for trouble in report.findings)


def test_a_log_that_ends_below_its_mark_is_told() -> None:
    content = files()
    name = "raft/log-0000000002"
    report = inspect_folder(put({**content, name: content[name][:56]}))
    assert [trouble.split(": ")[0] for trouble in report.findings] == [f"{name}, byte 56"]


def test_a_torn_end_is_no_trouble() -> None:
    content = files()
    torn = put({**content, "raft/log-0000000002": content["raft/log-0000000002"] + b"torn"})
    report = inspect_folder(torn)
    assert not report.findings
    assert any(file.holds == "entries 10 to 13, then 4 bytes that are not what was written" for file in report.files)


def test_a_file_that_had_just_been_begun_is_no_trouble() -> None:
    disk = put({**files(), "raft/log-0000000003": b"DnRf"})
    report = inspect_folder(disk)
    assert not report.findings
    assert "raft/log-0000000003" in disk.contents()
    assert opened(disk).log[:] == LOG
    assert "raft/log-0000000003" not in disk.contents()


def test_a_data_folder_without_such_a_folder_is_told() -> None:
    with pytest.raises(FileNotFoundError):
        inspect_folder(SimDisk())
