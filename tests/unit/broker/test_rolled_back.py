"""The newest changes of the metadata are lost: no broker starts in silence, and the loss is counted and accepted."""

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from danube.broker.__main__ import app
from danube.data_folder.data_folder import read_identity
from danube.metadata.high_water import NAME as MARK
from danube.model.calls.stream import Fetch
from danube.model.errors import DamagedDataError
from danube.model.exit_codes import ExitCode
from danube.model.topic import TopicName
from danube.storage.batches.placeholder import is_placeholder
from danube.testing.in_process_broker import Cell, running_broker
from danube.testing.peers.stream import StreamPeer
from tests.unit.offline.folder_world import flip

ORDERS, CLICKS = TopicName("default", "orders"), TopicName("default", "clicks")
WAL = "metadata.sqlite3-wal"


async def send(cell: Cell, topic: TopicName, count: int) -> None:
    producer = await cell.client.create_producer(topic)
    for number in range(count):
        await cell.client.send(topic, producer, b"%s %d" % (str(topic).encode(), number))


async def count_of(cell: Cell, topic: TopicName) -> int:
    streams = StreamPeer(cell.carrier.connect(cell.broker.addresses.broker))
    batches = await streams.fetch(Fetch(topic=topic)).rest()
    return sum(batch.count for batch in batches if not is_placeholder(batch.body))


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """The folder of a broker that was killed: the second topic is in the write-ahead log of its metadata alone."""

    async def live() -> None:
        async with running_broker(tmp_path / "data", telemetry_interval_s=0) as cell:
            await send(cell, ORDERS, 3)
        async with running_broker(tmp_path / "data", telemetry_interval_s=0) as cell:
            await send(cell, CLICKS, 2)
            await asyncio.to_thread(shutil.copytree, tmp_path / "data", tmp_path / "killed")

    asyncio.run(live())
    return tmp_path / "killed"


def lose_the_end(path: Path) -> None:
    """Flip a bit in the newest change."""
    flip(path, path.stat().st_size - 2_000)


DAMAGES: list[Callable[[Path], object]] = [Path.unlink, lambda path: path.write_bytes(b""), lose_the_end]


@pytest.fixture(params=DAMAGES, ids=["missing", "empty", "flipped"])
def rolled_back(killed: Path, request: pytest.FixtureRequest) -> Path:
    request.param(killed / WAL)
    return killed


def run(*words: str, data_dir: Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, [*words, "--data-dir", str(data_dir)], prog_name="danube-broker")
    return result.exit_code, result.stdout


def answer(*words: str, data_dir: Path) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(run(*words, "-o", "json", data_dir=data_dir)[1])
    return parsed


async def start(path: Path) -> dict[TopicName, int]:
    """How many messages each topic has, and a new one that got one."""
    async with running_broker(path, telemetry_interval_s=0) as cell:
        names = await cell.admin.namespace_topics("default")
        counts = {name: await count_of(cell, name) for name in names}
        await send(cell, TopicName("default", "new"), 1)
        return counts | {TopicName("default", "new"): await count_of(cell, TopicName("default", "new"))}


def test_the_folder_of_a_killed_broker_is_whole(killed: Path) -> None:
    assert run("storage", "verify", data_dir=killed)[0] == ExitCode.OK
    assert asyncio.run(start(killed))[CLICKS] == 2


def test_a_start_is_refused_and_verify_says_the_same(rolled_back: Path) -> None:
    code, text = run("storage", "verify", data_dir=rolled_back)
    assert code == ExitCode.DAMAGED_DATA
    assert "damage: metadata.sqlite3: it is older than this folder: it is at revision " in text
    with pytest.raises(DamagedDataError, match=r"metadata\.sqlite3 is older than its data folder.*storage repair"):
        asyncio.run(start(rolled_back))
    assert CliRunner().invoke(app, ["--data-dir", str(rolled_back)]).exit_code == ExitCode.DAMAGED_DATA


