import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator

import pytest

from danube.client import (
    DanubeClient,
    DanubeClientBuilder,
    DispatchStrategy,
    Producer,
    ProducerOptions,
    UnrecoverableError,
)
from danube.model.errors import (
    AlreadyExistsError,
    BrokerUnreachableError,
    InvalidNameError,
    InvalidRequestError,
    LimitReachedError,
    MessageTooLargeError,
    TopicNotServedError,
    UnavailableError,
)
from danube.model.limits.broker import (
    CLIENT_HEALTH_INTERVAL_S,
    CLIENT_SENDS_IN_FLIGHT_MAX,
    CONNECT_TIMEOUT_S,
    MESSAGE_BYTES_MAX,
)
from danube.runtime.rng import SystemRng
from danube.testing.simulated.clock import SimClock, settle
from danube.testing.simulated.network import MemoryCarrier
from danube.wire import decode
from tests.unit.client.fake_broker import FakeBroker, serves

TOPIC = "/default/orders"


def new_producer(client: DanubeClient, options: ProducerOptions | None = None, partitions: int = 0) -> Producer:
    builder = client.new_producer().with_topic(TOPIC).with_name("p").with_partitions(partitions)
    return builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).with_options(options or ProducerOptions()).build()


async def test_send_answers_the_request_id_and_the_broker_has_the_message(
    client: DanubeClient, broker: FakeBroker, clock: SimClock
) -> None:
    producer = new_producer(client)
    await producer.create()
    sent = [await producer.send(b"one", {"k": "v"}), await producer.send(b"two")]
    assert sent == [2, 3]
    message = decode.received_message(broker.topics[TOPIC][0])
    assert (message.payload, message.attributes, message.producer_name) == (b"one", {"k": "v"}, "p")
    assert (message.topic, message.broker_addr, message.publish_time_ms) == (TOPIC, broker.url, clock.now_ms())


async def test_a_key_goes_along(client: DanubeClient, broker: FakeBroker) -> None:
    async with new_producer(client) as producer:
        await producer.send_with_key(b"x", None, "order-1")
    assert decode.send_message(broker.topics[TOPIC][0]).routing_key == "order-1"


async def test_partitions_are_attached_to_one_by_one_and_filled_in_turn(
    client: DanubeClient, broker: FakeBroker
) -> None:
    async with new_producer(client, partitions=3) as producer:
        for n in range(4):
            await producer.send(b"%d" % n)
    assert [broker.payloads(f"{TOPIC}-part-{n}") for n in range(3)] == [[b"0", b"3"], [b"1"], [b"2"]]
    assert decode.send_message(broker.topics[f"{TOPIC}-part-1"][0]).producer_name == "p-1"


async def test_a_closed_producer_is_not_created_again(client: DanubeClient, broker: FakeBroker) -> None:
    producer = new_producer(client)
    await producer.create()
    await producer.create()
    assert broker.calls.count("CreateProducer") == 1
    await producer.close()
    with pytest.raises(UnrecoverableError, match="build another one"):
        await producer.create()


async def test_one_key_stays_in_one_partition(client: DanubeClient, broker: FakeBroker) -> None:
    async with new_producer(client, partitions=4) as producer:
        for _ in range(5):
            await producer.send_with_key(b"x", None, "same")
    assert sorted(len(messages) for messages in broker.topics.values()) == [0, 0, 0, 5]


async def test_a_send_is_repeated_with_the_same_producer_while_the_broker_is_busy(
    client: DanubeClient, broker: FakeBroker, clock: SimClock
) -> None:
    producer = new_producer(client)
    await producer.create()
    broker.failures["SendMessage"].extend([UnavailableError("busy")] * 3)
    sending = asyncio.create_task(producer.send(b"x"))
    await clock.run_for(5)
    await sending
    assert (broker.calls.count("SendMessage"), broker.calls.count("CreateProducer")) == (4, 1)
    assert broker.payloads(TOPIC) == [b"x"]


