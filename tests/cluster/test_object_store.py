"""Real brokers over a server of the S3 protocol: disks are deleted, owners die and stand still, nothing is lost."""

import asyncio
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import danube
from danube.admin.grpc_gateway.gateway import opened
from danube.admin.target import Target
from danube.model.calls.admin import DescribeTopics
from danube.model.calls.positions import CreateSubscription, PeekMessages
from danube.model.calls.stream import FetchFrom
from danube.model.errors import UnavailableError
from danube.model.limits.broker import MIB
from danube.model.ownership import StorageMode
from danube.model.policies import SubscriptionName
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.broker_cluster import BrokerCluster
from danube.testing.processes.etcd import EtcdServer
from danube.testing.processes.free_ports import free_port
from danube.testing.processes.object_server import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, MotoServer
from lab.failover.administration import Administration
from tests.cluster.seeing import until, wait_until
from tests.cluster.test_metadata_tools import TOPIC, publish, stored
from tests.plugins import fork_server

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

LEASE_S = "3"


@pytest.fixture
def moto(tmp_path: Path) -> Iterator[MotoServer]:
    with MotoServer(tmp_path / "moto") as server:
        yield server


def _settings(moto: MotoServer, **more: str) -> dict[str, str]:
    keys = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY, "region": REGION, "endpoint": moto.endpoint}
    place = {"url": f"s3://{BUCKET}/one", **keys, **more}
    return {"storage_mode": "object_store", **{f"object_store_{name}": value for name, value in place.items()}}


def until_published(broker: BrokerProcess, messages: int, topic: str = TOPIC) -> None:
    """Publish once the topic is served: a broker that has just lost it says so first."""

    def published() -> bool:
        asyncio.run(publish(broker, messages, topic))
        return True

    wait_until(published, f"{messages} messages are published to {topic}")


def test_a_new_broker_on_an_empty_disk_serves_all_of_a_dead_one(moto: MotoServer, tmp_path: Path) -> None:
    with EtcdServer(tmp_path / "etcd") as etcd:
        metadata = {"meta_store_type": "etcd", "meta_store_endpoints": etcd.address, "meta_store_root": "/objects"}
        settings = {**metadata, **_settings(moto), "lease_ttl_s": LEASE_S}
        with BrokerProcess(tmp_path / "first", settings=settings) as first:
            asyncio.run(publish(first, 50))
            first.kill()
        shutil.rmtree(tmp_path / "first")
        with BrokerProcess(tmp_path / "second", settings=settings) as second:
            until_published(second, 5)
            assert asyncio.run(stored(second)) == 55


def test_a_journal_on_a_disk_goes_on_after_a_kill_and_without_the_disk_with_what_was_uploaded(
    moto: MotoServer, tmp_path: Path
) -> None:
    with EtcdServer(tmp_path / "etcd") as etcd:
        metadata = {"meta_store_type": "etcd", "meta_store_endpoints": etcd.address, "meta_store_root": "/local"}
        lost = {"local_owner_lost": "recreate", "local_owner_lost_after_s": "1"}
        settings = {**metadata, **_settings(moto, journal="local"), **lost, "lease_ttl_s": LEASE_S}
        with BrokerProcess(tmp_path / "first", settings=settings) as first:
            asyncio.run(publish(first, 30))
            first.kill()
            first.start()
            until_published(first, 20)
            assert asyncio.run(stored(first)) == 50
            first.terminate()  # uploads the rest
        shutil.rmtree(tmp_path / "first")
        with BrokerProcess(tmp_path / "second", settings=settings) as second:
            until_published(second, 5)
            assert asyncio.run(stored(second)) == 55