@pytest.mark.parametrize("words", [("storage", "repair"), ("metadata", "adopt")])
def test_what_is_lost_is_counted_and_given_up_by_a_person_alone(killed: Path, words: tuple[str, str]) -> None:
    (killed / WAL).unlink()
    assert run(*words, data_dir=killed)[0] == ExitCode.NEEDS_YES
    planned = answer(*words, data_dir=killed)
    lost = planned["lost_topics" if words[0] == "storage" else "lost"]
    assert [one["messages"] for one in lost] == [2]
    (lost_id,) = (one["topic_id"] for one in lost)
    assert run(*words, "--accept-loss", data_dir=killed)[0] == ExitCode.OK
    assert run("storage", "verify", data_dir=killed)[0] == ExitCode.OK
    assert asyncio.run(start(killed)) == {ORDERS: 3, TopicName("default", "new"): 1}
    assert read_identity(killed).accepted_restore_id is None
    assert lost_id not in {one.topic_id for one in asyncio.run(described(killed))}
    assert run("storage", "verify", data_dir=killed)[0] == ExitCode.OK


async def described(path: Path) -> list[Any]:
    async with running_broker(path, telemetry_interval_s=0) as cell:
        names = await cell.admin.namespace_topics("default")
        return list(await cell.admin.describe(*names))


def test_a_repair_of_other_damage_does_not_hide_that_changes_are_lost(killed: Path) -> None:
    """What the repair itself writes into the metadata must not make up for them."""
    lose_the_end(killed / WAL)
    (journal,) = (killed / "journal").glob("*.journal")
    flip(journal, 100)
    code, text = run("storage", "repair", "--accept-loss", data_dir=killed)
    assert code == ExitCode.OK
    assert "The metadata is older than this folder" in text
    assert "Repaired." in text
    assert run("storage", "verify", data_dir=killed)[0] == ExitCode.OK
    assert asyncio.run(start(killed))[TopicName("default", "new")] == 1


def test_metadata_that_has_lost_everything_cannot_be_repaired(killed: Path) -> None:
    for name in (WAL, "metadata.sqlite3"):
        (killed / name).unlink()
    (killed / "metadata.sqlite3").write_bytes(b"")
    assert run("storage", "verify", data_dir=killed)[0] == ExitCode.DAMAGED_DATA
    assert run("storage", "repair", "--accept-loss", data_dir=killed)[0] == ExitCode.DAMAGED_DATA


def test_an_older_copy_of_the_metadata_is_missed(tmp_path: Path) -> None:
    async def live(topic: TopicName) -> None:
        async with running_broker(tmp_path / "data", telemetry_interval_s=0) as cell:
            await send(cell, topic, 2)

    asyncio.run(live(ORDERS))
    shutil.copy(tmp_path / "data" / "metadata.sqlite3", tmp_path / "older")
    asyncio.run(live(CLICKS))
    shutil.copy(tmp_path / "older", tmp_path / "data" / "metadata.sqlite3")
    with pytest.raises(DamagedDataError, match=r"1 topic with 2 messages \(topic id \d+\) would be lost"):
        asyncio.run(live(ORDERS))


def test_a_folder_without_a_mark_gets_one(killed: Path) -> None:
    (killed / MARK).unlink()
    asyncio.run(start(killed))
    assert (killed / MARK).exists()


def test_a_mark_that_is_not_what_was_written_is_a_note(killed: Path) -> None:
    (killed / MARK).write_bytes(b"x" * 40)
    code, text = run("storage", "verify", data_dir=killed)
    assert code == ExitCode.OK
    assert f"{MARK} is not what was written" in text
    asyncio.run(start(killed))
    assert MARK not in run("storage", "verify", data_dir=killed)[1]


def test_one_flipped_bit_in_the_identity_is_damage_for_start_and_verify(killed: Path) -> None:
    path = killed / "broker.json"
    flip(path, path.read_bytes().index(b'"cluster_id": "') + 16)
    assert run("storage", "verify", data_dir=killed)[0] == ExitCode.DAMAGED_DATA
    with pytest.raises(DamagedDataError, match=r"broker\.json is damaged"):
        asyncio.run(start(killed))
