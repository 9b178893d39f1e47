"""A real broker, killed; its data damaged, verified, repaired; and a broker that opens what is left."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

import danube
from danube.model.exit_codes import ExitCode
from danube.storage.batches.placeholder import PLACEHOLDER_ATTRIBUTE
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess
from tests.plugins import fork_server
from tests.unit.offline.folder_world import flip

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

TOPIC = "/default/orders"


def storage(data_dir: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "danube.broker", "storage", *words, "--data-dir", str(data_dir)]
    return fork_server.run_text(command, variables={"PATH": os.environ["PATH"]}, timeout_s=PATIENCE_S)


async def publish(broker: BrokerProcess, messages: int) -> None:
    async with await danube.DanubeClient.builder().service_url(broker.endpoints.service_url).build() as client:
        producer = client.new_producer().with_topic(TOPIC).with_name("p")
        sender = producer.with_dispatch_strategy(danube.DispatchStrategy.RELIABLE).build()
        await sender.create()
        for number in range(messages):
            await sender.send(b"message %d" % number)


async def read(broker: BrokerProcess) -> list[tuple[bytes, bool]]:
    """Every payload, and whether it stands for a message that was lost."""
    async with await danube.DanubeClient.builder().service_url(broker.endpoints.service_url).build() as client:
        found = [one async for one in client.fetch(TOPIC)]
    return [(one.payload, PLACEHOLDER_ATTRIBUTE in one.attributes) for one in found]


async def consume(broker: BrokerProcess, messages: int) -> list[bytes]:
    """What a subscription gets that was there before the damage."""
    async with await danube.DanubeClient.builder().service_url(broker.endpoints.service_url).build() as client:
        consumer = client.new_consumer().with_topic(TOPIC).with_consumer_name("c").with_subscription("s").build()
        await consumer.subscribe()
        queue = await consumer.receive()
        found = []
        for _ in range(messages):
            message = await queue.get()
            found.append(message.payload)
            await consumer.ack(message)
        return found


READ_ONLY = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.getuid() == 0 else []
"""Has permissions count for the superuser, too."""


@pytest.mark.parametrize("words", [("storage", "inspect"), ("storage", "verify"), ("metadata", "inspect")])
def test_a_folder_that_cannot_be_written_can_be_read(tmp_path: Path, words: tuple[str, ...]) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        asyncio.run(publish(broker, 1))
        broker.terminate()
    written = [broker.data_dir, *broker.data_dir.rglob("*")]
    before = {path: path.stat().st_mode for path in written}
    for path in written:
        path.chmod(before[path] & ~0o222)
    command = [*READ_ONLY, sys.executable, "-m", "danube.broker", *words, "--data-dir", str(broker.data_dir)]
    try:
        ended = fork_server.run_text(command, variables={"PATH": os.environ["PATH"]}, timeout_s=PATIENCE_S)
    finally:
        for path, mode in before.items():
            path.chmod(mode)
    assert (ended.returncode, ended.stderr) == (ExitCode.OK, "")


def test_a_broker_opens_what_a_repair_left_and_misses_only_what_it_said(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        asyncio.run(publish(broker, 0))  # makes the topic
        asyncio.run(consume(broker, 0))
        asyncio.run(publish(broker, 20))
        assert storage(broker.data_dir, "verify").returncode == ExitCode.DATA_FOLDER
        broker.kill()
        assert storage(broker.data_dir, "verify").returncode == ExitCode.OK
        journal = broker.data_dir / "journal" / "0000000001.journal"
        flip(journal, journal.read_bytes().index(b"message 7"))
        assert storage(broker.data_dir, "verify").returncode == ExitCode.DAMAGED_DATA
        assert storage(broker.data_dir, "repair").returncode == ExitCode.NEEDS_YES
        done = storage(broker.data_dir, "repair", "--accept-loss")
        assert (done.returncode, done.stderr) == (ExitCode.OK, "")
        broker.start()
        found = asyncio.run(read(broker))
        assert asyncio.run(consume(broker, 19)) == [b"message %d" % number for number in range(20) if number != 7]
    expected = [(b"" if number == 7 else b"message %d" % number, number == 7) for number in range(20)]
    assert found == expected
