"""A disk that is full, for real: publishes are refused, reads go on, nothing is lost, and room is all it takes."""

import asyncio
import itertools
import os
import re
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, aclosing, asynccontextmanager
from pathlib import Path

import pytest

from danube.client import DanubeClientBuilder
from danube.model.errors import UnavailableError
from danube.model.limits.broker import FLUSH_RETRY_S
from danube.model.topic import TopicName
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.runtime.clock import SystemClock
from danube.testing.patience import PATIENCE_S
from danube.testing.peers.client import Inbox, Peer
from danube.testing.processes.broker import BrokerProcess
from tests.cluster.small_disk import MIB, SmallDisk, small_disk

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300), pytest.mark.xdist_group("full_disk")]

TOPIC = TopicName("default", "full")
DISK_BYTES = 32 * MIB
ROOM_BYTES = 8 * MIB
"""Left for the broker until the disk is cleared."""
SIZES = (64 * 1024, 1024, 1)
"""Of payloads: what is too large for the last gap is followed by what is not."""
SENDERS = 8
WAIT_S = PATIENCE_S
DANUBE_ADMIN = (sys.executable, "-m", "danube.admin")
PROGRAM = Path(__file__).parent / "wheel" / "full_disk_program.py"
SETTINGS = {"disk_warn_free_bytes": 0, "disk_refuse_free_bytes": 0, "telemetry_interval_s": 0, "cache_bytes_max": MIB}
"""No room is kept back: the disk itself refuses. The small cache has most of it read from the disk."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A file system of `DISK_BYTES`, with `ROOM_BYTES` left."""
    with ExitStack() as stack:
        try:
            disk = stack.enter_context(small_disk(tmp_path / "data", DISK_BYTES))
        except OSError as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(str(error))
        disk.fill(leave_bytes=ROOM_BYTES)
        yield disk


@asynccontextmanager
async def running(disk: SmallDisk, **settings: int) -> AsyncIterator[BrokerProcess]:
    """A broker on the disk."""
    process = BrokerProcess(disk.data_dir, settings={**SETTINGS, **settings}, launcher=disk.launcher)
    await asyncio.to_thread(process.start)
    try:
        yield process
        assert "Traceback" not in await asyncio.to_thread(process.log)
    finally:
        await asyncio.to_thread(process.kill)


@pytest.fixture
async def broker(disk: SmallDisk) -> AsyncIterator[BrokerProcess]:
    async with running(disk) as process:
        yield process


@asynccontextmanager
async def connected(broker: BrokerProcess) -> AsyncIterator[Peer]:
    channel = GrpcCarrier(SystemClock()).connect(broker.endpoints.broker)
    try:
        yield Peer(channel)
    finally:
        await channel.close()