def test_a_paused_owner_is_fenced_and_a_dead_ones_disk_is_not_missed(moto: MotoServer, tmp_path: Path) -> None:
    settings = {"lease_ttl_s": LEASE_S}
    with BrokerCluster(tmp_path, mode=StorageMode.OBJECT_STORE, objects=moto, settings=settings) as cluster:
        administration = Administration(cluster, StorageMode.OBJECT_STORE)
        asyncio.run(publish(cluster.brokers[0], 20))
        paused = asyncio.run(administration.owner(TopicName.parse(TOPIC)))
        paused.pause()
        others = [one for one in cluster.brokers if one is not paused]
        until_published(others[0], 10)
        paused.resume()
        _wait_for(paused, "taken over")
        owner = asyncio.run(administration.owner(TopicName.parse(TOPIC), others))  # the paused one starts again
        owner.kill()
        shutil.rmtree(owner.data_dir)
        left = next(one for one in others if one is not owner)
        until_published(left, 10)
        assert asyncio.run(stored(left)) == 40


def _wait_for(broker: BrokerProcess, words: str) -> None:
    wait_until(lambda: words in broker.log(), f"{words!r} is in the log", log=broker.log)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"url": "s3://no-such-bucket/one"}, "there is no such bucket: make it"),
        ({"endpoint": "http://127.0.0.1:1"}, "does not answer"),
    ],
)
def test_a_wrong_place_is_one_clear_sentence(moto: MotoServer, tmp_path: Path, more: dict[str, str], said: str) -> None:
    address = f"127.0.0.1:{free_port()}"
    raft = {"seed_nodes": address, "raft_addr": address, "secret_file": str(_secret(tmp_path))}
    settings = {**_settings(moto, **more), "meta_store_type": "raft", **{f"meta_store_{n}": raft[n] for n in raft}}
    broker = BrokerProcess(tmp_path / "broker", settings=settings)
    broker.launch()
    try:
        _wait_for(broker, said)
    finally:
        broker.kill()
    assert "Traceback" not in broker.log()


def _secret(folder: Path) -> Path:
    path = folder / "secret"
    path.write_text("0" * 64, encoding="ascii")
    path.chmod(0o600)
    return path


def test_a_store_that_stands_still_has_messages_refused_and_heals_by_itself(moto: MotoServer, tmp_path: Path) -> None:
    with BrokerCluster(tmp_path, size=1, mode=StorageMode.OBJECT_STORE, objects=moto) as cluster:
        (broker,) = cluster.brokers
        asyncio.run(publish(broker, 10))
        asyncio.run(_send_over_an_outage(broker, moto))
        assert asyncio.run(stored(broker)) == 11


async def _send_over_an_outage(broker: BrokerProcess, moto: MotoServer) -> None:
    """A message that is under way when the store stops to answer is stored once it answers again."""
    async with await danube.DanubeClient.builder().service_url(broker.endpoints.service_url).build() as client:
        builder = client.new_producer().with_topic(TOPIC).with_name("patient")
        producer = builder.with_dispatch_strategy(danube.DispatchStrategy.RELIABLE).build()
        await producer.create()
        moto.pause()
        try:
            sending = asyncio.create_task(producer.send(b"while the store stands still"))
            async with opened(Target(endpoint=broker.endpoints.admin_url, timeout_s=PATIENCE_S)) as gateway:

                async def is_refusing() -> bool:
                    storage = (await gateway.describe_broker()).storage
                    return storage is not None and "has not taken anything for" in (storage.refused_reason or "")

                await until(is_refusing)
        finally:
            moto.resume()
        async with asyncio.timeout(PATIENCE_S):
            await sending


def test_older_segments_of_a_disk_move_into_the_bucket_and_are_read_from_there(
    moto: MotoServer, tmp_path: Path
) -> None:
    small = {"journal_file_bytes_max": str(MIB), "segment_bytes_max": str(MIB)}
    policy = {"object_store_tier_after_s": "0", "object_store_tier_segment_bytes_min": "1"}
    settings = {**_settings(moto), "storage_mode": "local", **small, **policy}
    with BrokerProcess(tmp_path / "data", settings=settings) as broker:
        asyncio.run(publish(broker, 300, message_bytes=20_000))
        asyncio.run(_until_moved(broker))
        assert asyncio.run(stored(broker)) == 300
        broker.terminate()
        broker.start()
        assert asyncio.run(stored(broker)) == 300


