"""Full disks in a cluster of three, for real: a majority of them stops nothing that a broker can go on with."""

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from danube.client import DanubeClientBuilder
from danube.data_folder.disk_reserve import RESERVE
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.broker_cluster import BrokerCluster
from tests.cluster.seeing import wait_until
from tests.cluster.small_disk import MIB, SmallDisk, small_disk
from tests.plugins import fork_server

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300), pytest.mark.xdist_group("full_disk")]

DISK_BYTES = 48 * MIB
TOPIC = "/default/large"
SETTINGS = {"disk_warn_free_bytes": "0", "disk_refuse_free_bytes": "0", "telemetry_interval_s": "0"}
FULL, GOES_ON = "takes no part in the metadata cluster until", "the disk has room again: this broker takes part"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def disks(folder: Path) -> Iterator[list[SmallDisk]]:
    """File systems of two brokers; the third has the machine's."""
    with ExitStack() as stack:
        try:
            yield [stack.enter_context(small_disk(folder / f"broker{number}", DISK_BYTES)) for number in (1, 2)]
        except OSError as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(str(error))


@pytest.fixture(scope="module")
def cluster(folder: Path, disks: list[SmallDisk]) -> Iterator[BrokerCluster]:
    launchers = [*(disk.launcher for disk in disks), ()]
    with BrokerCluster(folder, settings=SETTINGS, launchers=launchers) as found:
        yield found
        assert not any("Traceback" in broker.log() for broker in found.brokers)


def admin(broker: BrokerProcess, *words: str) -> tuple[int, str]:
    flags = ("--endpoint", f"http://{broker.endpoints.admin}", "--access", "destroy", "--yes")
    command = [sys.executable, "-m", "danube.admin", *flags, *words]
    ended = fork_server.run_text(command, variables=dict(os.environ), timeout_s=PATIENCE_S)
    return ended.returncode, ended.stdout + ended.stderr


def done(broker: BrokerProcess, *words: str) -> None:
    """Ask until it is done: the one that led may have stood still."""
    wait_until(lambda: not admin(broker, *words)[0], " ".join(words), log=broker.log)


def full_times(broker: BrokerProcess) -> tuple[int, int]:
    """Times that it took no part for a full disk, and went on."""
    return broker.log().count(FULL), broker.log().count(GOES_ON)


async def publish(broker: BrokerProcess, topic: str) -> None:
    client = await DanubeClientBuilder().service_url(broker.endpoints.service_url).build()
    async with client:
        producer = client.new_producer().with_topic(topic).with_name("fills").build()
        await producer.create()
        for _ in range(20):
            await producer.send(os.urandom(64 * 1024))


def test_two_of_three_full_disks_stop_no_metadata_and_all_go_on_by_themselves(
    cluster: BrokerCluster, disks: list[SmallDisk]
) -> None:
    first, second, third = cluster.brokers
    for disk in disks:
        disk.fill()
    for number in range(3):  # on the room that is kept back
        done(third, "topics", "create", f"/default/kept-{number}", "--partitions", "20")
    wait_until(lambda: full_times(first) == full_times(second) == (1, 1), "both go on", log=first.log)
    for disk in disks:
        disk.fill()  # takes that, too
    code, told = admin(third, "topics", "create", "/default/waits", "--partitions", "100")
    assert code, told
    for disk in disks:
        disk.clear()
    for broker in (first, second):
        done(broker, "topics", "create", f"/default/{broker.data_dir.name}")
    wait_until(lambda: full_times(first)[1] == full_times(second)[1] > 1, "both go on again", log=first.log)


def test_a_broker_starts_on_a_disk_without_any_room_and_its_topics_can_be_deleted(
    cluster: BrokerCluster, disks: list[SmallDisk]
) -> None:
    first, disk = cluster.brokers[0], disks[0]
    asyncio.run(publish(first, TOPIC))
    reserve = disk.seen / RESERVE
    wait_until(lambda: reserve.stat().st_size > 0, "the room is kept back again", log=first.log)
    first.kill()
    disk.fill()
    assert disk.free_bytes == 0
    first.start()
    done(first, "topics", "delete", TOPIC)
