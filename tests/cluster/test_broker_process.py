"""What an operator sees of one real `danube-broker` process: starting, refusing, draining, being killed."""

import asyncio
import json
import os
import random
import shlex
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

from danube.model.topic import TopicName
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.runtime.clock import SystemClock
from danube.testing.patience import PATIENCE_S
from danube.testing.peers.client import Peer
from danube.testing.processes.broker import BrokerProcess
from tests.plugins import fork_server

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]


def broker_command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command, variables = (
        [sys.executable, "-m", "danube.broker", *arguments],
        {"PATH": os.environ["PATH"], **environment},
    )
    return fork_server.run_text(command, variables=variables, timeout_s=PATIENCE_S)


def refusal(ended: subprocess.CompletedProcess[str], code: int) -> str:
    """The one sentence with which it refused."""
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""
    lines = ended.stderr.strip().splitlines()
    assert len(lines) == 1, ended.stderr
    assert lines[0].startswith("danube-broker: ")
    return lines[0]


async def send(broker: BrokerProcess, messages: int) -> None:
    channel = GrpcCarrier(SystemClock()).connect(broker.endpoints.broker)
    peer, topic = Peer(channel), TopicName("default", "orders")
    producer = await peer.create_producer(topic)
    for index in range(messages):
        await peer.send(topic, producer, str(index).encode())
    await channel.close()


FREE = ("--broker-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0")


def test_sigterm_drains_and_exits_0(broker: BrokerProcess) -> None:
    assert broker.terminate() == 0
    assert "draining" in broker.log()
    assert "Traceback" not in broker.log()


def test_a_terminal_that_goes_away_drains_it_too(broker: BrokerProcess) -> None:
    assert broker.terminate(number=signal.SIGHUP) == 0
    assert "draining" in broker.log()


def test_under_nohup_a_terminal_that_goes_away_is_nothing_to_it(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", launcher=("nohup",)) as broker:
        status = Path(f"/proc/{broker.pid}/status").read_text(encoding="ascii")
        ignored = next(line.split()[1] for line in status.splitlines() if line.startswith("SigIgn:"))
    assert int(ignored, 16) & (1 << (signal.SIGHUP - 1))


@pytest.mark.parametrize(
    ("place", "said"), [(">/dev/full", "cannot write the output"), (">&-", "standard output is closed")]
)
def test_an_output_that_takes_nothing_is_one_sentence(place: str, said: str) -> None:
    command = f"{shlex.quote(sys.executable)} -m danube.broker settings {place}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
    assert said in done.stderr


def test_the_ready_file_is_there_only_while_it_serves(broker: BrokerProcess) -> None:
    ready = broker.data_dir.with_name(f"{broker.data_dir.name}.ready.json")
    assert json.loads(ready.read_text())["broker"] == broker.endpoints.broker
    refusal(broker_command(*FREE, "--data-dir", "/dev/null", "--ready-file", str(ready)), 7)
    assert not ready.exists(), "a start removes it before anything else"
    broker.terminate()
    broker.start()
    assert ready.exists()
    broker.terminate()
    assert not ready.exists()


def test_it_says_where_it_serves_and_where_its_data_is(broker: BrokerProcess) -> None:
    log = broker.log()
    address = broker.endpoints.broker
    assert f"serves clients on {address}, who are told to dial http://{address}, and administration on" in log
    assert str(broker.data_dir) in log


def test_it_starts_in_under_a_second_and_stays_under_80_mb(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", launcher=("env",)) as broker:  # not forked: that has its parent's pages, too
        assert broker.resident_bytes() < 80e6


def test_second_broker_on_the_folder_refuses_with_one_sentence(broker: BrokerProcess) -> None:
    sentence = refusal(broker_command(*FREE, "--data-dir", str(broker.data_dir)), 7)
    assert "in use by another broker" in sentence
    assert "--data-dir" in sentence


def test_used_port_is_refused_with_one_sentence(broker: BrokerProcess, tmp_path: Path) -> None:
    arguments = ("--broker-addr", broker.endpoints.broker, "--admin-addr", "127.0.0.1:0", "--data-dir")
    sentence = refusal(broker_command(*arguments, str(tmp_path / "other")), 2)
    assert broker.endpoints.broker in sentence
    assert "another port" in sentence


def test_unusable_data_folder_is_refused_with_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    sentence = refusal(broker_command(*FREE, "--data-dir", str(tmp_path / "file")), 7)
    assert str(tmp_path / "file") in sentence


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--mode", "edge"), "--mode edge is a flag of the original"),
        (("--edge-config", "edge.yml"), "--edge-config is a flag of the original"),
        (("--seed-nodes", "a:1", "--raft-addr", "a:1"), "would take commands from anybody"),
        (("--seed-nodes", "127.0.0.1:1", "--join"), "leave out meta_store.seed_nodes"),
        (("--broker-addr", "nonsense"), "is not an address: give host:port"),
        (("--durability", "maybe"), "durability (--durability) is 'maybe'"),
        (("--config-file", "missing.yml"), "cannot read the settings file missing.yml"),
    ],
)
def test_wrong_flags_are_refused_with_one_sentence(arguments: tuple[str, ...], said: str) -> None:
    assert said in refusal(broker_command(*arguments), 2)