class Flood:
    """Messages of one producer, until there is no room for even the smallest."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self.stored: set[int] = set()
        """Those of which the broker said that it has them."""
        self.refusals: list[UnavailableError] = []

    async def run(self, peer: Peer) -> None:
        producer = await peer.create_producer(TOPIC)
        for size in SIZES:
            await asyncio.gather(*(self._until_refused(peer, producer, size) for _ in range(SENDERS)))

    async def send(self, peer: Peer, producer: int, size: int = 1) -> int:
        number = next(self._numbers)
        await peer.send(TOPIC, producer, b"%d:%s" % (number, b"x" * size))
        self.stored.add(number)
        return number

    async def _until_refused(self, peer: Peer, producer: int, size: int) -> None:
        try:
            while True:
                await self.send(peer, producer, size)
        except UnavailableError as error:
            self.refusals.append(error)


def number_of(payload: bytes) -> int:
    return int(payload.partition(b":")[0])


async def stored(broker: BrokerProcess) -> list[int]:
    """The numbers of all messages, in the order of their offsets, which have no gap."""
    client = await DanubeClientBuilder().service_url(broker.endpoints.service_url).build()
    async with client, aclosing(client.fetch(str(TOPIC))) as messages:
        found = [(message.msg_id.topic_offset, number_of(message.payload)) async for message in messages]
    assert [offset for offset, _ in found] == list(range(len(found)))
    return [number for _, number in found]


async def sends_again(flood: Flood, peer: Peer) -> int:
    """Send until one is taken; it is of the size that was refused first."""
    producer = await peer.create_producer(TOPIC)
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                return await flood.send(peer, producer, SIZES[0])
            except UnavailableError as error:
                flood.refusals.append(error)


async def test_publishes_are_refused_reads_go_on_and_room_is_all_it_takes(
    broker: BrokerProcess, disk: SmallDisk
) -> None:
    flood = Flood()
    async with connected(broker) as peer:
        await flood.run(peer)
        assert disk.free_bytes < MIB
        assert len(flood.stored) * SIZES[0] > ROOM_BYTES // 2
        assert flood.stored <= set(await stored(broker))
        disk.clear()
        last = await sends_again(flood, peer)
    found = await stored(broker)
    assert flood.stored <= set(found)
    assert found[-1] == last


async def test_a_refusal_says_what_to_do_and_a_client_of_ours_raises_it(broker: BrokerProcess) -> None:
    flood = Flood()
    async with connected(broker) as peer:
        await flood.run(peer)
    assert all("No space left on device" in str(error) for error in flood.refusals)
    assert all("make room" in str(error) for error in flood.refusals)


async def test_a_broker_killed_on_a_full_disk_starts_and_serves_what_it_has(
    broker: BrokerProcess, disk: SmallDisk
) -> None:
    flood = Flood()
    async with connected(broker) as peer:
        await flood.run(peer)
    before = await stored(broker)
    for _ in range(2):
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.start)
        assert await stored(broker) == before
    assert flood.stored <= set(before)
    async with connected(broker) as peer:
        with pytest.raises(UnavailableError):
            await flood.send(peer, await peer.create_producer(TOPIC), SIZES[0])
        disk.clear()
        last = await sends_again(flood, peer)
    assert (await stored(broker))[len(before) :][-1] == last


async def test_consumers_go_on_while_the_disk_is_full_and_what_they_acknowledged_is_kept_once_there_is_room(
    broker: BrokerProcess, disk: SmallDisk
) -> None:
    flood = Flood()
    async with connected(broker) as peer:
        await peer.create_producer(TOPIC)
        inbox = await peer.receive(await peer.subscribe(TOPIC))
        await flood.run(peer)
        await read_to(max(flood.stored), peer, inbox)
        disk.clear()
        await read_to(await sends_again(flood, peer), peer, inbox)
    assert await asyncio.to_thread(broker.terminate) == 0
    await asyncio.to_thread(broker.start)
    async with connected(broker) as peer:
        inbox = await peer.receive(await peer.subscribe(TOPIC))
        last = await flood.send(peer, await peer.create_producer(TOPIC))
        assert await read_to(last, peer, inbox) == [last]
        inbox.close()


async def test_a_send_of_the_published_client_waits_and_is_stored_once_there_is_room(
    broker: BrokerProcess, disk: SmallDisk, wheel_python: Path
) -> None:
    command = [str(wheel_python), "-I", str(PROGRAM), broker.endpoints.service_url, str(TOPIC)]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    try:
        async with asyncio.timeout(WAIT_S), connected(broker) as peer:
            await tell(process)
            assert await said(process) == "stored"
            await Flood().run(peer)
            await tell(process)
            await Flood().run(peer)  # takes its time; what is smaller may still find a gap
            full = await stored(broker)
            assert full.count(-2) == 1
            disk.clear()
            assert await said(process) == "stored"
            assert -2 in (await stored(broker))[len(full) :]
    finally:
        process.kill()
        await process.communicate()


async def tell(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.write(b"send\n")
    await process.stdin.drain()


async def said(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


async def test_appends_are_refused_while_less_is_free_than_is_kept_back(disk: SmallDisk) -> None:
    async with running(disk, disk_refuse_free_bytes=4 * MIB) as broker, connected(broker) as peer:
        flood, producer = Flood(), await peer.create_producer(TOPIC)
        await flood.send(peer, producer)
        await asyncio.to_thread(disk.fill, 3 * MIB)
        refusal = await refused(flood, peer, producer)
        assert re.search(r"the disk has [123] MiB left, and 4 are kept back: free some space", refusal)
        assert disk.free_bytes > MIB
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.start)
        assert await stored(broker) == sorted(flood.stored)
    async with running(disk, disk_refuse_free_bytes=4 * MIB) as broker, connected(broker) as peer:
        assert "kept back" in await refused(flood, peer, await peer.create_producer(TOPIC))
        disk.clear()
        last = await sends_again(flood, peer)
        assert (await stored(broker))[-1] == last


async def test_writers_faster_than_the_looks_at_the_disk_leave_what_is_kept_back(disk: SmallDisk) -> None:
    async with running(disk, disk_refuse_free_bytes=4 * MIB, journal_file_bytes_max=64 * MIB) as broker:
        before = disk.free_bytes
        async with connected(broker) as peer:
            await Flood().run(peer)
        assert before > 5 * MIB
        assert disk.free_bytes > 4 * MIB - MIB // 4  # what cursors, envelopes and the journal's marks take


@pytest.mark.parametrize(
    ("settings", "restarts"),
    [
        pytest.param({}, False, id="nothing kept back"),
        pytest.param({}, True, id="after a start without any room", marks=pytest.mark.nightly),
        pytest.param({"disk_refuse_free_bytes": 2 * MIB}, False, id="a mark", marks=pytest.mark.nightly),
    ],
)
async def test_a_topic_can_be_deleted_on_a_disk_without_any_room_and_its_room_comes_back(
    disk: SmallDisk, settings: dict[str, int], restarts: bool
) -> None:
    async with running(disk, **settings) as broker:
        async with connected(broker) as peer:
            await Flood().run(peer)
            await asyncio.to_thread(disk.fill)
            assert disk.free_bytes == 0
            if restarts:
                assert await asyncio.to_thread(broker.terminate) == 0
                await asyncio.to_thread(disk.fill)
                await asyncio.to_thread(broker.start)
            command = [*DANUBE_ADMIN, "--endpoint", f"http://{broker.endpoints.admin}", "--access", "destroy", "--yes"]
            deleting = await asyncio.create_subprocess_exec(*command, "topics", "delete", str(TOPIC))
            async with asyncio.timeout(PATIENCE_S):
                assert await deleting.wait() == 0
            await asyncio.to_thread(until, lambda: disk.free_bytes > ROOM_BYTES // 2)
        async with connected(broker) as peer:
            last = await sends_again(Flood(), peer)
        assert await stored(broker) == [last]


def until(reached: Callable[[], bool]) -> None:
    """Wait for what the disk shows."""
    pause, end_s = threading.Event(), time.monotonic() + FLUSH_RETRY_S + PATIENCE_S
    while not reached():
        assert time.monotonic() < end_s
        pause.wait(0.2)


async def refused(flood: Flood, peer: Peer, producer: int) -> str:
    """Send until it is refused, and say how."""
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                await flood.send(peer, producer)
            except UnavailableError as error:
                return str(error)


@pytest.mark.slow
async def test_a_disk_that_fills_while_the_journal_is_cut_into_segments_loses_nothing(disk: SmallDisk) -> None:
    flood = Flood()
    async with running(disk, journal_file_bytes_max=MIB, segment_bytes_max=MIB, cache_bytes_max=0) as broker:
        for _ in range(2):
            async with connected(broker) as peer:
                await flood.run(peer)
            assert flood.stored <= set(await stored(broker))
            await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(broker.start)
            assert flood.stored <= set(await stored(broker))
        disk.clear()
        async with connected(broker) as peer:
            await sends_again(flood, peer)
            await cut(disk, flood, peer)
        assert flood.stored <= set(await stored(broker))


async def cut(disk: SmallDisk, flood: Flood, peer: Peer) -> None:
    """Go on sending until the journal of the full disk is in segments; one that failed is tried again, later."""
    full = max(disk.seen.glob("journal/*.journal"))
    producer, pause = await peer.create_producer(TOPIC), threading.Event()
    async with asyncio.timeout(FLUSH_RETRY_S + PATIENCE_S):
        while full.exists():
            await flood.send(peer, producer, SIZES[0])
            await asyncio.to_thread(pause.wait, 0.2)
    assert list(disk.seen.glob("segments/*/*.segment"))


async def read_to(number: int, peer: Peer, inbox: Inbox) -> list[int]:
    """Take and acknowledge one by one, until this number came; answers what came."""
    found = [-1]
    async with asyncio.timeout(WAIT_S):
        while found[-1] != number:
            message = await inbox.next()
            found.append(number_of(message.payload))
            await peer.acknowledge(TOPIC, message.offset)
    return found[1:]