async def test_after_five_repetitions_the_producer_is_created_anew(
    client: DanubeClient, broker: FakeBroker, clock: SimClock
) -> None:
    producer = new_producer(client)
    await producer.create()
    broker.failures["SendMessage"].extend([UnavailableError("busy")] * 6)
    sending = asyncio.create_task(producer.send(b"x"))
    await clock.run_for(5)
    await sending
    assert (broker.calls.count("SendMessage"), broker.calls.count("CreateProducer")) == (7, 2)


async def test_a_moved_topic_is_found_at_its_new_broker(
    client: DanubeClient, broker: FakeBroker, carrier: MemoryCarrier
) -> None:
    producer = new_producer(client)
    await producer.create()
    new_owner = FakeBroker(carrier, "memory:7000")
    await new_owner.start()
    broker.answers[TOPIC] = serves(new_owner.url)
    broker.failures["SendMessage"].append(TopicNotServedError("moved"))
    await producer.send(b"x")
    assert (broker.payloads(TOPIC), new_owner.payloads(TOPIC)) == ([], [b"x"])
    await producer.close()
    await new_owner.stop()


async def test_a_broker_that_stands_still_is_left_once_another_one_has_its_topic(
    broker: FakeBroker, carrier: MemoryCarrier, clock: SimClock
) -> None:
    other = FakeBroker(carrier, "memory:7000")
    await other.start()
    builder = DanubeClientBuilder().service_url(f"{broker.url},{other.url}").with_carrier(carrier)
    async with await builder.with_clock(clock, SystemRng(seed=7)).build() as client:
        producer = new_producer(client)
        await producer.create()
        broker.is_silent = True
        sending = asyncio.create_task(producer.send(b"x"))
        await clock.run_for(CLIENT_HEALTH_INTERVAL_S + CONNECT_TIMEOUT_S + 1)
        assert not sending.done()
        other.answers[TOPIC] = serves(other.url)
        await clock.run_for(CLIENT_HEALTH_INTERVAL_S + CONNECT_TIMEOUT_S + 1)
        await sending
        assert (broker.payloads(TOPIC), other.payloads(TOPIC)) == ([], [b"x"])
    await other.stop()


async def test_a_producer_id_that_a_restarted_broker_forgot_is_asked_for_again(
    client: DanubeClient, broker: FakeBroker
) -> None:
    producer = new_producer(client)
    await producer.create()
    broker.forget_members()
    await producer.send(b"x")
    assert broker.payloads(TOPIC) == [b"x"]


async def test_sends_survive_a_broker_that_comes_back_in_time(
    client: DanubeClient, broker: FakeBroker, clock: SimClock
) -> None:
    producer = new_producer(client, ProducerOptions(retry_total_s=60))
    await producer.create()
    await broker.stop()
    sending = [asyncio.create_task(producer.send(b"%d" % n)) for n in range(3)]
    await clock.run_for(20)
    await broker.start()
    await clock.run_for(10)
    await asyncio.gather(*sending)
    assert sorted(broker.payloads(TOPIC)) == [b"0", b"1", b"2"]


async def test_a_producer_that_is_moved_with_each_message_goes_on_while_they_are_stored(
    client: DanubeClient, broker: FakeBroker, clock: SimClock
) -> None:
    producer = new_producer(client)
    await producer.create()
    for number in range(20):
        broker.failures["SendMessage"].append(TopicNotServedError("moved"))
        sending = asyncio.create_task(producer.send(b"%d" % number))
        await clock.run_for(1)
        await sending
    assert broker.payloads(TOPIC) == [b"%d" % number for number in range(20)]


async def test_a_broker_that_stays_away_is_named_when_the_time_is_over(
    client: DanubeClient, broker: FakeBroker, clock: SimClock
) -> None:
    producer = new_producer(client, ProducerOptions(retry_total_s=60))
    await producer.create()
    await broker.stop()
    sending = asyncio.create_task(producer.send(b"x"))
    await clock.run_for(59)
    assert not sending.done()
    await clock.run_for(2)
    with pytest.raises(BrokerUnreachableError, match=r"no broker answers at http://memory:6650 .*check that it runs"):
        await sending


