import asyncio

import pytest

from danube.client import Consumer, ConsumerOptions, DanubeClient, DanubeError, Message, SubType, UnrecoverableError
from danube.model.calls.client import HealthStatus, OutgoingMessage, ReceivedMessage
from danube.model.errors import (
    AcknowledgeError,
    BrokerUnreachableError,
    ConsumerNotFoundError,
    InternalError,
    InvalidRequestError,
    NotPermittedError,
    SubscriptionBusyError,
    TopicNotFoundError,
    TopicNotServedError,
    UnavailableError,
)
from danube.model.limits.broker import (
    CLIENT_ACKS_IN_FLIGHT_MAX,
    CLIENT_PARTITIONS_INTERVAL_S,
    CLIENT_RECEIVE_MESSAGES_MAX,
)
from danube.testing.patience import PATIENCE_S
from danube.testing.simulated.clock import SimClock, settle
from danube.testing.simulated.network import MemoryCarrier
from danube.wire import encode
from tests.unit.client.fake_broker import FakeBroker, serves

TOPIC = "/default/orders"


def publish(broker: FakeBroker, *payloads: bytes, topic: str = TOPIC) -> None:
    """Put messages into a topic, as any producer would."""
    messages = broker.topics.setdefault(topic, [])
    for payload in payloads:
        outgoing = OutgoingMessage(len(messages) + 2, 99, topic, broker.url, payload, 1_000, "p", {"k": "v"})
        messages.append(encode.send_message(outgoing))
    broker.pump()


def new_consumer(client: DanubeClient, options: ConsumerOptions | None = None) -> Consumer:
    builder = client.new_consumer().with_topic(TOPIC).with_consumer_name("c").with_subscription("s")
    return builder.with_subscription_type(SubType.EXCLUSIVE).with_options(options or ConsumerOptions()).build()


async def subscribed(client: DanubeClient, broker: FakeBroker) -> tuple[Consumer, asyncio.Queue[Message]]:
    broker.topics.setdefault(TOPIC, [])
    consumer = new_consumer(client)
    await consumer.subscribe()
    return consumer, await consumer.receive()


async def subscribed_to_partitions(client: DanubeClient) -> tuple[Consumer, asyncio.Queue[Message]]:
    consumer = new_consumer(client)
    await consumer.subscribe()
    return consumer, await consumer.receive()


async def take(queue: asyncio.Queue[Message], count: int) -> list[bytes]:
    async with asyncio.timeout(PATIENCE_S):
        return [(await queue.get()).payload for _ in range(count)]


async def test_a_received_message_reads_like_a_stream_message(client: DanubeClient, broker: FakeBroker) -> None:
    _, queue = await subscribed(client, broker)
    publish(broker, b"zero", b"one")
    await queue.get()
    message = await queue.get()
    assert (message.payload, message.msg_id.topic_name, message.msg_id.topic_offset) == (b"one", TOPIC, 1)
    assert (message.request_id, message.producer_name, message.publish_time) == (3, "p", 1_000)
    assert (dict(message.attributes), message.routing_key, message.subscription_name) == ({"k": "v"}, "", "")
    assert (message.schema_id, message.schema_version, message.HasField("routing_key")) == (0, 0, False)


async def test_subscribing_to_an_unknown_topic_says_how_it_comes_to_be(
    client: DanubeClient, broker: FakeBroker
) -> None:
    with pytest.raises(TopicNotFoundError, match="create it by producing"):
        await new_consumer(client).subscribe()
    assert "Subscribe" not in broker.calls


async def test_a_partition_that_comes_later_is_joined_and_its_messages_are_acknowledged_there(
    client: DanubeClient, broker: FakeBroker, clock: SimClock
) -> None:
    broker.topics[f"{TOPIC}-part-0"] = []
    _, queue = await subscribed_to_partitions(client)
    publish(broker, b"new", topic=f"{TOPIC}-part-1")
    broker.failures["TopicPartitions"].append(UnavailableError("not now"))
    broker.failures["Subscribe"].append(InvalidRequestError("refused by order"))
    await clock.run_for(3 * CLIENT_PARTITIONS_INTERVAL_S)
    assert await take(queue, 1) == [b"new"]
    publish(broker, b"newer", topic=f"{TOPIC}-part-1")
    assert await take(queue, 1) == [b"newer"]