async def _until_moved(broker: BrokerProcess) -> None:
    async with opened(Target(endpoint=broker.endpoints.admin_url, timeout_s=PATIENCE_S)) as gateway:

        async def is_moved() -> bool:
            storage = (await gateway.describe_broker()).storage
            use = storage.object_store if storage is not None else None
            puts = [one for one in use.requests if one.kind == "put" and one.cause == "segment"] if use else []
            return sum(one.requests for one in puts) >= 4

        await until(is_moved)


@pytest.mark.parametrize("end", [MotoServer.pause, pytest.param(MotoServer.kill, marks=pytest.mark.nightly)])
def test_administration_is_answered_within_seconds_while_the_store_is_not(
    moto: MotoServer, tmp_path: Path, end: Callable[[MotoServer], None]
) -> None:
    small = {"journal_file_bytes_max": str(MIB), "segment_bytes_max": str(MIB)}
    with BrokerCluster(tmp_path, size=1, mode=StorageMode.OBJECT_STORE, objects=moto, settings=small) as cluster:
        (broker,) = cluster.brokers
        asyncio.run(publish(broker, 100, message_bytes=20_000))
        asyncio.run(_until_flushed(broker))
        broker.terminate()
        broker.start()  # nothing of the segments is in memory now
        end(moto)
        asyncio.run(_administer_without_a_store(broker))
        if end is MotoServer.pause:
            moto.resume()
            asyncio.run(_until_made(broker, "waits"))


async def _until_flushed(broker: BrokerProcess) -> None:
    async with opened(Target(endpoint=broker.endpoints.admin_url, timeout_s=PATIENCE_S)) as gateway:
        name = SubscriptionName(topic=TopicName.parse(TOPIC), subscription="behind")
        kind = SubscriptionType.SHARED
        await gateway.create_subscription(CreateSubscription(name=name, type=kind, start=FetchFrom.EARLIEST))

        async def is_flushed() -> bool:
            storage = (await gateway.describe_broker()).storage
            return storage is not None and storage.segments > 0

        await until(is_flushed)


async def _until_made(broker: BrokerProcess, namespace: str) -> None:
    async with opened(Target(endpoint=broker.endpoints.admin_url, timeout_s=PATIENCE_S)) as gateway:

        async def is_made() -> bool:
            return namespace in await gateway.namespaces()

        await until(is_made)


async def _administer_without_a_store(broker: BrokerProcess) -> None:
    """All within the time that administrators have by default."""
    topic = TopicName.parse(TOPIC)
    async with opened(Target(endpoint=broker.endpoints.admin_url)) as gateway:
        with pytest.raises(UnavailableError, match=r"the object store s3://.* does not answer"):
            await gateway.peek(PeekMessages(topic=topic, start=FetchFrom.EARLIEST, count=1, payload_bytes_max=10))
        page = await gateway.describe_topics(DescribeTopics(topics=(topic,), page_size=10))
        (described,) = page.topics
        assert described.end_offset == 100
        assert described.state is not None
        assert "does not answer" in described.state.reason
        storage = (await gateway.describe_broker()).storage
        assert storage is not None
        assert storage.object_store is not None
        assert storage.object_store.unanswered_s > 0
        with pytest.raises(UnavailableError, match=r"does not answer.*may still be done"):
            await gateway.create_namespace("waits")
        assert topic.namespace in await gateway.namespaces()
    command = [sys.executable, "-m", "danube.admin", "--endpoint", broker.endpoints.admin_url, "cluster", "health"]
    health = await asyncio.to_thread(fork_server.run_text, command, variables=dict(os.environ), timeout_s=PATIENCE_S)
    assert "the object store does not answer, for" in health.stdout