async def test_a_given_up_producer_tries_again_with_the_next_send(
    client: DanubeClient, broker: FakeBroker, clock: SimClock
) -> None:
    producer = new_producer(client)
    await producer.create()
    await broker.stop()
    first = asyncio.create_task(producer.send(b"lost"))
    await clock.run_for(61)
    assert isinstance(first.exception(), BrokerUnreachableError)
    await broker.start()
    await producer.send(b"next")
    assert broker.payloads(TOPIC) == [b"next"]


async def test_creating_gives_up_after_five_retries_by_default(
    client: DanubeClient, broker: FakeBroker, clock: SimClock
) -> None:
    await broker.stop()
    creating = asyncio.create_task(new_producer(client).create())
    await clock.run_for(10)
    with pytest.raises(BrokerUnreachableError, match="6 tries"):
        await creating


async def test_a_new_topic_in_a_cluster_is_looked_up_again(
    client: DanubeClient, broker: FakeBroker, clock: SimClock
) -> None:
    broker.failures["CreateProducer"].append(UnavailableError("topic metadata was created, redo the lookup"))
    producer = new_producer(client)
    creating = asyncio.create_task(producer.create())
    await clock.run_for(1)
    await creating
    assert broker.calls == ["TopicLookup", "CreateProducer", "TopicLookup", "CreateProducer"]


async def test_a_name_that_is_taken_is_unrecoverable_as_in_the_published_client(
    client: DanubeClient, broker: FakeBroker
) -> None:
    broker.failures["CreateProducer"].append(AlreadyExistsError("/default/orders is partitioned"))
    with pytest.raises(UnrecoverableError, match="is partitioned"):
        await new_producer(client).create()


async def test_a_message_no_consumer_could_receive_is_refused_here(client: DanubeClient, broker: FakeBroker) -> None:
    async with new_producer(client) as producer:
        with pytest.raises(MessageTooLargeError, match="send it in parts"):
            await producer.send(bytes(MESSAGE_BYTES_MAX))
        assert "SendMessage" not in broker.calls


async def test_a_limit_that_lasts_is_reported_instead_of_tried_for_ever(
    client: DanubeClient, broker: FakeBroker, clock: SimClock
) -> None:
    producer = new_producer(client)
    await producer.create()
    broker.failures["SendMessage"].extend([LimitReachedError("too large for this server")] * 20)
    sending = asyncio.create_task(producer.send(b"x"))
    await clock.run_for(30)
    with pytest.raises(LimitReachedError):
        await sending


async def test_a_refused_message_is_not_sent_twice(client: DanubeClient, broker: FakeBroker) -> None:
    async with new_producer(client) as producer:
        broker.failures["SendMessage"].append(InvalidRequestError("schema violation"))
        with pytest.raises(InvalidRequestError, match="schema violation"):
            await producer.send(b"x")
        assert broker.calls.count("SendMessage") == 1


async def test_behind_a_proxy_every_call_of_a_producer_names_the_broker(
    client: DanubeClient, broker: FakeBroker, clock: SimClock
) -> None:
    broker.answers[TOPIC] = serves(broker.url, broker_url="http://inner:6650", proxy=True)
    producer = new_producer(client)
    await producer.create()
    await producer.send(b"x")
    await clock.run_for(6)
    named = {method: metadata.get("x-danube-broker-url") for method, metadata in broker.metadata}
    inner = "http://inner:6650"
    assert named == {"TopicLookup": None, "CreateProducer": inner, "SendMessage": inner, "HealthCheck": inner}
    assert decode.received_message(broker.topics[TOPIC][0]).broker_addr == inner


async def test_however_many_sends_are_asked_for_at_once_a_bounded_number_is_on_its_way(
    client: DanubeClient, broker: FakeBroker
) -> None:
    async with new_producer(client) as producer:
        broker.held = deque()
        sending = [asyncio.create_task(producer.send(b"x")) for _ in range(CLIENT_SENDS_IN_FLIGHT_MAX + 50)]
        await settle()
        assert len(broker.held) == CLIENT_SENDS_IN_FLIGHT_MAX
        while broker.held:
            broker.held.popleft()()
            await settle()
        assert len(await asyncio.gather(*sending)) == CLIENT_SENDS_IN_FLIGHT_MAX + 50