async def test_a_partition_that_comes_before_the_application_receives_is_received_from(
    client: DanubeClient, broker: FakeBroker, clock: SimClock
) -> None:
    broker.topics[f"{TOPIC}-part-0"] = []
    consumer = new_consumer(client)
    await consumer.subscribe()
    publish(broker, b"new", topic=f"{TOPIC}-part-1")
    await clock.run_for(CLIENT_PARTITIONS_INTERVAL_S)
    queue = await consumer.receive()
    async with asyncio.timeout(PATIENCE_S):
        message = await queue.get()
        await consumer.ack(message)
    assert broker.subscriptions[f"{TOPIC}-part-1", "s"].acknowledged == {0}


async def test_a_plain_topic_is_not_looked_at_for_partitions(
    client: DanubeClient, broker: FakeBroker, clock: SimClock
) -> None:
    await subscribed(client, broker)
    await clock.run_for(3 * CLIENT_PARTITIONS_INTERVAL_S)
    assert broker.calls.count("TopicPartitions") == 1


async def test_all_partitions_are_received_from_and_acknowledged_where_they_came_from(
    client: DanubeClient, broker: FakeBroker
) -> None:
    for n in range(3):
        publish(broker, b"%d" % n, topic=f"{TOPIC}-part-{n}")
    consumer, received = new_consumer(client), set()
    await consumer.subscribe()
    queue = await consumer.receive()
    for _ in range(3):
        message = await queue.get()
        received.add(message.payload)
        await consumer.ack(message)
    assert received == {b"0", b"1", b"2"}
    assert [broker.subscriptions[f"{TOPIC}-part-{n}", "s"].acknowledged for n in range(3)] == [{0}, {0}, {0}]


async def test_async_for_ends_when_the_consumer_is_closed(client: DanubeClient, broker: FakeBroker) -> None:
    publish(broker, b"a", b"b")
    received = []
    async with new_consumer(client) as consumer:
        async for message in consumer:
            received.append(message.payload)
            await consumer.ack(message)
            if len(received) == 2:
                await consumer.close()
    assert received == [b"a", b"b"]


async def test_a_loop_that_waits_is_ended_by_closing(client: DanubeClient, broker: FakeBroker) -> None:
    consumer, _ = await subscribed(client, broker)
    waiting = asyncio.create_task(anext(consumer, None))
    await settle()
    await consumer.close()
    assert await waiting is None


async def test_a_nack_carries_its_delay_and_reason_and_the_message_comes_again(
    client: DanubeClient, broker: FakeBroker
) -> None:
    consumer, queue = await subscribed(client, broker)
    publish(broker, b"x")
    await consumer.nack(await queue.get(), 1_500, "not now")
    assert broker.subscriptions[TOPIC, "s"].nacks == [(0, 1.5, "not now")]
    assert await take(queue, 1) == [b"x"]


async def test_the_queue_holds_a_bounded_number_and_the_rest_waits_at_the_broker(
    client: DanubeClient, broker: FakeBroker
) -> None:
    _, queue = await subscribed(client, broker)
    payloads = [b"%04d" % n * 500 for n in range(3_000)]
    publish(broker, *payloads)
    await settle()
    assert queue.qsize() == CLIENT_RECEIVE_MESSAGES_MAX
    assert len(broker.subscriptions[TOPIC, "s"].sent) < 3_000
    assert await take(queue, 3_000) == payloads


async def test_what_was_not_acknowledged_comes_again_after_a_restart(
    client: DanubeClient, broker: FakeBroker, clock: SimClock
) -> None:
    consumer, queue = await subscribed(client, broker)
    publish(broker, b"done", b"open")
    await consumer.ack(await queue.get())
    assert (await queue.get()).payload == b"open"
    await broker.stop()
    broker.forget_members()
    await clock.run_for(20)
    await broker.start()
    await clock.run_for(10)
    assert await take(queue, 1) == [b"open"]


