"""The folder of a member: who it is, and what its files say together."""

import pytest

from danube.metadata.raft.bootstrap import begin
from danube.metadata.raft.folder import log_files
from danube.metadata.raft.folder.folder import RaftFolder
from danube.metadata.raft.folder.recovery import members_after
from danube.metadata.raft.folder.small_files import LOG_MARK
from danube.metadata.raft.values.encoding import dumps
from danube.metadata.raft.values.entries import MEMBERSHIP
from danube.metadata.raft.values.node import RaftNode
from danube.model.errors import DamagedDataError, DataFolderError, MetadataError, PreconditionFailedError
from danube.model.limits.metadata import RAFT_MARK_DELAY_S
from danube.runtime.checksum import with_crc
from danube.testing.simulated.disk import MachineOffError, Operation, SimDisk
from tests.unit.metadata.raft.raft_files import entries, entry, fill, keep, opened, put, snapshot_at

IMAGE = "raft/image-00000000000000000009"


def _without(files: dict[str, bytes], *names: str) -> SimDisk:
    return put({name: content for name, content in files.items() if name not in names})


# Who it is


def test_a_member_stays_who_it_is() -> None:
    disk = SimDisk()
    first = RaftFolder.open(disk)
    assert 0 < first.node_id < 2**63
    assert RaftFolder.open(disk.power_cut()).node_id == first.node_id


def test_a_member_that_lost_its_folder_is_another_one() -> None:
    assert RaftFolder.open(SimDisk()).node_id != RaftFolder.open(SimDisk()).node_id


def test_the_cluster_of_a_member_is_set_once() -> None:
    disk = SimDisk()
    folder = opened(disk)
    assert folder.cluster_id == ""
    folder.set_cluster_id("blue")
    folder.set_cluster_id("blue")
    with pytest.raises(PreconditionFailedError, match="belongs to cluster blue"):
        folder.set_cluster_id("green")
    assert opened(disk.power_cut()).cluster_id == "blue"


def test_a_first_start_that_is_cut_short_anywhere_starts_again() -> None:
    for step in range(1, 14):
        for seed in range(10):
            disk = SimDisk(seed)
            disk.stop_at(step)
            with pytest.raises(MachineOffError):
                opened(disk)
                disk.sync_folder("raft")
                disk.sync_folder("raft")
            assert opened(disk.power_cut()).node_id


@pytest.mark.parametrize("kept", ["log", "image", "vote"])
def test_a_lost_identity_is_refused(kept: str) -> None:
    disk = SimDisk()
    folder = opened(disk)
    fill(folder, entries(1, 10))
    keep(folder, snapshot_at(9))
    files = {name: content for name, content in disk.contents().items() if f"raft/{kept}" in name}
    assert files
    with pytest.raises(DamagedDataError, match=r"raft/identity.*missing"):
        opened(put(files))


def test_every_flipped_byte_and_every_missing_end_of_an_identity_is_refused() -> None:
    disk = SimDisk()
    opened(disk).set_cluster_id("blue")
    files = disk.contents()
    whole = files["raft/identity"]
    broken = [whole[:at] + bytes([whole[at] ^ 0x04]) + whole[at + 1 :] for at in range(len(whole))]
    for content in [*broken, *(whole[:size] for size in range(len(whole)))]:
        with pytest.raises(DamagedDataError, match="raft/identity"):
            opened(put({**files, "raft/identity": content}))


def test_the_log_of_another_member_is_refused() -> None:
    disk, other = SimDisk(), SimDisk()
    fill(opened(disk), entries(1, 3))
    RaftFolder.open(other)
    mixed = {**other.contents(), **{name: data for name, data in disk.contents().items() if "log-" in name}}
    with pytest.raises(DataFolderError, match="belongs to member"):
        opened(put(mixed))


def test_a_disk_that_cannot_be_read_is_told_with_the_next_step() -> None:
    disk = SimDisk()
    fill(opened(disk), entries(1, 3))
    disk.fail(Operation.READ)
    with pytest.raises(DataFolderError, match="Check the data folder"):
        opened(disk)


# Log and snapshot together


def test_a_log_begins_with_the_entries_of_its_snapshot() -> None:
    disk = SimDisk(1)
    folder = opened(disk)
    fill(folder, entries(1, 15))
    keep(folder, snapshot_at(9))
    again = opened(disk.power_cut())
    assert again.log[:] == entries(8, 15)
    assert (again.log.first_index, again.log.last_index, again.log.getRaftCommitIndex()) == (8, 14, 9)


