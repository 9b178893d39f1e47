"""A reader of a long history beside a live load: what it costs those who read what is new, and the broker's memory.

A broker process with a topic whose messages are all in segments. Rounds of the live load alone and with the reader
beside take turns, medians of both are compared. Before each round with the reader the files of the segments are dropped
from the page cache, so that it reads from the disk. Reader, live clients and broker share this machine: the reader's
process, which would be elsewhere, runs when no other wants the processor. At its pace all rounds together read the
whole history.

A disk may stand still for a part of a second, whoever reads. So in every round a bystander writes to a plain log on it,
a message 100 times a second, and syncs each. The percentiles are told of all messages, and of those that were not under
way while a sync of the bystander stood still. How many are left out is told, too: the reader may be the cause of it.

After each round stands what a plain reader does: a plain log with as many messages, alone and beside a reader of the
same files.

    python -m bench.cold_reader --gib 2 --pace 0
    python -m bench.cold_reader --gib 2 --objects
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bench import machine
from bench.live import Arrival, Latency, LiveLoad, latency_of, live_load
from bench.plain_log import PlainLog, run_plain_log
from bench.result import Figure, median, percentile_ms
from danube.client import DanubeClientBuilder, DispatchStrategy
from danube.model.limits.broker import MIB
from danube.model.ownership import StorageMode
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.runtime.clock import SystemClock
from danube.testing.peers.admin import AdminPeer
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.broker_cluster import BrokerCluster
from danube.testing.processes.object_server import VersityServer

HISTORY, LIVE = "/default/history", "/default/live"
GIB = 1 << 30
PROGRAM = Path(__file__).with_name("replay_program.py")
MEMORY_INTERVAL_S = 0.05
CUT_TIMEOUT_S = 900
BYSTANDER_PER_SECOND = 100
SETTINGS = {"max_unacked_messages": 1_000, "telemetry_interval_s": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Size of the workload."""

    history_bytes: int = 10 * GIB
    message_bytes: int = 1_024
    pace: int = 50_000_000
    """Bytes a second that the reader takes; 0 is all it can get."""
    live_per_second: int = 1_000
    consumes: bool = False
    """Whether the live messages are consumed and acknowledged by unary calls, and not streamed."""
    rounds: int = 5
    round_s: float = 40
    file_bytes: int = 128 * MIB
    """Of a journal file."""
    in_bucket: bool = False
    """True for a broker with `storage.mode` object_store, over versitygw on the same disk."""


FULL = Size()
QUICK = Size(history_bytes=24 << 20, live_per_second=100, rounds=2, round_s=1, file_bytes=4 * MIB)


@dataclass(frozen=True, slots=True)
class Round:
    """The live load, and beside what it ran."""

    arrivals: Sequence[Arrival]
    bystander: PlainLog
    peak_bytes: int
    """Of the broker's memory."""
    read_rate: float = 0
    """Bytes a second that the reader got."""
    read_to: int = 0
    """The offset that it came to."""

    @property
    def live(self) -> Latency:
        """Latency of all messages."""
        return latency_of(self.arrivals)

    @property
    def answered(self) -> Latency:
        """Latency of messages that were under way only while the disk answered the bystander."""
        return latency_of(self.bystander.answered(self.arrivals))

    @property
    def left_out(self) -> float:
        """The share of messages that were not."""
        return 1 - len(self.bystander.answered(self.arrivals)) / len(self.arrivals)


def run(size: Size = FULL) -> Iterator[Figure]:
    """On a broker of its own; the disk needs room for the history three times while it is prepared."""
    with tempfile.TemporaryDirectory() as folder:
        if shutil.disk_usage(folder).free < 3 * size.history_bytes:
            yield Figure(f"no room for {size.history_bytes >> 20:,} MiB three times in {folder}", 0, "figures")
            return
        with _broker(Path(folder), size) as broker:
            yield from asyncio.run(_measure(broker, size))


@contextmanager
def _broker(folder: Path, size: Size) -> Iterator[BrokerProcess]:
    """A broker with its messages on its disk, or in a bucket on a disk of the same machine."""
    settings, flags = {**SETTINGS, "journal_file_bytes_max": size.file_bytes}, ["--log-level", "warning"]
    if not size.in_bucket:
        with BrokerProcess(folder / "data", flags=flags, settings=settings) as broker:
            yield broker
        return
    texts = {name: str(value) for name, value in settings.items()}
    with (
        VersityServer(folder / "store") as server,
        BrokerCluster(
            folder, size=1, mode=StorageMode.OBJECT_STORE, objects=server, flags=[flags], settings=texts
        ) as cluster,
    ):
        yield cluster.brokers[0]