async def test_a_stream_that_ends_is_opened_again_on_a_new_subscribe(client: DanubeClient, broker: FakeBroker) -> None:
    consumer, queue = await subscribed(client, broker)
    await settle()
    for stream in list(broker.streams.values()):
        stream.stream.finish()
    await settle()
    publish(broker, b"x")
    assert await take(queue, 1) == [b"x"]
    assert broker.calls.count("Subscribe") == 2
    await consumer.close()


async def test_a_stream_that_always_fails_is_not_opened_in_a_hot_loop(
    client: DanubeClient, broker: FakeBroker, clock: SimClock
) -> None:
    broker.topics[TOPIC] = []
    broker.failures["ReceiveMessages"].extend([ConsumerNotFoundError("no such consumer")] * 1_000)
    await (await subscribed(client, broker))[0].receive()
    await clock.run_for(60)
    assert 8 <= broker.calls.count("ReceiveMessages") <= 40


async def test_a_consumer_id_that_is_unknown_is_subscribed_anew(client: DanubeClient, broker: FakeBroker) -> None:
    consumer = new_consumer(client)
    publish(broker, b"x")
    await consumer.subscribe()
    broker.forget_members()
    assert await take(await consumer.receive(), 1) == [b"x"]
    assert broker.calls.count("Subscribe") == 2


async def test_told_to_close_the_consumer_keeps_what_it_holds_and_goes_to_the_new_broker(
    client: DanubeClient, broker: FakeBroker, carrier: MemoryCarrier, clock: SimClock
) -> None:
    consumer, queue = await subscribed(client, broker)
    publish(broker, b"old")
    new_owner = FakeBroker(carrier, "memory:7000")
    await new_owner.start()
    publish(new_owner, b"old", b"new")
    broker.answers[TOPIC] = serves(new_owner.url)
    broker.health = dict.fromkeys(broker.consumers, HealthStatus.CLOSE)
    await clock.run_for(5.5)
    for stream in list(broker.streams.values()):
        stream.stream.finish()
    await settle()
    assert await take(queue, 3) == [b"old", b"old", b"new"]
    await consumer.close()
    await new_owner.stop()


async def test_told_to_close_an_idle_stream_that_nobody_ends_is_left_after_a_second(
    client: DanubeClient, broker: FakeBroker, clock: SimClock
) -> None:
    await subscribed(client, broker)
    broker.health = dict.fromkeys(broker.consumers, HealthStatus.CLOSE)
    await clock.run_for(5.5)
    assert broker.calls.count("Subscribe") == 1
    await clock.run_for(1.0)
    assert broker.calls.count("Subscribe") == 2
    assert broker.calls.count("ReceiveMessages") == 2


async def test_a_failing_health_check_is_asked_again(client: DanubeClient, broker: FakeBroker, clock: SimClock) -> None:
    await subscribed(client, broker)
    broker.failures["HealthCheck"].extend([InternalError("a fault"), UnavailableError("busy")])
    await clock.run_for(11)
    broker.health = dict.fromkeys(broker.consumers, HealthStatus.CLOSE)
    await clock.run_for(6)
    assert broker.calls.count("HealthCheck") == 3
    assert broker.calls.count("Subscribe") == 2


async def test_a_broker_that_stays_away_ends_the_queue_with_its_name(
    client: DanubeClient, broker: FakeBroker, clock: SimClock
) -> None:
    publish(broker, b"left")
    consumer = new_consumer(client, ConsumerOptions(retry_total_s=30))
    await consumer.subscribe()
    queue = await consumer.receive()
    await settle()
    await broker.stop()
    await clock.run_for(32)
    assert (await queue.get()).payload == b"left"
    for _ in range(2):
        with pytest.raises(BrokerUnreachableError, match="no broker answers at http://memory:6650"):
            await queue.get()
    with pytest.raises(BrokerUnreachableError):
        await anext(consumer)


async def test_a_consumer_whose_stream_breaks_every_second_goes_on_while_messages_arrive(
    client: DanubeClient, broker: FakeBroker, clock: SimClock
) -> None:
    publish(broker)
    consumer = new_consumer(client, ConsumerOptions(retry_total_s=3))
    await consumer.subscribe()
    queue = await consumer.receive()
    for number in range(20):
        publish(broker, b"%d" % number)
        await clock.run_for(1)
        assert queue.get_nowait().payload == b"%d" % number
        broker.subscriptions[TOPIC, "s"].acknowledged.add(number)
        broker.end_streams()


