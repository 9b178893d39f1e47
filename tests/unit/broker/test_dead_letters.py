"""Messages that failed too often, on their way to another topic, over the ports of a whole broker."""

import asyncio
import logging

import pytest

from danube.broker.dispatch.events import DeadLetter
from danube.broker.policy import dead_letters as module
from danube.broker.policy.dead_letters import encode_copy
from danube.broker.rates.throttle import Published
from danube.broker.topics.topic import ReliableTopic
from danube.model.calls.client import ReceivedMessage
from danube.model.policies import BackoffStrategy, FailurePolicy, PoisonPolicy
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell, StartBroker
from danube.testing.patience import PATIENCE_S
from danube.testing.peers.client import BROKER_URL, Inbox
from danube.testing.peers.stream import StreamPeer, payload_batch
from danube.wire import decode

LETTERS = TopicName("default", "letters")
POLICY = FailurePolicy(
    max_redelivery_count=1,
    base_redelivery_delay_ms=0,
    max_redelivery_delay_ms=20,
    backoff=BackoffStrategy.FIXED,
    poison=PoisonPolicy.DEAD_LETTER,
    dead_letter_topic=LETTERS,
)


async def reading(cell: Cell, topic: TopicName) -> Inbox:
    """A consumer of a subscription whose dead letters go to LETTERS."""
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    await cell.admin.set_failure_policy(topic, POLICY)
    return inbox


async def failing(cell: Cell, topic: TopicName, inbox: Inbox) -> ReceivedMessage:
    """Have the next message fail as often as it may."""
    for _ in range(POLICY.max_redelivery_count + 1):
        message = await inbox.next()
        await cell.client.nack(topic, message.offset, reason="no such customer")
    return message


async def letters_reader(cell: Cell) -> Inbox:
    await cell.client.create_producer(LETTERS)
    return await cell.client.receive(await cell.client.subscribe(LETTERS, "mourners"))


async def position(cell: Cell, topic: TopicName) -> int:
    state = (await cell.admin.describe(topic))[0].subscriptions[0].reliable
    assert state is not None
    return state.position


async def passed(cell: Cell, topic: TopicName, offset: int) -> None:
    """Return once the subscription has everything below `offset` behind it."""
    async with asyncio.timeout(PATIENCE_S):
        while await position(cell, topic) < offset:
            pass


async def test_a_message_that_failed_too_often_is_a_dead_letter_and_the_next_one_comes(
    cell: Cell, topic: TopicName
) -> None:
    dead_letters = await letters_reader(cell)
    producer = await cell.client.create_producer(topic)
    inbox = await reading(cell, topic)
    await cell.client.send(topic, producer, b"poison")
    async with asyncio.timeout(PATIENCE_S):
        offset = (await failing(cell, topic, inbox)).offset
        dead_letter = await dead_letters.next()
        await cell.client.send(topic, producer, b"fine")
        assert (await inbox.next()).payload == b"fine"
    assert (offset, dead_letter.payload) == (0, b"poison")
    assert dead_letter.attributes == {
        "x-original-topic": "/default/orders",
        "x-original-subscription": "subscription",
        "x-original-topic-offset": "0",
        "x-original-producer-id": str(producer),
        "x-original-broker-addr": BROKER_URL,
        "x-poison-policy": "dead_letter",
        "x-delivery-attempt": "2",
        "x-failure-reason": "no such customer",
    }
    await passed(cell, topic, 1)


def test_a_dead_letter_keeps_key_schema_attributes_and_sender_and_says_why() -> None:
    message = ReceivedMessage(
        *(1, 2, "/default/orders", BROKER_URL, 9, b"x", 5, "sender"),
        attributes={"mine": "a", "x-poison-policy": "forged"},
        schema_id=3,
        schema_version=4,
        routing_key="k",
    )
    dead_letter = DeadLetter(9, 6, "no such customer", "/default/letters")
    copy = decode.received_message(encode_copy(message, "/default/orders", "s", dead_letter))
    assert (copy.routing_key, copy.schema_id, copy.schema_version) == ("k", 3, 4)
    assert (copy.producer_name, copy.publish_time_ms, copy.topic) == ("sender", 5, "/default/letters")
    assert (copy.attributes["mine"], copy.attributes["x-poison-policy"]) == ("a", "dead_letter")
    assert copy.attributes["x-failure-reason"] == "no such customer"