def run_quick() -> Iterator[Figure]:
    """To see that it runs."""
    return run(QUICK)


async def _measure(broker: BrokerProcess, size: Size) -> list[Figure]:
    end = await _fill(broker, size)
    await _cut(broker, size)
    alone: list[Round] = []
    beside: list[Round] = []
    plain: list[tuple[float, float]] = []
    async with live_load(broker.endpoints.service_url, LIVE, consumes=size.consumes) as load:
        await load.run(size.live_per_second, size.round_s / 2)  # warms up
        for _ in range(size.rounds):
            alone.append(await _watched(broker, load, size))
            begin = beside[-1].read_to if beside else 0
            beside.append(await _beside(broker, load, range(begin, end), size))
            if not size.in_bucket:
                plain.append((await _plain_p99_ms(broker, size, 0), await _plain_p99_ms(broker, size, len(beside))))
    return [*_figures(alone, beside, size), *([_plain_figure(plain)] if plain else ())]


async def _fill(broker: BrokerProcess, size: Size) -> int:
    """Store the history; answers the offset behind it."""
    payload = random.Random(1).randbytes(size.message_bytes)
    count = size.history_bytes // size.message_bytes
    async with await DanubeClientBuilder().service_url(broker.endpoints.service_url).build() as client:
        builder = client.new_producer().with_topic(HISTORY).with_name("history")
        async with builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build() as producer:
            return await producer.send_many(payload for _ in range(count))


async def _cut(broker: BrokerProcess, size: Size) -> None:
    """Wait until all but the last journal file is in segments."""
    channel = GrpcCarrier(SystemClock()).connect(broker.endpoints.admin)
    try:
        async with asyncio.timeout(CUT_TIMEOUT_S):
            while await _segment_bytes(AdminPeer(channel)) < size.history_bytes - 2 * size.file_bytes:  # noqa: ASYNC110 - it is another process's work
                await asyncio.sleep(0.2)
    finally:
        await channel.close()


async def _segment_bytes(admin: AdminPeer) -> int:
    described = await admin.describe_broker()
    return described.storage.segment_file_bytes if described.storage else 0


async def _watched(broker: BrokerProcess, load: LiveLoad, size: Size) -> Round:
    """One round of the live load, with an eye on the broker's memory."""
    beside = run_plain_log(_beside_data(broker, "bystander"), BYSTANDER_PER_SECOND, size.round_s)
    bystander = asyncio.ensure_future(beside)
    running = asyncio.ensure_future(load.run(size.live_per_second, size.round_s))
    peak_bytes = broker.resident_bytes()
    while not running.done():
        await asyncio.wait([running], timeout=MEMORY_INTERVAL_S)
        peak_bytes = max(peak_bytes, broker.resident_bytes())
    return Round(await running, await bystander, peak_bytes)


async def _beside(broker: BrokerProcess, load: LiveLoad, reach: range, size: Size) -> Round:
    """One round of it while another process reads the history from the first offset of `reach` to its end."""
    _drop_cached(broker.data_dir)
    arguments = [broker.endpoints.service_url, HISTORY, str(reach.start), str(reach.stop), str(size.pace)]
    command = [sys.executable, str(PROGRAM), *arguments]
    reader = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if reader.stdin is None or reader.stdout is None or not await reader.stdout.readline():
        raise RuntimeError("the reader ended before it read anything")
    try:
        found = await _watched(broker, load, size)
    finally:
        reader.stdin.close()
        told, _ = await reader.communicate()
    read = json.loads(told)
    return replace(found, read_rate=read["bytes"] / read["elapsed_s"], read_to=int(read["at"]))


async def _plain_p99_ms(broker: BrokerProcess, size: Size, number: int) -> float:
    """Latency of a plain log; from the first round on, beside a plain reader of a part of the history."""
    _drop_cached(broker.data_dir)
    files = _segments(broker.data_dir)
    pace = (size.pace or FULL.pace) if number else 0
    first = max(0, number - 1) * len(files) // size.rounds
    path = _beside_data(broker, "plain log")
    written = await run_plain_log(path, size.live_per_second, size.round_s, pace=pace, files=files[first:])
    return percentile_ms(written.latencies_s, 99)


def _beside_data(broker: BrokerProcess, name: str) -> Path:
    """A file on the broker's disk that is not the broker's."""
    return broker.data_dir.with_name(name)