async def test_a_consumer_whose_stream_breaks_every_second_goes_on_while_it_acknowledges(
    client: DanubeClient, broker: FakeBroker, clock: SimClock
) -> None:
    publish(broker, *[b"%d" % number for number in range(20)])
    consumer = new_consumer(client, ConsumerOptions(retry_total_s=3))
    await consumer.subscribe()
    queue = await consumer.receive()
    messages = [await queue.get() for _ in range(20)]
    broker.subscriptions[TOPIC, "s"].acknowledged.update(range(20))
    for message in messages:
        broker.end_streams()
        await clock.run_for(1)
        await consumer.ack(message)


async def test_a_consumer_whose_stream_breaks_every_second_and_brings_nothing_gives_up(
    client: DanubeClient, broker: FakeBroker, clock: SimClock
) -> None:
    publish(broker)
    consumer = new_consumer(client, ConsumerOptions(retry_total_s=3))
    await consumer.subscribe()
    queue = await consumer.receive()
    for _ in range(8):
        await clock.run_for(1)
        broker.end_streams()
    await clock.run_for(1)
    with pytest.raises(BrokerUnreachableError, match="ends each stream at once"):
        queue.get_nowait()


async def test_a_consumer_outlives_a_broker_that_is_away_for_minutes_by_default(
    client: DanubeClient, broker: FakeBroker, clock: SimClock
) -> None:
    _, queue = await subscribed(client, broker)
    await broker.stop()
    await clock.run_for(300)
    await broker.start()
    publish(broker, b"x")
    await clock.run_for(10)
    assert await take(queue, 1) == [b"x"]


async def test_a_deleted_topic_ends_the_queue(client: DanubeClient, broker: FakeBroker) -> None:
    _, queue = await subscribed(client, broker)
    await settle()
    del broker.topics[TOPIC]
    for stream in list(broker.streams.values()):
        stream.stream.fail(TopicNotServedError("deleted"))
    with pytest.raises(TopicNotFoundError):
        await queue.get()


async def test_a_busy_exclusive_subscription_is_reported(client: DanubeClient, broker: FakeBroker) -> None:
    broker.topics[TOPIC] = []
    broker.failures["Subscribe"].append(SubscriptionBusyError("an Exclusive subscription has a consumer"))
    with pytest.raises(SubscriptionBusyError):
        await new_consumer(client).subscribe()


async def test_receiving_that_is_not_permitted_ends_the_queue_instead_of_going_on_for_ever(
    client: DanubeClient, broker: FakeBroker
) -> None:
    broker.failures["ReceiveMessages"].extend([NotPermittedError("no binding grants Consume")] * 10)
    _, queue = await subscribed(client, broker)
    with pytest.raises(NotPermittedError, match="no binding"):
        await queue.get()


async def test_an_unreachable_service_is_named_when_subscribing(
    client: DanubeClient, broker: FakeBroker, clock: SimClock
) -> None:
    await broker.stop()
    subscribing = asyncio.create_task(new_consumer(client).subscribe())
    await clock.run_for(10)
    with pytest.raises(BrokerUnreachableError, match="http://memory:6650"):
        await subscribing


async def test_an_acknowledgement_is_repeated_until_the_broker_is_back(
    client: DanubeClient, broker: FakeBroker, clock: SimClock
) -> None:
    consumer, queue = await subscribed(client, broker)
    publish(broker, b"x")
    message = await queue.get()
    await broker.stop()
    acknowledging = asyncio.create_task(consumer.ack(message))
    await clock.run_for(5)
    await broker.start()
    await clock.run_for(10)
    await acknowledging
    assert broker.subscriptions[TOPIC, "s"].acknowledged == {0}


async def test_a_refused_acknowledgement_is_raised(client: DanubeClient, broker: FakeBroker) -> None:
    consumer, queue = await subscribed(client, broker)
    publish(broker, b"x")
    broker.failures["Ack"].append(AcknowledgeError("no such subscription"))
    with pytest.raises(AcknowledgeError):
        await consumer.ack(await queue.get())


