"""Object storage over moto's server on this machine: latency by batch timeout, throughput, cold replay, and the bill.

Latency is of one sender that waits for each answer, throughput of one that does not. Cold replay reads a topic that is
all in segments, against plain range reads of the same objects in the same run, by turns. The bill of an idle broker is
that of a real process, over the seconds that it is left alone, at list price.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.result import Figure, median, percentile_ms
from danube.admin.grpc_gateway.gateway import opened
from danube.admin.target import Target
from danube.metadata.memory import MemoryStore
from danube.metadata.records.journals import JournalRecords
from danube.metadata.records.storage import StorageRecords, add_ownership
from danube.metadata.transaction_builder import TransactionBuilder
from danube.model.errors import StorageUnavailableError
from danube.model.limits.broker import MIB
from danube.model.limits.objects import OBJECT_READ_BYTES_MAX
from danube.model.ownership import StorageMode
from danube.objects.bill import Bill, Cause, RequestKind, cost_of
from danube.objects.opening import open_objects
from danube.objects.place import Adapter
from danube.objects.retrying import Patience, RetryingStore
from danube.runtime.blocking import BlockingThread
from danube.runtime.clock import SystemClock
from danube.runtime.disk import LocalDisk
from danube.runtime.rng import SystemRng
from danube.storage.batches.batch import encode_messages
from danube.storage.log.topic_log import TopicLog
from danube.storage.object_store.object_disk import ObjectDisk
from danube.storage.object_store.object_tier import BlockCache, ObjectTier
from danube.storage.settings import JournalSettings, StorageSettings
from danube.storage.takeover.object_storage import ObjectEnvironment, ObjectStorage
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker_cluster import BrokerCluster
from danube.testing.processes.object_server import MotoServer

TOPIC = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Size of the workload."""

    sends: int = 60
    batch_bytes: int = 64 << 10
    replay_bytes: int = 128 * MIB
    turns: int = 3
    idle_s: float = 60.0


def run() -> Iterator[Figure]:
    """All figures."""
    yield from _run(Size())


def run_quick() -> Iterator[Figure]:
    """The same of little."""
    yield from _run(Size(sends=5, replay_bytes=16 * MIB, turns=1, idle_s=5.0))


def _run(size: Size) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder, MotoServer(Path(folder) / "moto") as server:
        for timeout_ms in (250, 50, 0):
            yield from asyncio.run(_latency(server, Path(folder), size, timeout_ms))
        for adapter in Adapter:
            yield from asyncio.run(_throughput(server, Path(folder), size, adapter))
        yield from _idle(server, Path(folder), size)


async def _latency(server: MotoServer, folder: Path, size: Size, timeout_ms: int) -> list[Figure]:
    took_s: list[float] = []
    async with _storage(server, folder, f"latency-{timeout_ms}", timeout_ms) as storage:
        log = storage.topic(TOPIC)
        body = encode_messages([bytes(1_000)])
        for _ in range(size.sends):
            started_s = time.perf_counter()
            await _append(log, body)
            took_s.append(time.perf_counter() - started_s)
    name = f"produce, batch timeout {timeout_ms} ms"
    return [Figure(f"{name}: p{p}", percentile_ms(took_s, p), "ms") for p in (50, 99)]


