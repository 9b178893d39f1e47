"""A program that tests fork is the one that `python -m` would be: its words, its environment, its end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess
from tests.plugins import fork_server
from tests.plugins.disk_room import clear

pytestmark = pytest.mark.cluster

DANUBE = (sys.executable, "-m", "danube.cli")
BROKER = (sys.executable, "-m", "danube.broker")


@pytest.mark.parametrize(
    "command",
    [(*DANUBE, "--version"), (*DANUBE, "produce"), (*BROKER, "--durability", "never"), (*BROKER, "settings")],
    ids=["version", "usage", "wrong setting", "settings"],
)
def test_it_says_and_answers_what_one_does_that_is_started_anew(command: tuple[str, ...], tmp_path: Path) -> None:
    variables = {"PATH": os.environ["PATH"], "DANUBE_DATA_DIR": "/of/the/environment"}
    anew = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, timeout=PATIENCE_S, check=False)
    forked = fork_server.run(command, folder=tmp_path, variables=variables, timeout_s=PATIENCE_S)
    assert (forked.returncode, forked.stdout, forked.stderr) == (anew.returncode, anew.stdout, anew.stderr)


def test_it_is_killed_paused_and_told_to_end(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data")
    with broker:
        pid = broker.pid
        assert os.getpgid(pid) == pid
        broker.pause()
        assert {(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks(pid)} == {"T"}
        broker.resume()
        assert broker.terminate() == 0
        broker.start()
        os.kill(broker.pid, signal.SIGKILL)
        assert broker.terminate() == -signal.SIGKILL


def test_what_passed_leaves_its_logs_alone(tmp_path: Path) -> None:
    (tmp_path / "data" / "journal").mkdir(parents=True)
    (tmp_path / "data" / "journal" / "1.journal").write_bytes(b"1")
    (tmp_path / "data.log").write_text("said")
    (tmp_path / "link").symlink_to(tmp_path / "data")
    clear(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["data.log"]


def tasks(pid: int) -> list[Path]:
    return [*Path(f"/proc/{pid}/task").iterdir()]
