"""`send_many` in batches and `fetch`, against a whole broker in this process; streams that break on order."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path

import pytest

from danube.client import (
    DanubeClient,
    DanubeClientBuilder,
    DispatchStrategy,
    FetchFrom,
    FetchTime,
    Producer,
    ProducerOptions,
    StoredRange,
)
from danube.model.calls.stream import PublishAcknowledged, PublishBatch, PublishOpened, PublishRefused
from danube.model.errors import (
    BrokerUnreachableError,
    DanubeError,
    InternalError,
    InvalidRequestError,
    MessageTooLargeError,
    PreconditionFailedError,
    StorageUnavailableError,
    TopicNotFoundError,
    UnsupportedError,
)
from danube.model.limits.broker import (
    CALL_TIMEOUT_S,
    CLIENT_BATCH_BYTES,
    CLIENT_BATCHES_IN_FLIGHT_MAX,
    MESSAGE_BYTES_MAX,
)
from danube.model.topic import TopicName
from danube.rpc.carrier import Carrier, ServerStream, Service
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.rpc.http2.client.channel import Http2Channel
from danube.rpc.http2.client.stream import Http2ClientStream
from danube.runtime.clock import SystemClock
from danube.storage.batches.batch import read_header
from danube.testing.in_process_broker import Cell, running_broker
from danube.testing.patience import PATIENCE_S
from danube.testing.simulated.clock import SimClock, settle
from danube.testing.simulated.network import MemoryCarrier
from danube.wire import decode, encode
from tests.unit.client.fake_broker import FakeBroker

TOPIC = "/default/orders"
NAME = TopicName("default", "orders")


@pytest.fixture
async def cell(tmp_path: Path) -> AsyncIterator[Cell]:
    async with running_broker(tmp_path / "data") as cell:
        yield cell


@pytest.fixture
async def direct(cell: Cell) -> AsyncIterator[DanubeClient]:
    """A client of the broker in this process."""
    builder = DanubeClientBuilder().service_url(f"http://{cell.broker.addresses.broker}")
    async with await builder.with_carrier(cell.carrier).build() as client:
        yield client


class Streams:
    """The client's open streams, to be broken."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened: list[Http2ClientStream] = []
        self.paths: list[str] = []
        self.breaking = 0
        """So many of the next ones break as soon as they are opened."""
        original = Http2Channel.stream

        def stream(channel: Http2Channel, path: str, **options: object) -> object:
            made = original(channel, path, **options)  # type: ignore[arg-type]
            assert isinstance(made, Http2ClientStream)
            self.opened.append(made)
            self.paths.append(path)
            if self.breaking:
                self.breaking -= 1
                self.break_last()
            return made

        monkeypatch.setattr(Http2Channel, "stream", stream)

    def break_last_and(self, following: int) -> None:
        self.breaking = following
        self.break_last()

    def break_last(self) -> None:
        self.opened[-1].on_end(BrokerUnreachableError("cut by the test"))


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> Streams:
    return Streams(monkeypatch)


def reliable(client: DanubeClient, partitions: int = 0) -> Producer:
    builder = client.new_producer().with_topic(TOPIC).with_name("p").with_partitions(partitions)
    return builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()


async def fetched(client: DanubeClient, topic: str = TOPIC, **range_: object) -> list[tuple[int, bytes]]:
    async with aclosing(client.fetch(topic, **range_)) as messages:  # type: ignore[arg-type]
        return [(message.msg_id.topic_offset, message.payload) async for message in messages]


def sequenced(payloads: Sequence[bytes]) -> list[tuple[int, bytes]]:
    return list(enumerate(payloads))


async def test_send_many_stores_all_in_order_and_fetch_reads_them(direct: DanubeClient) -> None:
    payloads = [b"%d" % n for n in range(100_000)]
    async with reliable(direct) as producer:
        assert await producer.send_many(payloads, {"k": "v"}) == 100_000
    assert await fetched(direct) == sequenced(payloads)


