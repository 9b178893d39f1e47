"""What a killed run left behind is ended, and nobody else."""

import subprocess
import sys
from pathlib import Path

import pytest

from danube.testing.patience import PATIENCE_S
from lab.metadata.clusters import end_leftovers, note_process

pytestmark = pytest.mark.cluster


def sleeper() -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def test_a_process_that_was_noted_is_ended(tmp_path: Path) -> None:
    with sleeper() as process:
        note_process(tmp_path, "member", process.pid)
        end_leftovers(tmp_path)
        assert process.wait(PATIENCE_S) == -9
    assert list(tmp_path.iterdir()) == []


def test_another_process_with_the_same_id_is_spared(tmp_path: Path) -> None:
    with sleeper() as process:
        (tmp_path / "member.pid").write_text(f"{process.pid} 1")
        end_leftovers(tmp_path)
        assert process.poll() is None
        process.kill()


def test_one_that_is_gone_already_is_forgotten(tmp_path: Path) -> None:
    with sleeper() as process:
        note_process(tmp_path, "member", process.pid)
        process.kill()
    end_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == []
