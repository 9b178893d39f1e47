"""Messages that cannot be handled, by Key-Shared subscriptions: only their key waits. danube-admin sets policies."""

from danube import DanubeClient, SubType
from tests.cluster.wheel.administering import POISON_SENDS, check_origin, retry_blocked, set_policy
from tests.cluster.wheel.keyed import send_keyed
from tests.cluster.wheel.scene import Reader, covers, new_producer, new_topic, reading

AILING = [b"bad"] * POISON_SENDS
"""What is seen of the key that has a bad message, while it is refused."""


@covers("key_shared_safety.nack_redelivers")
async def key_shared_nacked_message_comes_again_before_the_next_of_its_key(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    async with reading(client, topic, kind=SubType.KEY_SHARED) as reader:
        await send_keyed(producer, [("ailing", b"bad"), ("ailing", b"next")])
        assert await reader.drain(1, ack=False) == [b"bad"]
        await reader.nack()
        assert await reader.take(2) == [b"bad", b"next"]
        assert await reader.drain() == []


async def send_a_bad_one(client: DanubeClient, topic: str, reader: Reader, expected: list[bytes]) -> None:
    """One key has a bad message before a good one, another has good ones. Of the first comes what is expected."""
    producer = await new_producer(client, topic)
    await producer.send_with_key(b"bad", {"colour": "red"}, "ailing")
    await send_keyed(producer, [("ailing", b"next"), ("well", b"good-0"), ("well", b"good-1")])
    got = await reader.drain(2 + len(expected), refuse=b"bad")
    assert [payload for payload in got if payload.startswith(b"good")] == [b"good-0", b"good-1"]
    assert [payload for payload in got if not payload.startswith(b"good")] == expected


@covers("key_shared_safety.drop_poison")
async def key_shared_dropped_message_lets_the_next_of_its_key_go_on(client: DanubeClient) -> None:
    topic = new_topic()
    await new_producer(client, topic)
    async with reading(client, topic, kind=SubType.KEY_SHARED) as reader:
        await set_policy(topic, "drop")
        await send_a_bad_one(client, topic, reader, [*AILING, b"next"])
    async with reading(client, topic, kind=SubType.KEY_SHARED) as again:
        assert await again.drain() == []


@covers("key_shared_safety.block_poison_stalls_only_affected_key")
async def key_shared_blocking_message_holds_up_its_key_and_no_other(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    async with reading(client, topic, kind=SubType.KEY_SHARED) as reader:
        await set_policy(topic, "block")
        await send_a_bad_one(client, topic, reader, AILING)
        await send_keyed(producer, [("ailing", b"last"), ("well", b"good-2")])
        assert await reader.drain(1) == [b"good-2"]
        assert await retry_blocked(topic) == 0
        assert await reader.take(3) == [b"bad", b"next", b"last"]


@covers("key_shared_safety.deadletter_routes_and_frees_key")
async def key_shared_dead_letter_goes_to_its_topic_with_its_key_and_the_next_goes_on(client: DanubeClient) -> None:
    topic, dead = new_topic(), new_topic()
    await new_producer(client, topic)
    await new_producer(client, dead)
    async with reading(client, topic, kind=SubType.KEY_SHARED) as reader, reading(client, dead) as letters:
        await set_policy(topic, "dead-letter", "--dead-letter-topic", dead)
        await send_a_bad_one(client, topic, reader, [*AILING, b"next"])
        assert await letters.take(1) == [b"bad"]
        check_origin(letters.last.attributes, topic, offset=0)
        assert letters.last.routing_key == "ailing"