def test_a_log_that_ends_before_its_image_begins_anew_with_it() -> None:
    disk = SimDisk(1)
    folder = opened(disk)
    fill(folder, entries(1, 6))
    folder.log.close()
    keep(folder, snapshot_at(9))
    again = opened(disk.power_cut())
    assert again.log[:] == entries(8, 10)
    fill(again, entries(10, 12))
    assert opened(again._disk.power_cut()).log[:] == entries(8, 12)  # type: ignore[attr-defined]


def test_a_log_with_other_entries_than_its_image_begins_anew_with_it() -> None:
    disk = SimDisk(1)
    folder = opened(disk)
    fill(folder, entries(1, 15))
    folder.log.setCurrentTerm(3, None)
    keep(folder, snapshot_at(9, term=3))
    assert opened(disk.power_cut()).log[:] == entries(8, 10, term=3)


def test_a_member_without_a_log_begins_with_its_snapshot() -> None:
    disk = SimDisk(1)
    keep(opened(disk), snapshot_at(2, term=0))
    assert opened(disk.power_cut()).log[:] == entries(1, 3, term=0)


def test_a_received_image_is_there_with_its_log_after_any_power_cut() -> None:
    for step in range(1, 20):
        for seed in range(5):
            disk = SimDisk(seed)
            folder = opened(disk)
            fill(folder, entries(1, 6))
            folder.log.setCurrentTerm(2, None)
            disk.stop_at(step)
            with pytest.raises(MachineOffError):
                keep(folder, snapshot_at(9, term=2))
                folder.log.clear()
                fill(folder, entries(8, 10, term=2))
                while True:
                    disk.sync_folder("raft")
            again = opened(disk.power_cut())
            assert again.log[:] == (entries(8, 10, term=2) if again.snapshot else entries(1, 6))


# What no crash leaves