async def test_closing_tells_the_sends_that_wait_for_a_broker(
    client: DanubeClient, broker: FakeBroker, clock: SimClock
) -> None:
    producer = new_producer(client, ProducerOptions(retry_total_s=60))
    await producer.create()
    await broker.stop()
    sending = asyncio.create_task(producer.send(b"x"))
    await settle()
    await producer.close()
    with pytest.raises(UnrecoverableError, match="closed"):
        await sending
    with pytest.raises(UnrecoverableError, match="closed"):
        await producer.send(b"y")


async def test_sending_before_create_says_what_to_do(client: DanubeClient, broker: FakeBroker) -> None:
    with pytest.raises(UnrecoverableError, match=r"call create\(\) first"):
        await new_producer(client).send(b"x")


async def test_a_wrong_name_is_refused_before_anything_is_asked(client: DanubeClient, broker: FakeBroker) -> None:
    producer = client.new_producer().with_topic("orders").with_name("p").build()
    with pytest.raises(InvalidNameError, match="/namespace_name/topic_name"):
        await producer.create()
    assert broker.calls == []


def test_a_builder_without_topic_or_name_is_refused(client: DanubeClient) -> None:
    with pytest.raises(ValueError, match="topic"):
        client.new_producer().with_name("p").build()
    with pytest.raises(ValueError, match="name"):
        client.new_producer().with_topic(TOPIC).build()


async def test_a_builder_can_be_used_again_for_another_producer(client: DanubeClient, broker: FakeBroker) -> None:
    builder = client.new_producer().with_topic(TOPIC)
    first, second = builder.with_name("a").build(), builder.with_name("b").build()
    async with first, second:
        await first.send(b"x")
        await second.send(b"y")
    assert [decode.send_message(message).producer_name for message in broker.topics[TOPIC]] == ["a", "b"]


async def test_send_many_has_a_bounded_number_in_flight_and_keeps_the_order(
    client: DanubeClient, broker: FakeBroker
) -> None:
    payloads = [b"%d" % n for n in range(10)]
    async with new_producer(client) as producer:
        broker.held = deque()
        sending = asyncio.create_task(producer.send_many(payloads, in_flight_max=4))
        while not sending.done():
            await settle()
            assert len(broker.held) <= 4
            if broker.held:
                broker.held.popleft()()
        assert await sending == 10
    assert broker.payloads(TOPIC) == payloads
    assert broker.unanswered_max == 4


async def test_send_many_takes_an_async_source_and_says_how_far_it_is(client: DanubeClient, broker: FakeBroker) -> None:
    async def source() -> AsyncIterator[bytes]:
        for n in range(3):
            await asyncio.sleep(0)
            yield b"%d" % n

    told: list[int] = []
    async with new_producer(client) as producer:
        assert await producer.send_many(source(), {"k": "v"}, on_sent=told.append) == 3
    assert told == [1, 2, 3]
    assert decode.received_message(broker.topics[TOPIC][2]).attributes == {"k": "v"}


async def test_send_many_stops_at_the_first_failure(client: DanubeClient, broker: FakeBroker) -> None:
    taken: list[bytes] = []

    def source() -> Iterator[bytes]:
        for n in range(1_000):
            taken.append(b"%d" % n)
            yield taken[-1]

    async with new_producer(client) as producer:
        broker.failures["SendMessage"].append(InvalidRequestError("no"))
        with pytest.raises(InvalidRequestError):
            await producer.send_many(source(), in_flight_max=4)
    assert len(taken) <= 8


async def test_send_many_raises_what_its_source_raises(client: DanubeClient, broker: FakeBroker) -> None:
    def source() -> Iterator[bytes]:
        yield b"x"
        raise OSError("the file is gone")

    async with new_producer(client) as producer:
        with pytest.raises(OSError, match="the file is gone"):
            await producer.send_many(source())
    assert broker.payloads(TOPIC) == [b"x"]


@pytest.mark.parametrize("in_flight_max", [0, CLIENT_SENDS_IN_FLIGHT_MAX + 1])
async def test_send_many_refuses_a_window_out_of_bounds(client: DanubeClient, in_flight_max: int) -> None:
    with pytest.raises(InvalidRequestError, match="in_flight_max"):
        await new_producer(client).send_many([], in_flight_max=in_flight_max)