async def test_acknowledgements_sent_on_are_waited_for_when_the_consumer_closes(
    client: DanubeClient, broker: FakeBroker, clock: SimClock
) -> None:
    consumer, queue = await subscribed(client, broker)
    publish(broker, *[b"x"] * 50)
    broker.failures["Ack"].extend([UnavailableError("busy")] * 50)
    for _ in range(50):
        await consumer.ack_later(await queue.get())
    closing = asyncio.create_task(consumer.close())
    await clock.run_for(2)
    await closing
    assert broker.subscriptions[TOPIC, "s"].acknowledged == set(range(50))


async def test_acknowledgements_sent_on_are_bounded_while_the_broker_is_away(
    client: DanubeClient, broker: FakeBroker, clock: SimClock
) -> None:
    consumer, queue = await subscribed(client, broker)
    publish(broker, b"x")
    message = await queue.get()
    await broker.stop()
    for _ in range(CLIENT_ACKS_IN_FLIGHT_MAX):
        await consumer.ack_later(message)
    one_too_many = asyncio.create_task(consumer.ack_later(message))
    await settle()
    assert not one_too_many.done()
    await broker.start()
    await clock.run_for(10)
    await one_too_many
    await consumer.flush_acks()


async def test_flushing_raises_what_went_wrong_with_an_acknowledgement(
    client: DanubeClient, broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    consumer, queue = await subscribed(client, broker)
    publish(broker, b"x")
    broker.failures["Ack"].append(AcknowledgeError("no such subscription"))
    await consumer.ack_later(await queue.get())
    with pytest.raises(AcknowledgeError):
        await consumer.flush_acks()
    await consumer.flush_acks()
    assert "its message will come again" in caplog.text


async def test_a_message_of_another_topic_is_not_acknowledged_in_silence(
    client: DanubeClient, broker: FakeBroker
) -> None:
    consumer, _ = await subscribed(client, broker)
    foreign = Message(ReceivedMessage(1, 1, "/default/other", "", 0, b"", 0, "p"))
    with pytest.raises(InvalidRequestError, match="/default/other"):
        await consumer.ack(foreign)


async def test_receiving_before_subscribing_says_what_to_do(client: DanubeClient) -> None:
    with pytest.raises(UnrecoverableError, match=r"call subscribe\(\) first"):
        await new_consumer(client).receive()


def test_a_builder_without_one_of_its_names_is_refused(client: DanubeClient) -> None:
    with pytest.raises(ValueError, match="required"):
        client.new_consumer().with_topic(TOPIC).with_consumer_name("c").build()


async def test_key_filters_go_along(client: DanubeClient, broker: FakeBroker) -> None:
    broker.topics[TOPIC] = []
    builder = client.new_consumer().with_topic(TOPIC).with_consumer_name("c").with_subscription("s")
    consumer = builder.with_subscription_type(SubType.KEY_SHARED).with_key_filter("a*").with_key_filters(["b", "c?"])
    await consumer.build().subscribe()
    (subscribe,) = broker.consumers.values()
    assert (subscribe.type, subscribe.key_filters) == (SubType.KEY_SHARED, ("a*", "b", "c?"))


async def test_a_closed_consumer_says_so(client: DanubeClient, broker: FakeBroker) -> None:
    consumer, queue = await subscribed(client, broker)
    publish(broker, b"x")
    message = await queue.get()
    await consumer.close()
    await consumer.close()
    for acknowledge in (consumer.ack, consumer.ack_later):
        with pytest.raises(UnrecoverableError, match="closed"):
            await acknowledge(message)
    with pytest.raises(DanubeError, match="closed"):
        await queue.get()
    with pytest.raises(DanubeError, match="closed"):
        queue.get_nowait()


async def test_stream_that_breaks_as_its_consumer_closes_is_no_failure(
    client: DanubeClient, broker: FakeBroker
) -> None:
    consumer, _ = await subscribed(client, broker)
    attachment = next(iter(consumer._consumers.values())).attachment
    link = attachment.link
    await consumer.close()
    assert link is not None
    attachment.link = link
    attachment.lose(link, UnavailableError("it stops"))
    assert attachment.link is None