async def test_a_record_of_a_batch_becomes_a_dead_letter_like_any_other(cell: Cell, topic: TopicName) -> None:
    dead_letters = await letters_reader(cell)
    channel = cell.carrier.connect(cell.broker.addresses.broker)
    line = await StreamPeer(channel).opened(topic, "sender")
    inbox = await reading(cell, topic)
    await line.send(0, payload_batch(topic, [b"one", b"two"], producer="sender"))
    async with asyncio.timeout(PATIENCE_S):
        await cell.client.acknowledge(topic, (await inbox.next()).offset)
        await failing(cell, topic, inbox)
        dead_letter = await dead_letters.next()
    assert (dead_letter.payload, dead_letter.producer_name, dead_letter.topic) == (b"two", "sender", str(LETTERS))
    await channel.close()


async def test_the_topic_of_dead_letters_is_created_and_reliable(cell: Cell, topic: TopicName) -> None:
    producer = await cell.client.create_producer(topic)
    inbox = await reading(cell, topic)
    await cell.client.send(topic, producer, b"poison")
    async with asyncio.timeout(PATIENCE_S):
        await failing(cell, topic, inbox)
    await passed(cell, topic, 1)
    assert (await cell.admin.topic(LETTERS)).info.strategy is DispatchStrategy.RELIABLE
    assert [each.payload for each in (await cell.admin.peek(LETTERS)).messages] == [b"poison"]


async def test_a_message_that_cannot_become_a_dead_letter_is_kept_until_it_can(
    start_broker: StartBroker, topic: TopicName, caplog: pytest.LogCaptureFixture
) -> None:
    cell = await start_broker(auto_create_topics=False)
    await cell.admin.create_topic(topic)
    producer = await cell.client.create_producer(topic)
    inbox = await reading(cell, topic)
    await cell.client.send(topic, producer, b"poison")
    with caplog.at_level(logging.WARNING, logger=module.__name__):
        async with asyncio.timeout(PATIENCE_S):
            await failing(cell, topic, inbox)
            while not caplog.messages:
                assert await position(cell, topic) == 0
        assert "there is no topic /default/letters" in caplog.messages[0]
        await cell.admin.create_topic(LETTERS)
        await passed(cell, topic, 1)
    assert len(caplog.messages) == 2
    assert "go to dead letter topic /default/letters again" in caplog.messages[1]
    assert len((await cell.admin.peek(LETTERS)).messages) == 1


async def test_a_subscription_never_passes_a_message_whose_copy_is_not_durable(
    start_broker: StartBroker, topic: TopicName, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker dies between the copy and its sync: the original is copied then, and failed often enough before."""
    cell = await start_broker()
    producer = await cell.client.create_producer(topic)
    inbox = await reading(cell, topic)
    asked = asyncio.Event()
    with monkeypatch.context() as dying:

        def never_durable(topic: ReliableTopic, message: bytes, published: Published) -> None:
            asked.set()

        await cell.client.send(topic, producer, b"poison")
        for _ in range(POLICY.max_redelivery_count + 1):
            await inbox.next()
            dying.setattr(ReliableTopic, "publish", never_durable)
            await cell.client.nack(topic, 0)
        async with asyncio.timeout(PATIENCE_S):
            await asked.wait()
        assert await position(cell, topic) == 0
        cell = await start_broker()
    await cell.client.receive(await cell.client.subscribe(topic))
    await passed(cell, topic, 1)
    assert [each.payload for each in (await cell.admin.peek(LETTERS)).messages] == [b"poison"]
