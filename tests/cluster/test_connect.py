"""`danube connect` as a process, with a sink of a user's own, against a real broker process."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess
from tests.cluster.danube_command import ROOT, Danube

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

MINE = """
import os, sqlite3, time
from danube.connect import Batch, Partition, sink

db = sqlite3.connect("rows.sqlite", isolation_level=None)
db.execute("create table if not exists rows (payload blob)")
db.execute("create table if not exists ends (partition text primary key, end integer)")

async def saved(partition: Partition) -> int | None:
    row = db.execute("select end from ends where partition = ?", (partition.key,)).fetchone()
    return row and row[0]

@sink(position=saved)
async def to_table(batch: Batch[bytes]) -> None:
    db.execute("begin immediate")
    fresh = batch.after(await saved(batch.partition))
    db.executemany("insert into rows values (?)", [(value,) for value in fresh.values])
    db.execute("insert or replace into ends values (?, ?)", (batch.partition.key, batch.end))
    db.execute("commit")
"""
FILE = """
danube_service_url = "{url}"
connector_name = "orders-to-table"
[processing]
batch_size = 500
batch_timeout_ms = 0
metrics_port = 0
metrics_host = "127.0.0.1"
[connector]
name = "mine:to_table"
[[connector.routes]]
from = "/default/orders"
"""


class Connect:
    """A folder with the sink and its file, and the process that runs them."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self._environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
        (folder / "mine.py").write_text(MINE)
        (folder / "connect.toml").write_text(FILE.format(url=url))
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(self._command("run"), cwd=self.folder, env=self._environment, stderr=log)
        return self.process

    def check(self) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            self._command("check"), cwd=self.folder, env=self._environment, capture_output=True, check=False
        )

    def rows(self) -> list[bytes]:
        if not (self.folder / "rows.sqlite").exists():
            return []
        with sqlite3.connect(self.folder / "rows.sqlite") as db:
            found = [row[0] for row in db.execute("select payload from rows")]
        db.close()
        return found

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def port(self) -> str:
        lines = [json.loads(line)["message"] for line in self.log().splitlines() if line.startswith("{")]
        return next((line.split()[-1] for line in reversed(lines) if line.startswith("health and metrics on")), "")

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    @staticmethod
    def _command(word: str) -> list[str]:
        return [sys.executable, "-m", "danube.cli", "connect", word, "connect.toml"]


def wait(is_so: Callable[[], bool], what: str) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < until_s, f"this did not come true: {what}"
        time.sleep(0.02)


@pytest.fixture
def connect(broker: BrokerProcess, tmp_path: Path) -> Iterator[Connect]:
    folder = tmp_path / "connect"
    folder.mkdir()
    made = Connect(folder, broker.endpoints.service_url)
    yield made
    made.close()


def test_a_sink_of_ones_own_is_checked_killed_run_again_and_drained(connect: Connect, broker: BrokerProcess) -> None:
    danube = Danube(broker, "/default/orders")
    sent = [f"{number}".encode() for number in range(20_000)]
    danube.done("produce", "-t", danube.topic, stdin=b"\n".join(sent))
    checked = connect.check()
    assert (checked.returncode, checked.stderr) == (0, b"")
    first_line = "orders-to-table: mine:to_table, sink, exactly once: /default/orders -> mine:to_table"
    assert checked.stdout.decode().splitlines()[0] == first_line
    killed = connect.start()
    wait(lambda: len(connect.rows()) > 0, "rows come")
    killed.kill()
    killed.wait()
    process = connect.start()
    wait(lambda: len(connect.rows()) >= len(sent), "all rows are there")
    assert connect.rows() == sent

    wait(lambda: connect.port() != "", "the port is told")
    with urllib.request.urlopen(f"http://{connect.port()}/health") as answer:
        (task,) = json.load(answer)["tasks"]
    assert (task["status"], task["position"]) == ("running", len(sent))
    with urllib.request.urlopen(f"http://{connect.port()}/metrics") as answer:
        metrics = answer.read().decode()
    for name in (
        "messages_received_total",
        "messages_processed_total",
        "messages_failed_total",
        "messages_retried_total",
        "processing_duration_seconds_bucket",
        "batch_size_bucket",
        "inflight_messages",
        "health",
    ):
        assert f'danube_connector_{name}{{connector="orders-to-table"' in metrics
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
    assert "Traceback" not in connect.log()