def _filled(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Several files of a log that was closed, and a snapshot that they go on from."""
    monkeypatch.setattr(log_files, "RAFT_LOG_FILE_BYTES_MAX", 300)
    disk = SimDisk()
    folder = opened(disk)
    for index in range(1, 30):
        fill(folder, [entry(index)])
    keep(folder, snapshot_at(9))
    folder.log.deleteEntriesTo(7)
    folder.close()
    return disk.contents()


def test_each_missing_file_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    files = _filled(monkeypatch)
    assert opened(put(files)).log[:] == entries(8, 30)
    needed = [name for name in files if name not in {min(each for each in files if "log-" in each), "raft/mark"}]
    assert len(needed) > 6
    for name in needed:
        with pytest.raises(DamagedDataError, match=r"missing|not there any more"):
            opened(_without(files, name))


def test_the_lost_image_of_a_log_that_begins_with_one_is_missed() -> None:
    disk = SimDisk()
    folder = opened(disk)
    folder.save_snapshot(snapshot_at(2, term=0))
    folder.log.clear()
    fill(folder, entries(1, 3, term=0))
    files = disk.contents()
    lost = next(name for name in files if "image" in name)
    with pytest.raises(DamagedDataError, match=r"image-.*the snapshot that the log begins with is missing"):
        opened(_without(files, lost))


def test_files_that_were_about_to_be_removed_are(monkeypatch: pytest.MonkeyPatch) -> None:
    files = _filled(monkeypatch)
    logs = sorted(name for name in files if "log-" in name)
    second = opened(put(files))
    assert second.snapshot is not None
    without = _without(files, logs[0])
    without.replace_file("raft/log-0000000001", files[logs[0]])
    folder = opened(without)
    assert folder.log[:] == entries(8, 30)
    assert logs[1] in without.contents()
    assert "raft/log-0000000001" not in without.contents()


def test_a_closed_log_that_lost_its_end_is_refused() -> None:
    disk = SimDisk()
    folder = opened(disk)
    fill(folder, entries(1, 9))
    folder.close()
    files = disk.contents()
    name = "raft/log-0000000001"
    told = rf"{name}, byte \d+: .*synced up to byte {len(files[name])}"
    for size in range(len(files[name])):
        with pytest.raises(DamagedDataError, match=told):
            opened(put({**files, name: files[name][:size]}))


def test_a_closed_log_without_a_mark_that_lost_its_end_is_missed_by_the_vote() -> None:
    disk = SimDisk()
    folder = opened(disk)
    fill(folder, entries(1, 9))
    folder.close()
    files = {name: content for name, content in disk.contents().items() if name != "raft/mark"}
    name = "raft/log-0000000001"
    assert opened(put(files)).log[:] == entries(1, 9)
    for size in range(56, len(files[name])):
        with pytest.raises(DamagedDataError, match=r"log-\*.*entry 8 was synced"):
            opened(put({**files, name: files[name][:size]}))


def _running() -> SimDisk:
    """The disk of a member of a cluster that acknowledged entries 3 to 20 and was killed a few seconds later."""
    disk = SimDisk()
    folder = opened(disk)
    begin(folder, "blue", (ONE,))
    fill(folder, entries(3, 21))
    for _ in range(RAFT_MARK_DELAY_S):
        folder.log.onOneSecondTimer()
    return disk.process_kill()


@pytest.mark.parametrize("size", [None, 0, 3, 56, 400])
def test_a_killed_member_whose_log_file_is_gone_or_cut_refuses_to_start(size: int | None) -> None:
    files = _running().contents()
    assert opened(put(files)).log[2:] == entries(3, 21)
    name = "raft/log-0000000001"
    lost = _without(files, name) if size is None else put({**files, name: files[name][:size]})
    before = lost.contents()
    with pytest.raises(DamagedDataError, match=rf"^{name}, byte .* synced up to byte \d+\. .*add it again.* a backup$"):
        opened(lost)
    assert lost.contents() == before


def test_entries_behind_the_mark_that_are_torn_are_left_out() -> None:
    disk = _running()
    folder = opened(disk)
    size = len(disk.contents()["raft/log-0000000001"])
    fill(folder, entries(21, 24))
    files = disk.process_kill().contents()
    name = "raft/log-0000000001"
    assert opened(put({**files, name: files[name][:-1]})).log[2:] == entries(3, 23)
    assert opened(put({**files, name: files[name][:size]})).log[2:] == entries(3, 21)


@pytest.mark.parametrize("mark", [None, b"", b"DnRm", bytes(44)])
def test_a_folder_without_a_sound_mark_opens_and_has_one_from_then_on(mark: bytes | None) -> None:
    files = _running().contents()
    disk = put({**files, "raft/mark": mark}) if mark is not None else _without(files, "raft/mark")
    assert opened(disk).log[2:] == entries(3, 21)
    assert disk.power_cut().contents()["raft/mark"] == files["raft/mark"]


def test_a_mark_that_cannot_be_written_stops_nothing_and_is_tried_again() -> None:
    disk = _running()
    folder = opened(disk)
    fill(folder, entries(21, 22))
    disk.fail(Operation.RENAME, name="raft/mark*")
    for _ in range(RAFT_MARK_DELAY_S):
        folder.log.onOneSecondTimer()
    folder.log.onOneSecondTimer()
    assert disk.failed[Operation.RENAME] == 1
    mark = LOG_MARK.unseal(disk.contents()["raft/mark"])
    assert mark is not None
    assert mark.synced_to == len(disk.contents()["raft/log-0000000001"])


def test_a_file_of_a_later_version_is_left_to_the_later_program() -> None:
    disk = SimDisk()
    opened(disk)
    later = with_crc(b"DnRf\x02" + bytes(43))
    with pytest.raises(DataFolderError, match=r"another version \(format 2; this one reads 1\): use that"):
        opened(put({**disk.contents(), "raft/log-0000000001": later}))


# Members


def _change(kind: str, member: str, index: int) -> tuple[bytes, int, int]:
    return MEMBERSHIP + dumps([kind, member, RaftNode(member)]), index, 1


ONE, TWO, THREE = (f"{number}@10.0.0.{number}:7650" for number in (1, 2, 3))


def test_the_newest_configuration_in_the_log_counts() -> None:
    changes = [entry(3), _change("add", THREE, 4), _change("rem", ONE, 5), entry(6)]
    assert members_after([ONE, TWO], changes) == (TWO, THREE)
    assert members_after([TWO, ONE], []) == (ONE, TWO)


def test_changes_without_effect_have_none() -> None:
    assert members_after([ONE], [_change("add", ONE, 3), _change("rem", TWO, 4)]) == (ONE,)


@pytest.mark.parametrize("broken", [b"", b"\xc1", dumps(["add"]), dumps(["put", ONE]), dumps(["add", 5]), dumps(7)])
def test_a_change_that_cannot_be_read_is_told(broken: bytes) -> None:
    with pytest.raises(MetadataError, match="entry 7"):
        members_after([ONE], [(MEMBERSHIP + broken, 7, 1)])
