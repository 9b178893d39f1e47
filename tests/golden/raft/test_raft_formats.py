"""Raft's files of every released format must open for ever, say when they are damaged, and be as they are described."""

import logging
from pathlib import Path

import pytest

from danube.metadata.raft.folder.folder import RaftFolder
from danube.metadata.raft.folder.format import Entry
from danube.metadata.raft.folder.recovery import members_after
from danube.model.errors import DamagedDataError, DataFolderError
from danube.runtime.disk import LocalDisk
from danube.testing.simulated.disk import SimDisk
from tests.golden.raft.make import CLUSTER, FOLDER, LOG, MEMBERS, OLD, STATE, files, lived_in
from tests.golden.raft.reader import read_folder


def _content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


GOLDEN = _content(FOLDER)


def _disk(content: dict[str, bytes]) -> SimDisk:
    disk = SimDisk()
    disk.make_folder("raft")
    for name, data in content.items():
        disk.replace_file(name, data)
    return disk


def _opened(content: dict[str, bytes]) -> tuple[tuple[int, str | None], list[Entry]] | None:
    """The vote and the log, or None when the folder is refused."""
    try:
        log = RaftFolder.open(_disk(content)).log
    except (DamagedDataError, DataFolderError):
        return None
    return (log.getCurrentTerm(), log.getVotedForNodeId()), log[:]


WHOLE = _opened(GOLDEN)


@pytest.fixture
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of torn ends are told of here."""
    caplog.set_level(logging.CRITICAL)


def _broken(content: dict[str, bytes]) -> list[tuple[str, dict[str, bytes]]]:
    """Each file with each of its bytes turned over, and without each of its ends."""
    found = []
    for name, data in content.items():
        found += [
            (f"{name}, byte {at}", {**content, name: data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :]})
            for at in range(len(data))
        ]
        found += [(f"{name}, cut at {size}", {**content, name: data[:size]}) for size in range(len(data))]
    return found


def test_what_is_written_today_is_what_was_written_then() -> None:
    assert files() == GOLDEN


def test_a_folder_of_version_1_opens() -> None:
    folder = RaftFolder.open(_disk(GOLDEN))
    assert (folder.cluster_id, folder.log[:]) == (CLUSTER, LOG)
    assert (folder.log.getCurrentTerm(), folder.log.getVotedForNodeId()) == (3, MEMBERS[1])
    assert folder.snapshot is not None
    assert (folder.snapshot.index, folder.snapshot.term, folder.snapshot.members) == (8, 1, MEMBERS)
    assert folder.snapshot.payload.read(0, 100) == STATE
    assert members_after(folder.snapshot.members, folder.log[2:]) == MEMBERS[1:]


def test_a_folder_on_a_disk_of_the_machine_is_the_same(tmp_path: Path) -> None:
    for name, data in GOLDEN.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    folder = RaftFolder.open(LocalDisk(tmp_path))
    assert folder.log[:] == LOG
    folder.log.add(b"one more", LOG[-1][1] + 1, 3)
    folder.close()
    assert RaftFolder.open(LocalDisk(tmp_path)).log[:] == [*LOG, (b"one more", LOG[-1][1] + 1, 3)]


def test_a_reader_made_from_the_documents_reads_the_folder() -> None:
    found = read_folder({name.removeprefix("raft/"): data for name, data in GOLDEN.items()})
    assert (found.cluster_id, found.term, found.voted_for) == (CLUSTER, 3, MEMBERS[1])
    assert found.node_id == RaftFolder.open(_disk(GOLDEN)).node_id
    assert (found.log, found.members, found.payload) == (LOG, list(MEMBERS), STATE)


@pytest.mark.slow
@pytest.mark.usefixtures("_quiet")
def test_only_the_mark_and_what_was_cut_may_be_damaged() -> None:
    found = {what: _opened(content) for what, content in _broken(GOLDEN)}
    harmless = [what for what, opened in found.items() if opened is not None]
    assert all(found[what] == WHOLE for what in harmless)
    first = min(name for name in GOLDEN if "log-" in name)
    of_the_mark = [what for what in harmless if what.startswith("raft/mark")]
    between_what_was_cut = [what for what in harmless if what.startswith(f"{first}, cut at")]
    assert len(of_the_mark) == 2 * len(GOLDEN["raft/mark"])
    assert sorted(harmless) == sorted([*of_the_mark, *between_what_was_cut])


@pytest.mark.slow
@pytest.mark.usefixtures("_quiet")
def test_what_is_damaged_in_a_log_that_was_not_closed_is_refused_or_the_unmarked_end() -> None:
    disk, _ = lived_in()
    content = disk.contents()
    assert WHOLE is not None
    for what, broken in _broken({name: data for name, data in content.items() if "log-" in name}):
        found = _opened({**content, **broken})
        if found is None:
            continue
        vote, log = found
        assert vote == WHOLE[0], what
        assert log in (LOG[: len(log)], [*LOG[:3], *OLD[9:]]), what
        assert len(log) >= 5 or "cut" in what, f"{what}: more than the last sync was lost"


@pytest.mark.parametrize("name", sorted(GOLDEN.keys() - {"raft/mark"}))
def test_every_refusal_names_the_file_and_the_next_step(name: str) -> None:
    data = GOLDEN[name]
    middle = len(data) // 2
    broken = {**GOLDEN, name: data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]}
    with pytest.raises(DamagedDataError, match=rf"^{name}, byte \d+: .*danube-broker metadata inspect .*add it again"):
        RaftFolder.open(_disk(broken))