async def test_consumers_of_single_messages_get_what_send_many_sent(cell: Cell, direct: DanubeClient) -> None:
    async with reliable(direct) as producer:
        inbox = await cell.client.receive(await cell.client.subscribe(NAME))
        await producer.send_many([b"one", b"two"], {"k": "v"})
        got = await inbox.take(2)
    assert [(one.offset, one.payload, one.producer_name) for one in got] == [(0, b"one", "p"), (1, b"two", "p")]
    assert all(one.attributes == {"k": "v"} and one.broker_addr and one.publish_time_ms for one in got)


async def test_send_many_says_which_offsets_its_messages_got(direct: DanubeClient) -> None:
    stored: list[StoredRange] = []
    sent: list[int] = []
    async with reliable(direct) as producer:
        await producer.send(b"before")
        await producer.send_many([bytes(100)] * 5_000, on_stored=stored.append, on_sent=sent.append)
    assert [one.topic for one in stored] == [TOPIC] * len(stored)
    ends = [one.first_offset + one.count for one in stored]
    assert [one.first_offset for one in stored] == [1, *ends[:-1]]
    assert (ends[-1], sent[-1]) == (5_001, 5_000)
    assert 1 < len(stored) < 10


async def test_slow_source_is_sent_as_it_comes(direct: DanubeClient) -> None:
    stored = asyncio.Event()

    async def source() -> AsyncIterator[bytes]:
        for n in range(3):
            yield b"%d" % n
            async with asyncio.timeout(PATIENCE_S):
                await stored.wait()
            stored.clear()

    async with reliable(direct) as producer:
        assert await producer.send_many(source(), on_sent=lambda _: stored.set()) == 3


async def test_partitions_are_filled_in_turn_and_each_keeps_its_order(direct: DanubeClient) -> None:
    payloads = [b"%d" % n for n in range(3_000)]
    async with reliable(direct, partitions=3) as producer:
        assert await producer.send_many(payloads) == 3_000
    for n in range(3):
        assert await fetched(direct, f"{TOPIC}-part-{n}") == sequenced(payloads[n::3])


async def test_streams_may_break_any_number_of_times_while_batches_are_stored(
    direct: DanubeClient, streams: Streams
) -> None:
    stored = asyncio.Event()

    async def source() -> AsyncIterator[bytes]:
        for n in range(20):
            yield b"%d" % n
            async with asyncio.timeout(PATIENCE_S):
                await stored.wait()
            stored.clear()
            streams.break_last_and(1)

    builder = direct.new_producer().with_topic(TOPIC).with_name("p").with_options(ProducerOptions(base_backoff_ms=1))
    async with builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build() as producer:
        assert await producer.send_many(source(), on_sent=lambda _: stored.set()) == 20
    assert len(streams.opened) > 20


async def test_what_a_broken_stream_left_unacknowledged_is_sent_again_in_order(
    direct: DanubeClient, streams: Streams
) -> None:
    payloads = [b"%07d" % n + bytes(1_000) for n in range(30_000)]
    broken: list[int] = []

    def told(count: int) -> None:
        if len(broken) < 2 and len(streams.opened) > len(broken):
            broken.append(count)
            streams.break_last()

    async with reliable(direct) as producer:
        assert await producer.send_many(payloads, on_sent=told) == 30_000
    assert len(streams.opened) == 3
    assert 0 < broken[0] < broken[1] < 30_000
    firsts = list(dict.fromkeys(payload for _, payload in await fetched(direct)))
    assert firsts == payloads


async def test_broker_without_streams_is_no_place_for_deduplication_and_exclusive_producers(
    client: DanubeClient, broker: FakeBroker
) -> None:
    builder = client.new_producer().with_topic(TOPIC).with_name("p")
    builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).with_deduplication()
    async with builder.build() as producer:
        with pytest.raises(UnsupportedError, match="knows neither exclusive producers nor de-duplication"):
            await producer.send_many([b"one"])
    assert broker.payloads(TOPIC) == []


