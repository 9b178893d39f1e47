"""Messages that cannot be handled, by Exclusive and Shared subscriptions; danube-admin sets the failure policies."""

import asyncio

from danube import DanubeClient, Producer, SubType
from tests.cluster.wheel.administering import POISON_SENDS, check_origin, retry_blocked, set_policy
from tests.cluster.wheel.scene import Reader, covers, new_producer, new_topic, reading, scenario

ACK_TIMEOUT_S = 0.3


async def nacked(client: DanubeClient, kind: SubType) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    async with reading(client, topic, kind=kind) as reader:
        await producer.send(b"bad")
        await reader.take(1, ack=False)
        await reader.nack()
        assert await reader.take(1) == [b"bad"]
        assert await reader.drain() == []


@covers("reliable_dispatch_failure_handling.reliable_exclusive_nack")
async def nacked_message_comes_again(client: DanubeClient) -> None:
    await nacked(client, SubType.EXCLUSIVE)


@covers("reliable_dispatch_failure_handling.reliable_shared_nack")
async def nacked_message_of_a_shared_subscription_comes_again(client: DanubeClient) -> None:
    await nacked(client, SubType.SHARED)


@covers("reliable_dispatch_failure_handling.reliable_exclusive_ack_timeout")
async def message_that_is_not_acknowledged_in_time_comes_again(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    async with reading(client, topic) as reader:
        await set_policy(topic, "block", ack_timeout_ms=int(ACK_TIMEOUT_S * 1000))
        before_s = asyncio.get_running_loop().time()
        await producer.send(b"slow")
        await reader.take(1, ack=False)
        assert await reader.take(1) == [b"slow"]
        assert asyncio.get_running_loop().time() - before_s > 0.9 * ACK_TIMEOUT_S
        assert await reader.drain() == []
        assert reader.offsets == [0, 0]


async def send_a_bad_one(producer: Producer, reader: Reader) -> None:
    """Among good ones. The reader refuses it as often as it comes, and acknowledges the others."""
    for payload in (b"good-0", b"bad", b"good-1"):
        await producer.send(payload, {"colour": "red"})
    got = await reader.drain(2 + POISON_SENDS, refuse=b"bad")
    assert got.count(b"bad") == POISON_SENDS
    assert [payload for payload in got if payload != b"bad"] == [b"good-0", b"good-1"]
    await producer.send(b"late")


@covers("reliable_dispatch_failure_handling.retry_exhausted_block")
async def blocking_message_holds_up_what_is_new_until_it_is_retried(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    async with reading(client, topic) as reader:
        await set_policy(topic, "block")
        await send_a_bad_one(producer, reader)
        assert await reader.drain() == []
        assert await retry_blocked(topic) == 1
        assert sorted(await reader.take(2)) == [b"bad", b"late"]
        assert await reader.drain() == []


@covers("reliable_dispatch_failure_handling.retry_exhausted_drop")
async def dropped_message_is_gone_and_all_goes_on(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    async with reading(client, topic) as reader:
        await set_policy(topic, "drop")
        await send_a_bad_one(producer, reader)
        assert await reader.take(1) == [b"late"]
    async with reading(client, topic) as again:
        assert await again.drain() == []


async def buried(client: DanubeClient, kind: SubType) -> None:
    topic, dead = new_topic(), new_topic()
    producer = await new_producer(client, topic)
    await new_producer(client, dead)
    async with reading(client, topic, kind=kind) as reader, reading(client, dead) as letters:
        await set_policy(topic, "dead-letter", "--dead-letter-topic", dead)
        await send_a_bad_one(producer, reader)
        assert await reader.take(1) == [b"late"]
        assert await letters.take(1) == [b"bad"]
        check_origin(letters.last.attributes, topic, offset=1)
        assert await letters.drain() == await reader.drain() == []


@covers("reliable_dispatch_failure_handling.retry_exhausted_deadletter")
async def dead_letter_goes_to_its_topic_and_says_where_it_comes_from(client: DanubeClient) -> None:
    await buried(client, SubType.EXCLUSIVE)


@scenario
async def dead_letter_of_a_shared_subscription_goes_to_its_topic(client: DanubeClient) -> None:
    await buried(client, SubType.SHARED)