def _segments(data_dir: Path) -> list[Path]:
    """Segments of all topics, by name."""
    return sorted(data_dir.glob("segments/*/*.segment"))


def _drop_cached(data_dir: Path) -> None:
    """Have the system forget what it keeps of the segments in memory."""
    for path in _segments(data_dir):
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def _figures(alone: list[Round], beside: list[Round], size: Size) -> Iterator[Figure]:
    how = "consumed" if size.consumes else "streamed"
    name = f"{size.live_per_second:,} msg/s of 1 KiB, {how}, send to receipt"
    p50, p50_beside = (median([one.live.p50_ms for one in rounds]) for rounds in (alone, beside))
    p99, p99_beside = (median([one.live.p99_ms for one in rounds]) for rounds in (alone, beside))
    reader = f"beside a reader of {size.history_bytes >> 20:,} MiB"
    yield Figure(f"{name}: p50", p50, "ms", f"p99 {p99:.1f} ms: {_each(one.live.p99_ms for one in alone)}")
    yield Figure(f"{reader}: p50", p50_beside, "ms", f"{p50_beside / p50:.2f} x; p99 {p99_beside:.1f} ms")
    yield Figure(f"{reader}: p99", p99_beside - p99, "ms more", _each(one.live.p99_ms for one in beside))
    yield _answered_figure(alone, beside)
    rate = median([one.read_rate for one in beside])
    yield Figure("what the reader got", rate / 1e6, "MB/s", f"paced to {size.pace / 1e6:,.0f}" if size.pace else "")
    before, after = alone[0].peak_bytes, max(one.peak_bytes for one in beside)
    yield Figure("broker memory, most of all rounds", after / 1e6, "MB", f"{before / 1e6:,.0f} before the first reader")


def _answered_figure(alone: list[Round], beside: list[Round]) -> Figure:
    """The same, where the disk answered the bystander."""
    p99, p99_beside = (median([one.answered.p99_ms for one in rounds]) for rounds in (alone, beside))
    p50, p50_beside = (median([one.answered.p50_ms for one in rounds]) for rounds in (alone, beside))
    out, out_beside = (", ".join(f"{one.left_out:.1%}" for one in rounds) for rounds in (alone, beside))
    note = f"{p99:.1f} -> {p99_beside:.1f} ms, p50 {p50_beside / p50:.2f} x; left out {out_beside} after {out}"
    return Figure("  but for what waited while a bystander's sync did", p99_beside - p99, "ms more", note)


def _plain_figure(plain: list[tuple[float, float]]) -> Figure:
    alone, beside = zip(*plain, strict=True)
    more = f"{median(beside) - median(alone):.1f} ms more than alone: {_each(beside)} after {_each(alone)}"
    return Figure("a plain log beside a plain reader: p99", median(beside), "ms", more)


def _each(p99_ms: Iterable[float]) -> str:
    """Figures of each round, which show where the disk stood still."""
    return ", ".join(f"{ms:.0f}" for ms in p99_ms)


def main() -> None:
    """Run with another history, or another reader."""
    parser = argparse.ArgumentParser(prog="python -m bench.cold_reader", description=__doc__.partition("\n")[0])
    parser.add_argument("--gib", type=float, default=FULL.history_bytes / GIB, help="of the history [%(default)s]")
    parser.add_argument("--pace", type=float, default=FULL.pace / 1e6, help="MB/s of the reader, 0: all [%(default)s]")
    parser.add_argument("--live", type=int, default=FULL.live_per_second, help="messages a second [%(default)s]")
    parser.add_argument("--consume", action="store_true", help="acknowledge each of them with a call, as a consumer")
    parser.add_argument("--objects", action="store_true", help="in a bucket of versitygw's, on the same disk")
    parser.add_argument("--rounds", type=int, default=FULL.rounds, help="of each kind [%(default)s]")
    parser.add_argument("--seconds", type=float, default=FULL.round_s, help="of a round [%(default)s]")
    wanted = parser.parse_args()
    size = replace(
        FULL,
        history_bytes=round(wanted.gib * GIB),
        pace=round(wanted.pace * 1e6),
        live_per_second=wanted.live,
        consumes=wanted.consume,
        in_bucket=wanted.objects,
        rounds=wanted.rounds,
        round_s=wanted.seconds,
    )
    print(f"machine: {machine.describe()}")
    for figure in run(size):
        print(figure, flush=True)


if __name__ == "__main__":
    main()
