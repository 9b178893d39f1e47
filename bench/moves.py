"""Planned moves of topics between brokers with disks of their own, under load.

Three broker processes, Raft among them. Topics of a few sizes are moved back and forth between two of the brokers. A
producer sends to the topic all the time, one message after the other: the pause of a move is the longest time between
two of its acknowledgements around the moment at which the other broker has the topic. On each of the two brokers there
is a live load of another topic; its latency during the moves is compared with that beside the producer alone, and
without both. At the end each topic is read as a whole: what was acknowledged is there, in order, and no offset is
missing.

Few moves are made with the published client as producer, if it is installed: it tells its longest gap itself.
"""

import asyncio
import json
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from bench.live import Arrival, LiveLoad, latency_of, live_load
from bench.result import Figure, percentile_ms
from bench.wheel import WHEEL_PYTHON
from danube.client import DanubeClient, DanubeClientBuilder, DispatchStrategy, Producer
from danube.model.calls.client import LookupKind
from danube.model.errors import DanubeError
from danube.model.limits.broker import MIB
from danube.model.plans.plan import Effect
from danube.model.topic import TopicName
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.runtime.clock import SystemClock
from danube.testing.peers.admin import AdminPeer
from danube.testing.peers.client import Peer
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.broker_cluster import BrokerCluster