async def test_broker_without_streams_gets_single_messages_and_is_asked_once(
    client: DanubeClient, broker: FakeBroker, streams: Streams
) -> None:
    async with reliable(client) as producer:
        assert await producer.send_many([b"one", b"two"]) == 2
        assert await producer.send_many([b"three"]) == 1
    assert broker.payloads(TOPIC) == [b"one", b"two", b"three"]
    assert len(streams.opened) == 1
    with pytest.raises(UnsupportedError):
        await fetched(client)


async def test_non_reliable_topic_gets_single_messages(direct: DanubeClient, streams: Streams) -> None:
    async with direct.new_producer().with_topic(TOPIC).with_name("p").build() as producer:
        assert await producer.send_many([b"x"]) == 1
    assert streams.opened == []


async def test_too_large_a_payload_ends_it_and_those_before_are_stored(direct: DanubeClient) -> None:
    async with reliable(direct) as producer:
        with pytest.raises(MessageTooLargeError, match="send it in parts"):
            await producer.send_many([b"a", b"b", bytes(MESSAGE_BYTES_MAX), b"c"])
        assert await producer.send_many([bytes(CLIENT_BATCH_BYTES + 1), bytes(MESSAGE_BYTES_MAX - 200)]) == 2
    assert [len(payload) for _, payload in await fetched(direct)] == [
        1,
        1,
        CLIENT_BATCH_BYTES + 1,
        MESSAGE_BYTES_MAX - 200,
    ]


async def test_send_many_raises_what_its_source_raises_and_sends_what_came_before(direct: DanubeClient) -> None:
    async def source() -> AsyncIterator[bytes]:
        yield b"x"
        raise OSError("no more")

    async with reliable(direct) as producer:
        with pytest.raises(OSError, match="no more"):
            await producer.send_many(source())
    assert await fetched(direct) == [(0, b"x")]


async def test_payload_that_is_no_bytes_is_an_error_and_hangs_nothing(direct: DanubeClient) -> None:
    async with reliable(direct) as producer:
        with pytest.raises(TypeError):
            await producer.send_many(["text"])


async def test_cancelled_send_many_leaves_nothing_running(direct: DanubeClient) -> None:
    started = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        while True:
            started.set()
            yield b"x"
            await asyncio.sleep(0)

    async with reliable(direct) as producer:
        sending = asyncio.create_task(producer.send_many(endless()))
        await started.wait()
        sending.cancel()
        await asyncio.wait([sending])
        assert sending.cancelled()


async def test_nothing_to_send_is_no_error(direct: DanubeClient) -> None:
    async with reliable(direct) as producer:
        assert await producer.send_many([]) == 0


async def test_fetch_of_ranges_times_and_ends(cell: Cell, direct: DanubeClient) -> None:
    async with reliable(direct) as producer:
        await producer.send_many([b"%d" % n for n in range(10)])
        await producer.send(b"single")
    assert await fetched(direct, start=3, end=5) == [(3, b"3"), (4, b"4")]
    assert await fetched(direct, start=9) == [(9, b"9"), (10, b"single")]
    assert await fetched(direct, start=FetchFrom.LATEST) == []
    assert len(await fetched(direct, start=FetchTime(0))) == 11
    with pytest.raises(InvalidRequestError, match="0 to 11"):
        await fetched(direct, start=12)
    with pytest.raises(TopicNotFoundError):
        await fetched(direct, "/default/none")


async def test_following_fetch_sees_what_is_appended_later(direct: DanubeClient) -> None:
    async with reliable(direct) as producer, aclosing(direct.fetch(TOPIC, follow=True)) as messages:
        await producer.send(b"0")
        assert (await anext(messages)).payload == b"0"
        waiting = asyncio.ensure_future(anext(messages))
        await producer.send_many([b"1"])
        assert (await waiting).payload == b"1"


