"""The file that says where a process serves: there only while it does."""

import json
import socket
from pathlib import Path

import pytest

from danube.model.errors import SettingsError
from danube.runtime.ready_file import ReadyFile
from danube.testing.patience import PATIENCE_S


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ready.json"


def test_what_an_earlier_process_left_is_gone_before_anything_else(path: Path) -> None:
    path.write_text('{"pid": 1}')
    with ReadyFile(path):
        assert not path.exists()


def test_the_file_is_there_until_the_end_also_of_one_that_fails(path: Path) -> None:
    with pytest.raises(ZeroDivisionError), ReadyFile(path) as ready:
        ready.write({"pid": 7})
        assert json.loads(path.read_text()) == {"pid": 7}
        raise ZeroDivisionError
    assert not path.exists()


def test_the_file_of_the_next_process_stays(path: Path) -> None:
    with ReadyFile(path) as ready:
        ready.write({"pid": 7})
        path.write_text('{"pid": 8}')
    assert json.loads(path.read_text()) == {"pid": 8}


def test_without_a_path_nothing_is_written() -> None:
    with ReadyFile(None) as ready:
        ready.write({"pid": 7})
        ready.remove()


def test_one_that_cannot_be_removed_or_written_is_one_sentence(path: Path) -> None:
    (path / "something").mkdir(parents=True)
    with pytest.raises(SettingsError, match=r"cannot remove the ready file .*ready\.json: .*; check"), ReadyFile(path):
        pass
    with pytest.raises(SettingsError, match=r"cannot write the ready file .*ready\.json: No such file"):
        ReadyFile(path.parent / "nowhere" / "ready.json").write({})


@pytest.mark.parametrize("is_abstract", [False, True])
def test_systemd_is_told_once_the_process_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_abstract: bool
) -> None:
    name = f"@{tmp_path}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name.replace("@", "\0"))
        manager.settimeout(PATIENCE_S)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        with ReadyFile(None) as ready:
            ready.write({"pid": 7})
            assert manager.recv(64) == b"READY=1"


def test_a_service_manager_that_is_gone_keeps_nothing_from_serving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    with ReadyFile(None) as ready:
        ready.write({"pid": 7})