PROGRAM = Path(__file__).with_name("moves_wheel_program.py")
FILL_BYTES = 64 << 10
LIVE_PER_SECOND = 500
MOVE_TIMEOUT_S = 300.0
HANDOVER_S = 1.0
"""The pause of a move ends within this time before the topic is seen at the other broker, or after it."""
SETTLE_S = 1.0
"""Before a move and after it, while the producer sends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Topics of one size, and the moves of each."""

    name: str
    size_bytes: int
    moves: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Size of the workload."""

    kinds: tuple[Kind, ...] = (
        Kind(name="10 MB", size_bytes=10_000_000, moves=36),
        Kind(name="100 MB", size_bytes=100_000_000, moves=10),
        Kind(name="1 GB", size_bytes=1_000_000_000, moves=4),
    )
    live_s: float = 20.0
    wheel_moves: int = 5


QUICK = Size(
    kinds=(
        Kind(name="1 MB", size_bytes=1_000_000, moves=4),
        Kind(name="20 MB", size_bytes=20_000_000, moves=2),
    ),
    live_s=3.0,
    wheel_moves=2,
)


@dataclass(slots=True)
class Moved:
    """Result of the moves of one kind."""

    pauses_s: list[float] = field(default_factory=list)
    """Of each move, for our client."""
    gaps_s: list[float] = field(default_factory=list)
    """The longest times between two acknowledgements before that, while the log was copied."""
    took_s: list[float] = field(default_factory=list)
    unmoved: list[Arrival] = field(default_factory=list)
    """Of the live loads after the moves, while the producer still sent."""
    arrivals: list[Arrival] = field(default_factory=list)
    """Of the live loads, while this kind was moved."""


def run(size: Size | None = None) -> Iterator[Figure]:
    """Move, and compare."""
    wanted = size or Size()
    with tempfile.TemporaryDirectory() as folder, BrokerCluster(Path(folder)) as cluster:
        yield from asyncio.run(_measure(cluster.brokers, wanted))


def run_quick() -> Iterator[Figure]:
    """See that it works, in seconds."""
    yield from run(QUICK)


async def _measure(brokers: Sequence[BrokerProcess], size: Size) -> list[Figure]:
    async with AsyncExitStack() as parts:
        url = brokers[0].endpoints.service_url
        client = await parts.enter_async_context(await DanubeClientBuilder().service_url(url).build())
        mover = await parts.enter_async_context(_mover(brokers[:2]))
        lives = []
        for number in range(2):
            topic = f"/default/live-{number}"
            lives.append(await parts.enter_async_context(live_load(url, topic)))
            await mover.place(TopicName.parse(topic), number)
        before = await _live(lives, size.live_s)
        figures, pauses_s = [*_latency("live alone", before)], list[float]()
        for kind in size.kinds:
            moved = await _move(client, mover, lives, kind, size.live_s)
            pauses_s += moved.pauses_s
            figures += _figures(kind, moved)
        figures += _latency("live alone again", await _live(lives, size.live_s))
        figures.append(Figure(f"{len(pauses_s)} moves: pause p50", percentile_ms(pauses_s, 50), "ms", "our client"))
        figures.append(Figure(f"{len(pauses_s)} moves: pause p99", percentile_ms(pauses_s, 99), "ms", "our client"))
        if size.wheel_moves and WHEEL_PYTHON.exists():
            gaps_s = await _wheel(url, mover, size.wheel_moves)
            figures.append(Figure("danube-client 0.5.0: longest gap, median", percentile_ms(gaps_s, 50), "ms"))
            figures.append(Figure("danube-client 0.5.0: longest gap, worst", max(gaps_s) * 1e3, "ms"))
        return figures


async def _live(lives: Sequence[LiveLoad], seconds: float) -> list[Arrival]:
    """Both loads at once."""
    rounds = await asyncio.gather(*(live.run(LIVE_PER_SECOND, seconds) for live in lives))
    return [each for one in rounds for each in one]


async def _move(client: DanubeClient, mover: "_Mover", lives: Sequence[LiveLoad], kind: Kind, live_s: float) -> Moved:
    topic, moved = TopicName("default", "moved-" + kind.name.replace(" ", "-")), Moved()
    builder = client.new_producer().with_topic(str(topic)).with_name("filler")
    producer = builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
    await producer.create()
    await mover.place(topic, 0)
    await producer.send_many(_filling(kind.size_bytes))
    sender = _Sender(producer, await producer.send(b"first"))
    ending, live_ends = asyncio.Event(), asyncio.Event()
    sending = asyncio.ensure_future(sender.run(ending))
    living = asyncio.ensure_future(_live_until(lives, live_ends))
    for number in range(kind.moves):
        await asyncio.sleep(SETTLE_S)
        begun_s = time.monotonic()
        await mover.move(topic, (number + 1) % 2)
        ended_s = time.monotonic()
        moved.took_s.append(ended_s - begun_s)
        await asyncio.sleep(SETTLE_S)
        handed_over_s = max(begun_s, ended_s - HANDOVER_S)
        moved.gaps_s.append(sender.longest_gap_s(begun_s, handed_over_s))
        moved.pauses_s.append(sender.longest_gap_s(handed_over_s, time.monotonic()))
    live_ends.set()
    moved.arrivals += await living
    moved.unmoved += await _live(lives, live_s)
    ending.set()
    await sending
    await producer.close()
    await _check(client, topic, sender)
    return moved


async def _live_until(lives: Sequence[LiveLoad], ends: asyncio.Event) -> list[Arrival]:
    """Loads in rounds of a second, until they are to end."""
    arrivals: list[Arrival] = []
    while not ends.is_set():
        arrivals += await _live(lives, 1.0)
    return arrivals


class _Sender:
    """Sends one message after the other, and remembers when each was acknowledged, and under which offset."""

    def __init__(self, producer: Producer, offset: int) -> None:
        self._producer = producer
        self.acknowledged: dict[bytes, int] = {b"first": offset}
        self._times_s = [time.monotonic()]

    async def run(self, ending: asyncio.Event) -> None:
        number = 0
        while not ending.is_set():
            payload = b"sent %d" % number
            self.acknowledged[payload] = await self._producer.send(payload)
            self._times_s.append(time.monotonic())
            number += 1
            await asyncio.sleep(0.002)

    def longest_gap_s(self, from_s: float, to_s: float) -> float:
        """Longest time between two acknowledgements, of those of which the second came between these times."""
        gaps_s = (after - before for before, after in pairwise(self._times_s) if from_s <= after <= to_s)
        return max(gaps_s, default=0.0)


async def _check(client: DanubeClient, topic: TopicName, sender: _Sender) -> None:
    """Raise AssertionError unless all that was acknowledged is there, and no offset is missing."""
    left, expected = dict(sender.acknowledged), 0
    last = -1
    async for message in client.fetch(str(topic)):
        if message.msg_id.topic_offset != expected:
            raise AssertionError(f"{topic}: offset {message.msg_id.topic_offset} comes where {expected} was expected")
        expected += 1
        if message.payload.startswith(b"sent "):
            number = int(message.payload[5:])
            if number < last:
                raise AssertionError(f"{topic}: message {number} comes after {last}")
            last = number
        left.pop(message.payload, None)
    if left:
        raise AssertionError(f"{topic}: {len(left)} acknowledged messages are lost, such as {min(left)!r}")


async def _filling(size_bytes: int) -> AsyncIterator[bytes]:
    content = bytes(range(256)) * (FILL_BYTES // 256)
    for _ in range(size_bytes // FILL_BYTES):
        yield content


class _Mover:
    """Moves topics between two brokers, by plans."""

    def __init__(self, admins: Sequence[AdminPeer], peers: Sequence[Peer], ids: Sequence[str]) -> None:
        self._admins = admins
        self._peers = peers
        self._ids = ids

    async def place(self, topic: TopicName, broker: int) -> None:
        """Have this broker serve the topic, wherever it is."""
        async with asyncio.timeout(MOVE_TIMEOUT_S):
            while not await self._is_at(topic, broker):
                with suppress(DanubeError):  # it is not there yet, or moves already
                    await self._ask(topic, broker)
                await asyncio.sleep(0.2)

    async def move(self, topic: TopicName, broker: int) -> None:
        """Move the topic to this broker, from the other one."""
        await self._ask(topic, broker)
        async with asyncio.timeout(MOVE_TIMEOUT_S):
            while not await self._is_at(topic, broker):  # noqa: ASYNC110 - the other broker has no event here
                await asyncio.sleep(0.01)

    async def _ask(self, topic: TopicName, broker: int) -> None:
        plan = await self._admins[0].plan(
            "unload_topic", effect=Effect.MOVE, topic=str(topic), broker_id=self._ids[broker]
        )
        await self._admins[0].apply(plan)

    async def _is_at(self, topic: TopicName, broker: int) -> bool:
        try:
            return (await self._peers[broker].lookup(topic)).kind is LookupKind.CONNECT
        except DanubeError:
            return False


@asynccontextmanager
async def _mover(brokers: Sequence[BrokerProcess]) -> AsyncIterator[_Mover]:
    async with AsyncExitStack() as parts:
        carrier = GrpcCarrier(SystemClock())
        admins = [AdminPeer(carrier.connect(each.endpoints.admin)) for each in brokers]
        peers = [Peer(carrier.connect(each.endpoints.broker)) for each in brokers]
        for each in (*admins, *peers):
            parts.push_async_callback(each.channel.close)
        yield _Mover(admins, peers, [(await each.describe_broker()).info.broker_id for each in admins])


async def _wheel(url: str, mover: _Mover, moves: int) -> list[float]:
    """Longest gap of the published client at each move of a small topic."""
    topic = TopicName("default", "moved-wheel")
    program = subprocess.Popen(  # noqa: ASYNC220 - a moment, once
        [str(WHEEL_PYTHON), "-I", str(PROGRAM), url, str(topic)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdin is not None and program.stdout is not None
    program.stdout.readline()
    await mover.place(topic, 0)
    gaps_s = []
    for number in range(moves):
        await asyncio.sleep(SETTLE_S)
        print("begin", file=program.stdin, flush=True)
        await mover.move(topic, (number + 1) % 2)
        await asyncio.sleep(8)
        print("end", file=program.stdin, flush=True)
        gaps_s.append(json.loads(await asyncio.to_thread(program.stdout.readline)))
    program.stdin.close()
    program.wait(timeout=30)
    return gaps_s


def _figures(kind: Kind, moved: Moved) -> list[Figure]:
    name = f"{kind.moves} moves of {kind.name}"
    rate = kind.size_bytes / MIB / (sum(moved.took_s) / len(moved.took_s))
    return [
        Figure(f"{name}: pause p50", percentile_ms(moved.pauses_s, 50), "ms", "our client"),
        Figure(f"{name}: pause, worst", max(moved.pauses_s) * 1e3, "ms", f"each move {rate:.0f} MiB/s"),
        Figure(f"{name}: longest gap while copied, worst", max(moved.gaps_s) * 1e3, "ms", "our client"),
        *_latency(f"{name}: live beside", moved.arrivals),
        *_latency(f"{kind.name}, no move: live beside the producer", moved.unmoved),
    ]


def _latency(name: str, arrivals: Sequence[Arrival]) -> list[Figure]:
    found = latency_of(arrivals)
    return [Figure(f"{name}, p50", found.p50_ms, "ms"), Figure(f"{name}, p99", found.p99_ms, "ms")]