class Window:
    """A broker's end of a Publish stream that acknowledges only when the test says so."""

    def __init__(self, stream: ServerStream, window_bytes: int) -> None:
        self.stream = stream
        self.window_bytes = window_bytes
        self.batches: list[PublishBatch] = []

    def on_message(self, message: bytes) -> None:
        request = decode.publish_request(message)
        if isinstance(request, PublishBatch):
            self.batches.append(request)
        else:
            opened = PublishOpened(producer_id=1, window_bytes=self.window_bytes, batch_bytes_max=1 << 20)
            self.stream.write(encode.publish_opened(opened))

    def acknowledge(self, sequence: int, *base_offsets: int) -> None:
        self.stream.write(encode.publish_acknowledged(PublishAcknowledged(sequence, base_offsets)))

    def refuse(self, sequence: int, error: DanubeError) -> None:
        self.stream.write(encode.publish_refused(PublishRefused(sequence, error)))
        self.stream.finish()

    def on_half_close(self) -> None:
        return

    def on_ready(self) -> None:
        return

    def on_cancel(self) -> None:
        return


class WindowedBroker(FakeBroker):
    """A `FakeBroker` with Publish streams."""

    window_bytes = 1_000_000

    def __init__(self, carrier: Carrier, address: str) -> None:
        super().__init__(carrier, address)
        self.windows: list[Window] = []

    def _services(self) -> list[Service]:
        return [*super()._services(), Service("danube.stream.StreamService", streams={"Publish": self._window})]

    def _window(self, stream: ServerStream) -> Window:
        self.windows.append(Window(stream, self.window_bytes))
        return self.windows[-1]


@pytest.fixture
async def windowed(carrier: MemoryCarrier) -> AsyncIterator[WindowedBroker]:
    broker = WindowedBroker(carrier, "memory:6650")
    await broker.start()
    yield broker
    await broker.stop()


async def test_no_more_than_the_window_is_on_its_way(windowed: WindowedBroker, client: DanubeClient) -> None:
    async with reliable(client) as producer:
        sending = asyncio.create_task(producer.send_many([bytes(100_000)] * 20))
        await settle()
        (window,) = windowed.windows
        sent = [len(batch.body) for batch in window.batches]
        assert 0 < sum(sent) <= windowed.window_bytes < sum(sent) + 300_000
        window.acknowledge(0, 0)
        await settle()
        assert len(window.batches) == len(sent) + 1
        window.refuse(1, InvalidRequestError("enough"))
        with pytest.raises(InvalidRequestError, match="enough"):
            await sending


async def test_many_small_batches_wait_too_and_are_gathered(windowed: WindowedBroker, client: DanubeClient) -> None:
    async def source() -> AsyncIterator[bytes]:
        for _ in range(10 * CLIENT_BATCHES_IN_FLIGHT_MAX):
            yield b"x"
            await asyncio.sleep(0)

    async with reliable(client) as producer:
        sending = asyncio.create_task(producer.send_many(source()))
        await settle()
        (window,) = windowed.windows
        assert len(window.batches) == CLIENT_BATCHES_IN_FLIGHT_MAX
        window.acknowledge(0, 0)
        await settle()
        counts = [read_header(batch.body).count for batch in window.batches]
        assert sum(counts) == 10 * CLIENT_BATCHES_IN_FLIGHT_MAX
        window.acknowledge(len(counts) - 1, *range(1, len(counts)))
        assert await sending == sum(counts)


async def test_batch_refused_for_now_is_sent_again_after_a_pause_with_all_after_it(
    windowed: WindowedBroker, client: DanubeClient, clock: SimClock
) -> None:
    async with reliable(client) as producer:
        sending = asyncio.create_task(producer.send_many([bytes(200_000)] * 4))
        await settle()
        first = windowed.windows[0]
        first.refuse(0, StorageUnavailableError("the disk is full"))
        await settle()
        assert len(windowed.windows) == 1
        await clock.run_for(1)
        again = windowed.windows[1]
        assert [batch.sequence for batch in again.batches] == [batch.sequence for batch in first.batches]
        again.acknowledge(3, 0, 1, 2, 3)
        assert await sending == 4


