"""Quotas of namespaces and principals, over the ports of a whole broker: clear errors, and rates that hold."""

import asyncio
from pathlib import Path
from time import monotonic

import pytest

from danube.broker.config.quotas import QuotaSettings
from danube.broker.rates.quotas import Quota, Quotas, delay_of
from danube.client import DanubeClientBuilder
from danube.model.errors import LimitReachedError, OverloadedError
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import running_broker
from danube.testing.patience import PATIENCE_S
from danube.testing.peers.client import Inbox, Peer

TOPIC, OTHER = TopicName("default", "one"), TopicName("default", "two")
KIB = 1_024


async def test_a_namespace_has_no_more_topics_than_it_may(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "data", quotas={"namespace_topics": 2}, bootstrap_namespaces=["more"]) as cell:
        await cell.client.create_producer(TOPIC)
        await cell.admin.create_topic(OTHER)
        with pytest.raises(LimitReachedError, match="namespace default has 2 topics and may have 2"):
            await cell.client.create_producer(TopicName("default", "three"))
        await cell.client.create_producer(TopicName("more", "one"))


async def test_a_namespace_has_no_more_streams_than_it_may(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "data", quotas={"namespace_streams": 1}) as cell:
        await cell.client.create_producer(TOPIC)
        first = await cell.client.receive(await cell.client.subscribe(TOPIC, "a"))
        consumer_id = await cell.client.subscribe(TOPIC, "b")
        with pytest.raises(LimitReachedError, match=r"namespace default has 1 streams open.*quotas\.namespace_streams"):
            await (await cell.client.receive(consumer_id)).next()
        first.close()
        async with asyncio.timeout(PATIENCE_S):
            second = await _received(cell.client, consumer_id)
        second.close()


async def _received(peer: Peer, consumer_id: int) -> Inbox:
    """The stream, once the end of the other one has come through."""
    while True:
        try:
            return await peer.receive(consumer_id)
        except LimitReachedError:
            await asyncio.sleep(0)


async def test_single_messages_above_the_rate_wait_and_those_far_above_are_refused(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "data", quotas={"namespace_bytes_in_s": 8 * KIB}) as cell:
        producer = await cell.client.create_producer(TOPIC)
        sends = [cell.client.send(TOPIC, producer, bytes(2 * KIB)) for _ in range(20)]
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
        refused = [one for one in outcomes if isinstance(one, OverloadedError)]
        assert 4 <= len(outcomes) - len(refused) <= 12
        assert refused
        assert "namespace default sends more than 8192 bytes a second" in str(refused[0])


async def test_streams_above_their_rates_wait_and_lose_nothing(tmp_path: Path) -> None:
    rates = {"namespace_bytes_in_s": 16 * KIB, "namespace_bytes_out_s": 16 * KIB}
    async with running_broker(tmp_path / "data", quotas=rates) as cell:
        builder = DanubeClientBuilder().service_url(f"http://{cell.broker.addresses.broker}").with_carrier(cell.carrier)
        async with await builder.build() as client, asyncio.timeout(PATIENCE_S):
            making = client.new_producer().with_topic(str(TOPIC)).with_name("p")
            naming = client.new_consumer().with_topic(str(TOPIC)).with_consumer_name("c").with_subscription("s")
            producer = making.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
            async with producer, naming.build() as consumer:
                started_s = monotonic()
                for number in range(24):
                    await producer.send(b"%d" % number + bytes(KIB))
                got = [await anext(consumer) for _ in range(24)]
                assert [int(one.payload.rstrip(b"\0")) for one in got] == list(range(24))
                assert monotonic() - started_s > 0.4


def test_what_is_stored_is_refused_above_the_quota_and_system_topics_have_none() -> None:
    quotas = Quotas(Quota(stored_bytes=100))
    quotas.weigh({"shop": 100, "system": 1_000}, 0)
    assert delay_of(quotas.accounts("", ["system", "fresh"], 0), 10, 0) == 0
    with pytest.raises(LimitReachedError, match="namespace shop stores 100 bytes of 100"):
        delay_of(quotas.accounts("", ["shop"], 0), 10, 0)
    quotas.weigh({}, 0)
    assert delay_of(quotas.accounts("", ["shop"], 0), 10, 0) == 0


def test_each_principal_has_its_own_rate() -> None:
    quotas = Quotas(principal=Quota(bytes_in_s=100))
    ada, bob = (quotas.accounts(name, ["shop"], 0) for name in ("user:ada", "user:bob"))
    assert delay_of(ada, 250, 0) == 0
    with pytest.raises(OverloadedError, match="user:ada sends more than 100 bytes a second"):
        delay_of(ada, 1, 0)
    assert delay_of(bob, 1, 0) == 0
    assert quotas.accounts("", ["shop"], 0) == []


async def test_one_namespace_and_one_principal_may_have_limits_of_their_own(tmp_path: Path) -> None:
    quotas = {"namespace_topics": 1, "exceptions": ["default/topics=2", "free/topics=0", "default/streams=7"]}
    async with running_broker(tmp_path / "data", quotas=quotas, bootstrap_namespaces=["free", "more"]) as cell:
        for name in ("default", "free"):
            for topic in ("one", "two"):
                await cell.client.create_producer(TopicName(name, topic))
        with pytest.raises(LimitReachedError, match="namespace default has 2 topics and may have 2"):
            await cell.client.create_producer(TopicName("default", "three"))
        await cell.client.create_producer(TopicName("more", "one"))
        with pytest.raises(LimitReachedError, match="namespace more has 1 topics and may have 1"):
            await cell.client.create_producer(TopicName("more", "two"))
    own = {"user:ada": Quota(streams=2), "payments": Quota(stored_bytes=10), "free": Quota()}
    found = Quotas(Quota(streams=1), Quota(streams=1), own)
    (ada,) = found.accounts("user:ada", ["free"], 0.0)
    ada.open_stream()
    ada.open_stream()
    with pytest.raises(LimitReachedError, match=r"user:ada has 2 streams open.*quotas\.principal_streams"):
        ada.open_stream()
    assert len(found.accounts("user:eve", ["other"], 0.0)) == 2
    found.weigh({"payments": 10}, 0.0)
    with pytest.raises(LimitReachedError, match="namespace payments stores 10 bytes of 10"):
        delay_of(found.accounts("", ["payments"], 0.0), 1, 0.0)


@pytest.mark.parametrize(
    "given", ["default", "a b/streams=1", "default/streams=-1", "user:a/topics=1", "default/rate=1"]
)
def test_a_limit_that_cannot_be_read_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="is no quota"):
        QuotaSettings.model_validate({"exceptions": [given]})
