"""The command as a process, on a real broker."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess
from tests.plugins import fork_server

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

ROOT = Path(__file__).parents[4]


def danube_admin(endpoint: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "XDG_CONFIG_HOME": str(folder), "DANUBE_ADMIN_ENDPOINT": endpoint}
    command = [sys.executable, "-m", "danube.admin", *words]
    return fork_server.run_text(command, folder=ROOT, variables=environment, timeout_s=PATIENCE_S)


def test_a_topic_lives_and_dies_and_the_log_tells_of_it(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:

        def run(*words: str) -> subprocess.CompletedProcess[str]:
            return danube_admin(broker.endpoints.admin, tmp_path, *words)

        assert run("topics", "create", "orders", "--namespace", "default").returncode == 0
        listed = json.loads(run("topics", "list", "--namespace", "default", "-o", "json").stdout)
        assert [row["name"] for row in listed] == ["/default/orders"]
        assert run("topics", "delete", "/default/orders").returncode == 3
        assert run("topics", "delete", "/default/orders", "--yes").returncode == 0
        assert run("namespaces", "topics", "default", "-o", "json").stdout == "[]\n"
        trail = json.loads(run("audit", "--verify-all", "-o", "json").stdout)
    called = [(each["operation"], each["outcome"]) for each in trail["records"] if each["operation"] == "delete_topic"]
    assert trail["is_intact"]
    assert [outcome for _, outcome in called] == ["started", "planned", "started", "planned", "started", "done"]


def test_nobody_there_is_one_sentence_and_exit_code_5(tmp_path: Path) -> None:
    ended = danube_admin("http://127.0.0.1:1", tmp_path, "topics", "list")
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (5, "", 1)
    assert "127.0.0.1:1" in ended.stderr


def test_whoever_stops_reading_ends_it_quietly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "danube.admin", "spec"]
    environment = {"PATH": os.environ["PATH"], "XDG_CONFIG_HOME": str(tmp_path)}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert (process.wait(PATIENCE_S), process.stderr.read()) == (0, b"")
