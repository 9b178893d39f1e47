"""Failover and Key-Shared subscriptions, over the ports of a whole broker."""

import asyncio

import pytest

from danube.broker.dispatch.selection import key_filter
from danube.model.calls.client import OutgoingMessage, Subscribe
from danube.model.errors import InvalidRequestError, LimitReachedError
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell, StartBroker
from danube.testing.patience import PATIENCE_S
from danube.testing.peers.client import Inbox
from danube.wire import client_messages, encode

BOTH = pytest.mark.parametrize("strategy", list(DispatchStrategy))


class Group:
    """The consumers of one subscription, and a producer to their topic."""

    def __init__(self, cell: Cell, topic: TopicName, kind: SubscriptionType) -> None:
        self.client = cell.client
        self.topic = topic
        self.kind = kind
        self.producer_id = 0

    async def begin(self, strategy: DispatchStrategy = DispatchStrategy.RELIABLE) -> None:
        self.producer_id = await self.client.create_producer(self.topic, strategy=strategy)

    async def join(self, name: str, *filters: str) -> Inbox:
        request = Subscribe(
            request_id=1, topic=self.topic, consumer_name=name, subscription="s", type=self.kind, key_filters=filters
        )
        answer = await self.client.call("/danube.ConsumerService/Subscribe", client_messages.SUBSCRIBE.encode(request))
        return await self.client.receive(client_messages.SUBSCRIBED.decode(answer).consumer_id)

    async def send(self, payload: str, key: str | None = None) -> None:
        message = OutgoingMessage(
            request_id=1,
            producer_id=self.producer_id,
            topic=str(self.topic),
            broker_addr="",
            payload=payload.encode(),
            publish_time_ms=1,
            producer_name="producer",
            routing_key=key,
        )
        await self.client.call("/danube.ProducerService/SendMessage", encode.send_message(message))

    async def acknowledge(self, offset: int) -> None:
        await self.client.acknowledge(self.topic, offset, "s")


@pytest.fixture
def failover(cell: Cell, topic: TopicName) -> Group:
    return Group(cell, topic, SubscriptionType.FAILOVER)


@pytest.fixture
def keyed(cell: Cell, topic: TopicName) -> Group:
    return Group(cell, topic, SubscriptionType.KEY_SHARED)


async def payloads(inbox: Inbox, count: int) -> list[str]:
    async with asyncio.timeout(PATIENCE_S):
        return [each.payload.decode() for each in await inbox.take(count)]


async def test_a_standby_takes_over_with_what_the_active_consumer_left(failover: Group) -> None:
    await failover.begin()
    active, standby = await failover.join("active"), await failover.join("standby")
    for number in range(3):
        await failover.send(str(number))
    assert await payloads(active, 3) == ["0", "1", "2"]
    await failover.acknowledge(0)
    active.close()
    assert await payloads(standby, 2) == ["1", "2"]
    await failover.send("3")
    assert await payloads(standby, 1) == ["3"]


async def test_a_standby_of_a_non_reliable_topic_takes_over(failover: Group) -> None:
    await failover.begin(DispatchStrategy.NON_RELIABLE)
    active, standby = await failover.join("active"), await failover.join("standby")
    await failover.send("0")
    assert await payloads(active, 1) == ["0"]
    active.close()
    await failover.send("1")
    assert await payloads(standby, 1) == ["1"]


async def test_the_next_message_of_a_key_comes_when_the_one_before_is_acknowledged(keyed: Group) -> None:
    await keyed.begin()
    inbox = await keyed.join("c")
    for payload, key in (("a0", "a"), ("a1", "a"), ("b0", "b")):
        await keyed.send(payload, key)
    assert await payloads(inbox, 2) == ["a0", "b0"]
    await keyed.acknowledge(0)
    assert await payloads(inbox, 1) == ["a1"]


async def test_a_message_without_a_key_goes_by_its_producer(keyed: Group) -> None:
    await keyed.begin()
    inbox = await keyed.join("c", "prod*")
    await keyed.send("other", "key")
    await keyed.send("mine")
    assert await payloads(inbox, 1) == ["mine"]


@BOTH
async def test_filters_say_who_gets_a_key(keyed: Group, strategy: DispatchStrategy) -> None:
    await keyed.begin(strategy)
    east, west = await keyed.join("east", "eu-*"), await keyed.join("west", "us-?", "ca")
    for key in ("us-1", "eu-west", "nobody", "ca", "eu-"):
        await keyed.send(key, key)
    assert await payloads(east, 2) == ["eu-west", "eu-"]
    assert await payloads(west, 2) == ["us-1", "ca"]