async def _throughput(server: MotoServer, folder: Path, size: Size, adapter: Adapter) -> list[Figure]:
    async with _storage(server, folder, f"throughput-{adapter}", 250, adapter) as storage:
        log = storage.topic(TOPIC)
        body = encode_messages([bytes(1_000)] * (size.batch_bytes // 1_000))
        count = size.replay_bytes // len(body)
        started_s = time.perf_counter()
        under_way: set[asyncio.Task[int]] = set()
        for _ in range(count):
            under_way.add(asyncio.create_task(_append(log, body)))
            if len(under_way) >= 256:
                _, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.gather(*under_way)
        produced_s = time.perf_counter() - started_s
        await storage.journal.rotate()  # a benchmark flushes when it wants
        while storage.journal.closed_files():
            await storage.flush()
        total = count * len(body)
        ours, plain = await _by_turns(storage, log, size)
        lines = storage.object_use.bill.lines()
        puts = sum(one.requests for one in lines if one.kind is RequestKind.PUT)
        dollars = sum(cost_of(one, storage.object_use.bill.prices) for one in lines)
        note = f"{100 * ours / plain:.0f} % of plain range reads, {plain:.0f} MB/s"
        return [
            Figure(f"{adapter}: produce, {size.batch_bytes >> 10} KiB batches", total / produced_s / 1e6, "MB/s"),
            Figure(f"{adapter}: cold replay", ours, "MB/s", note),
            Figure(f"{adapter}: PUT for each GB produced and flushed", puts / (total / 1e9), "requests"),
            Figure(f"{adapter}: all requests for each GB", 100 * dollars / (total / 1e9), "cents"),
        ]


async def _by_turns(storage: ObjectStorage, log: TopicLog, size: Size) -> tuple[float, float]:
    ours: list[float] = []
    plain: list[float] = []
    for _ in range(size.turns):
        storage.cache.forget("")
        started_s, at, seen = time.perf_counter(), log.start_offset, 0
        while batches := await log.read(at, MIB):
            seen += sum(len(one.body) for one in batches)
            at = batches[-1].end_offset
        ours.append(seen / (time.perf_counter() - started_s) / 1e6)
        started_s, seen = time.perf_counter(), 0
        store = storage._objects.store  # noqa: SLF001 - the same requests without Danube
        for name, file_bytes in store.listing(f"segments/{TOPIC}/"):
            for position in range(0, file_bytes, OBJECT_READ_BYTES_MAX):
                seen += len(await asyncio.to_thread(store.get, name, position, OBJECT_READ_BYTES_MAX))
        plain.append(seen / (time.perf_counter() - started_s) / 1e6)
    return median(ours), median(plain)


def _idle(server: MotoServer, folder: Path, size: Size) -> Iterator[Figure]:
    with BrokerCluster(folder / "idle", size=1, mode=StorageMode.OBJECT_STORE, objects=server) as cluster:
        admin_url = cluster.brokers[0].endpoints.admin_url
        before = asyncio.run(_requests(admin_url))
        time.sleep(size.idle_s)
        after = asyncio.run(_requests(admin_url))
    hours = size.idle_s / 3_600
    yield Figure("idle broker: requests an hour", (after[0] - before[0]) / hours, "requests")
    yield Figure("idle broker: a month at list price", (after[1] - before[1]) / hours * 730, "dollars")


async def _requests(admin_url: str) -> tuple[int, float]:
    async with opened(Target(endpoint=admin_url, timeout_s=PATIENCE_S)) as gateway:
        storage = (await gateway.describe_broker()).storage
    use = storage.object_store if storage is not None else None
    assert use is not None
    return sum(one.requests for one in use.requests), sum(one.dollars for one in use.requests)


async def _append(log: TopicLog, body: bytes) -> int:
    done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    log.append_batch(body, done.set_result)
    offset = await done
    if not isinstance(offset, int):
        raise StorageUnavailableError(f"an append failed: {offset}. See the log")
    return offset


@asynccontextmanager
async def _storage(
    server: MotoServer, folder: Path, prefix: str, timeout_ms: int, adapter: Adapter = Adapter.S3FS
) -> AsyncIterator[ObjectStorage]:
    """One broker's storage, with a topic, on metadata in memory."""
    clock, rng = SystemClock(), SystemRng()
    metadata = MemoryStore(clock)
    async with AsyncExitStack() as running:
        threads = [BlockingThread(name) for name in ("journal", "read", "flush")]
        for thread in threads:
            running.push_async_callback(thread.aclose)
        scratch = folder / prefix
        scratch.mkdir()
        bill = Bill(clock.monotonic_s())
        raw = open_objects(server.place(prefix, adapter))
        store = RetryingStore(raw, clock, rng, bill=bill, cause=Cause.SEGMENT)
        disk = ObjectDisk(store, LocalDisk(scratch), rng, round_patience=Patience())
        cache = BlockCache(store, disk.ahead)
        builder = TransactionBuilder(metadata)
        add_ownership(builder, TOPIC)
        await metadata.transact(builder.transaction("create"))
        storage = await ObjectStorage.open_objects(
            ObjectEnvironment(
                disk=disk,
                objects=disk,
                cache=cache,
                url=prefix,
                make_tier=lambda: ObjectTier(store, cache),
                clock=clock,
                rng=rng,
                records=StorageRecords(metadata, rng),
                journals=JournalRecords(metadata, rng),
                runner=threads[0],
                read_runner=threads[1],
                flush_runner=threads[2],
                broker_id=1,
                settings=StorageSettings(journal=JournalSettings(batch_timeout_s=timeout_ms / 1_000)),
            )
        )
        running.push_async_callback(storage.close)
        await storage.acquire([TOPIC])
        yield storage