async def test_broker_that_acknowledges_nothing_for_long_is_asked_again(
    windowed: WindowedBroker, client: DanubeClient, clock: SimClock
) -> None:
    async with reliable(client) as producer:
        sending = asyncio.create_task(producer.send_many([b"x"]))
        await clock.run_for(2 * CALL_TIMEOUT_S)
        assert len(windowed.windows) > 1
        windowed.windows[-1].acknowledge(0, 0)
        assert await sending == 1


async def test_acknowledgement_of_what_was_never_sent_is_an_error(
    windowed: WindowedBroker, client: DanubeClient
) -> None:
    async with reliable(client) as producer:
        sending = asyncio.create_task(producer.send_many([b"x"]))
        await settle()
        windowed.windows[0].acknowledge(1, 0, 1)
        with pytest.raises(InternalError, match="not sent"):
            await sending


async def test_broker_without_streams_is_recognised_over_grpc_too() -> None:
    carrier = GrpcCarrier(SystemClock())
    old = FakeBroker(carrier, "127.0.0.1:0")
    await old.start()
    builder = DanubeClientBuilder().service_url(old.url).with_carrier(carrier)
    async with await builder.build() as client, reliable(client) as producer:
        assert await producer.send_many([b"one", b"two"], in_flight_max=1) == 2
    assert old.payloads(TOPIC) == [b"one", b"two"]
    await old.stop()


async def test_bounds_say_what_is_there_and_where_times_are(direct: DanubeClient) -> None:
    async with reliable(direct) as producer:
        empty = await direct.bounds(TOPIC, [0])
        await producer.send_many([b"0", b"1", b"2"])
    (batches,) = [one async for one in direct.fetch_batches(TOPIC, start=0, end=3)]
    appended_ms = batches[-1].append_time_ms
    bounds = await direct.bounds(TOPIC, [0, appended_ms + 1])
    assert (empty.start_offset, empty.end_offset, empty.offsets) == (0, 0, (0,))
    assert (bounds.start_offset, bounds.end_offset, bounds.offsets) == (0, 3, (0, 3))
    assert bounds.topic_id == empty.topic_id


async def test_bounds_of_a_topic_that_was_created_again_have_another_id(cell: Cell, direct: DanubeClient) -> None:
    async with reliable(direct) as producer:
        await producer.send_many([b"0"])
    before = await direct.bounds(TOPIC)
    await cell.admin.delete_topic(NAME)
    with pytest.raises(TopicNotFoundError):
        await direct.bounds(TOPIC)
    async with reliable(direct):
        after = await direct.bounds(TOPIC)
    assert (before.topic_id != after.topic_id, after.end_offset) == (True, 0)


async def test_bounds_and_batches_of_a_topic_that_keeps_nothing_are_refused(direct: DanubeClient) -> None:
    async with direct.new_producer().with_topic(TOPIC).with_name("p").build():
        with pytest.raises(PreconditionFailedError, match="not reliable"):
            await direct.bounds(TOPIC)


async def test_whole_batches_come_with_the_range_that_is_meant(direct: DanubeClient) -> None:
    async with reliable(direct) as producer:
        await producer.send_many([b"%d" % n for n in range(10)])
    answers = [one async for one in direct.fetch_batches(TOPIC, start=3, end=7)]
    ranges = [(batch.base_offset + batch.first, batch.base_offset + batch.end) for one in answers for batch in one]
    assert (ranges[0][0], ranges[-1][1]) == (3, 7)


async def test_partitions_are_those_behind_a_name(direct: DanubeClient) -> None:
    assert await direct.partitions(TOPIC) == ()
    async with direct.new_producer().with_topic(TOPIC).with_name("p").with_partitions(2).build():
        assert await direct.partitions(TOPIC) == (f"{TOPIC}-part-0", f"{TOPIC}-part-1")
        assert await direct.partitions(f"{TOPIC}-part-1") == (f"{TOPIC}-part-1",)