def test_unknown_key_names_the_nearest_known_one(tmp_path: Path) -> None:
    path = tmp_path / "broker.yml"
    path.write_text("data_dirr: /x\n")
    assert "did you mean 'data_dir'?" in refusal(broker_command("--config-file", str(path)), 2)
    assert "did you mean DANUBE_DATA_DIR?" in refusal(broker_command(DANUBE_DATADIR="/x"), 2)


def test_settings_explain_says_where_each_value_came_from(tmp_path: Path) -> None:
    path = tmp_path / "broker.yml"
    path.write_text("dispatch:\n  max_unacked_messages: 50\nbroker:\n  host: 0.0.0.0\n  ports:\n    client: 7000\n")
    ended = broker_command(
        "--config-file", str(path), "--log-level", "debug", "settings", "--explain", DANUBE_DATA_DIR="/srv/danube"
    )
    assert ended.returncode == 0, ended.stderr
    assert f"max_unacked_messages = 50   ({path})" in ended.stdout
    assert f'broker_addr = "0.0.0.0:7000"   ({path})' in ended.stdout
    assert 'data_dir = "/srv/danube"   (DANUBE_DATA_DIR)' in ended.stdout
    assert 'log_level = "debug"   (--log-level)' in ended.stdout
    assert 'durability = "fsync"   (default)' in ended.stdout


def test_settings_as_json(tmp_path: Path) -> None:
    ended = broker_command("settings", "-o", "json")
    assert json.loads(ended.stdout)["broker_addr"]["value"] == "127.0.0.1:6650"


def test_help_shows_examples_and_exit_codes() -> None:
    ended = broker_command("--help")
    assert ended.returncode == 0
    assert "Examples:" in ended.stdout
    assert "Exit codes:" in ended.stdout


def test_metrics_and_health_answer(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", flags=["--prom-exporter", "127.0.0.1:0"]) as broker:
        base = f"http://{broker.endpoints.metrics}"
        with urllib.request.urlopen(f"{base}/health", timeout=PATIENCE_S) as answer:
            assert json.load(answer) == {"status": "ok"}
        with urllib.request.urlopen(f"{base}/metrics", timeout=PATIENCE_S) as answer:
            text = answer.read().decode()
    assert "danube_broker_topics_owned 2.0" in text  # what the broker itself writes to
    assert "danube_journal_stopped 0.0" in text


def test_killed_at_any_moment_of_its_first_start_it_starts_again(tmp_path: Path) -> None:
    rng = random.Random(7)
    with BrokerProcess(tmp_path / "data") as broker:
        for _ in range(3):
            broker.kill()
            broker.launch()
            threading.Event().wait(rng.uniform(0.15, 0.6))
            broker.kill()
            broker.start()
            address = "127.0.0.1", int(broker.endpoints.broker.rpartition(":")[2])
            with socket.create_connection(address, timeout=PATIENCE_S):
                pass


def test_damage_below_the_synced_mark_is_refused_and_nothing_is_changed(broker: BrokerProcess) -> None:
    asyncio.run(send(broker, 3))
    broker.terminate()
    journal = broker.data_dir / "journal" / "0000000001.journal"
    damaged = bytearray(journal.read_bytes())
    damaged[60] ^= 0x10
    journal.write_bytes(damaged)
    sentence = refusal(broker_command(*FREE, "--data-dir", str(broker.data_dir)), 8)
    assert "0000000001.journal" in sentence
    assert "backup" in sentence
    assert journal.read_bytes() == damaged