async def test_filters_are_known_after_a_restart(start_broker: StartBroker, topic: TopicName) -> None:
    keyed = Group(await start_broker(), topic, SubscriptionType.KEY_SHARED)
    await keyed.begin()
    await keyed.join("c", "a*")
    identity = await keyed.client.subscribe(topic, "s", "c", SubscriptionType.KEY_SHARED)
    assert identity
    await keyed.join("c", "b*")
    keyed.client = (await start_broker()).client
    inbox = await keyed.client.receive(identity)
    for key in ("a1", "b1"):
        await keyed.send(key, key)
    assert await payloads(inbox, 1) == ["b1"]


async def test_what_a_consumer_had_goes_to_another_after_the_grace_time(
    start_broker: StartBroker, topic: TopicName
) -> None:
    keyed = Group(await start_broker(key_shared_grace_s=0.05), topic, SubscriptionType.KEY_SHARED)
    await keyed.begin()
    first = await keyed.join("first")
    for key in ("a", "b", "c"):
        await keyed.send(key, key)
    assert await payloads(first, 3) == ["a", "b", "c"]
    second = await keyed.join("second")
    first.close()
    assert await payloads(second, 3) == ["a", "b", "c"]


async def test_a_backlog_is_spread_over_consumers_and_each_key_has_one(keyed: Group) -> None:
    await keyed.begin()
    first = await keyed.join("first")
    first.close()
    for number in range(40):
        await keyed.send(str(number), f"key-{number % 20}")
    inboxes = {name: await keyed.join(name) for name in ("first", "second")}
    seen: dict[str, set[str]] = {}

    async def work(name: str) -> None:
        while True:
            message = await inboxes[name].next()
            seen.setdefault(message.routing_key or "", set()).add(name)
            got.append(int(message.payload))
            await keyed.acknowledge(message.offset)
            if len(got) == 40:
                done.set()

    got: list[int] = []
    done = asyncio.Event()
    workers = [asyncio.ensure_future(work(name)) for name in inboxes]
    async with asyncio.timeout(PATIENCE_S):
        await done.wait()
    for worker in workers:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    assert sorted(got) == list(range(40))
    assert all(got.index(number) < got.index(number + 20) for number in range(20))
    assert len(seen) == 20


async def test_keys_and_messages_that_are_not_in_memory_are_read_from_the_disk(
    start_broker: StartBroker, topic: TopicName
) -> None:
    keyed = Group(await start_broker(cache_bytes_max=0, max_unacked_messages=5), topic, SubscriptionType.KEY_SHARED)
    await keyed.begin()
    (await keyed.join("c")).close()
    for number in range(30):
        await keyed.send(str(number), f"key-{number % 3}")
    inbox = await keyed.join("c")
    got: list[int] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(got) < 30:
            message = await inbox.next()
            got.append(int(message.payload))
            await keyed.acknowledge(message.offset)
    assert sorted(got) == list(range(30))
    assert all(got.index(number) < got.index(number + 3) for number in range(27))


async def test_filters_of_all_consumers_together_are_bounded(keyed: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_filter, "KEY_FILTERS_PER_SUBSCRIPTION_MAX", 3)
    await keyed.begin()
    for name in ("a", "b"):
        await keyed.join(name, "x-*")
    with pytest.raises(LimitReachedError, match="'s' would have 4 key filters"):
        await keyed.join("c", "y-*", "z-*")
    await keyed.join("b", "x-*", "y-*")  # its former ones count no more
    with pytest.raises(LimitReachedError, match="'s' would have 4 key filters"):
        await keyed.join("c", "z-*")
    await keyed.join("c")
    monkeypatch.setattr(key_filter, "KEY_FILTERS_PER_SUBSCRIPTION_MAX", 1)
    await keyed.join("b", "x-*", "y-*")  # who is here with these comes back


async def test_too_many_filters_are_refused_and_leave_nothing_behind(keyed: Group) -> None:
    await keyed.begin()
    with pytest.raises(InvalidRequestError, match="key filters"):
        await keyed.join("c", *["a"] * 101)
    keyed.kind = SubscriptionType.SHARED
    inbox = await keyed.join("c", "filters", "mean", "nothing", "here")
    await keyed.send("any", "key")
    assert await payloads(inbox, 1) == ["any"]
