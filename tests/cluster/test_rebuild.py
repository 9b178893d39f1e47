"""A cluster whose metadata and disks are all lost: one command makes it anew from the bucket alone."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import danube
from danube.model.exit_codes import ExitCode
from danube.model.limits.broker import MIB
from danube.objects.opening import open_objects
from danube.objects.place import ObjectPlace
from danube.objects.store import ObjectStore
from danube.offline.storage.scan.segment_scan import SegmentScan
from danube.runtime.disk import LocalDisk
from danube.storage.object_store.metadata_copy import newest_copy
from danube.storage.tiers.directory import DirectoryTier
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.free_ports import free_port
from danube.testing.processes.object_server import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, MotoServer
from tests.cluster.seeing import wait_until
from tests.cluster.test_metadata_tools import publish, stored
from tests.cluster.test_object_store import _secret, until_published
from tests.plugins import fork_server

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

TOPIC = "/default/orders"
URL = f"s3://{BUCKET}/one"


@pytest.fixture
def moto(tmp_path: Path) -> Iterator[MotoServer]:
    with MotoServer(tmp_path / "moto") as server:
        yield server


def settings_of(moto: MotoServer, tmp_path: Path, *, journal: str = "object") -> dict[str, str]:
    address = f"127.0.0.1:{free_port()}"
    place = {"url": URL, "access_key": ACCESS_KEY, "secret_key": SECRET_KEY, "region": REGION}
    place |= {"endpoint": moto.endpoint, "journal": journal}
    secret = tmp_path / "secret"
    if not secret.exists():
        _secret(tmp_path)
    raft = {"type": "raft", "seed_nodes": address, "raft_addr": address, "secret_file": str(secret)}
    return {
        "storage_mode": "object_store",
        "journal_file_age_s": "2",
        "lease_ttl_s": "3",
        **{f"object_store_{name}": value for name, value in place.items()},
        **{f"meta_store_{name}": value for name, value in raft.items()},
    }


def rebuilt(folder: Path, settings: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """`danube-broker storage rebuild`, as a process of its own."""
    command = [sys.executable, "-m", "danube.broker", "storage", "rebuild", "--from", URL, "--data-dir", str(folder)]
    variables = {f"DANUBE_{name.upper()}": value for name, value in settings.items() if name != "meta_store_seed_nodes"}
    return fork_server.run_text([*command, *words], variables=variables, timeout_s=PATIENCE_S)


async def consume(broker: BrokerProcess, topic: str, subscription: str, count: int, *, acknowledged: int) -> list[int]:
    """Numbers of so many messages of a topic as a consumer gets them; it acknowledges the first of them."""
    async with await danube.DanubeClient.builder().service_url(broker.endpoints.service_url).build() as client:
        builder = client.new_consumer().with_topic(topic).with_consumer_name("c").with_subscription(subscription)
        consumer = builder.with_subscription_type(danube.SubType.EXCLUSIVE).with_start(0).build()
        await consumer.subscribe()
        queue = await consumer.receive()
        found: dict[int, None] = {}  # what is not acknowledged may come again
        async with asyncio.timeout(PATIENCE_S):
            while len(found) < count:
                message = await queue.get()
                found[int(bytes(message.payload).rstrip(b"\0").split()[1])] = None
                if len(found) <= acknowledged:
                    await consumer.ack(message)
        return list(found)


def store_of(moto: MotoServer) -> ObjectStore:
    keys = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY, "region": REGION}
    return open_objects(ObjectPlace.of(URL, endpoint=moto.endpoint, **keys))


def until_copied(store: ObjectStore, key: str) -> None:
    def is_copied() -> bool:
        copy = newest_copy(store, URL)
        return copy is not None and key in {entry.key for entry in copy.snapshot.entries}

    wait_until(is_copied, f"a copy of the metadata has {key}")


def test_all_of_a_cluster_is_served_again_by_its_names_from_the_bucket_alone(moto: MotoServer, tmp_path: Path) -> None:
    settings, store = settings_of(moto, tmp_path), store_of(moto)
    with BrokerProcess(tmp_path / "first", settings=settings) as broker:
        asyncio.run(publish(broker, 60, TOPIC))
        asyncio.run(consume(broker, TOPIC, "billing", 25, acknowledged=25))
        until_copied(store, "/subscriptions/default/orders/billing")
        broker.kill()
    shutil.rmtree(tmp_path / "first")
    done = rebuilt(tmp_path / "second", settings, "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    assert (TOPIC, True, 60) in [
        (one["topic"], one["is_named"], one["end_offset"]) for one in json.loads(done.stdout)["topics"]
    ]
    with BrokerProcess(tmp_path / "second", settings=settings) as broker:
        until_published(broker, 10, TOPIC)
        assert asyncio.run(stored(broker, TOPIC)) == 70
        assert asyncio.run(consume(broker, TOPIC, "billing", 45, acknowledged=0))[:35] == list(range(25, 60))
        broker.kill()
    refused = rebuilt(tmp_path / "second", settings)
    assert (refused.returncode, "holds metadata already" in refused.stderr) == (ExitCode.REFUSED, True)

    store.delete([one.name for one in store.listing("metadata/")])
    store.close()
    done = rebuilt(tmp_path / "third", settings, "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    (name,) = [one["topic"] for one in json.loads(done.stdout)["topics"] if one["end_offset"] == 70]
    assert name.startswith("/default/recovered-topic-")
    with BrokerProcess(tmp_path / "third", settings=settings) as broker:
        until_published(broker, 5, name)
        assert asyncio.run(stored(broker, name)) == 75
        broker.terminate()


@pytest.mark.nightly
def test_a_broker_that_stood_alone_gets_its_moved_segments_back_from_the_bucket(
    moto: MotoServer, tmp_path: Path
) -> None:
    place = {
        "url": URL,
        "access_key": ACCESS_KEY,
        "secret_key": SECRET_KEY,
        "region": REGION,
        "endpoint": moto.endpoint,
    }
    policy = {"tier_after_s": "0", "tier_segment_bytes_min": "1"}
    objects = {f"object_store_{name}": value for name, value in {**place, **policy}.items()}
    settings = {"journal_file_bytes_max": str(MIB), "segment_bytes_max": str(MIB), **objects}
    store = store_of(moto)
    with BrokerProcess(tmp_path / "first", settings=settings) as broker:
        asyncio.run(publish(broker, 300, TOPIC, message_bytes=20_000))
        until_copied(store, "/topics/default/orders")
        until_segments(store, 4)
        broker.kill()
    store.close()
    shutil.rmtree(tmp_path / "first")
    folder = tmp_path / "second"
    done = rebuilt(folder, settings)
    assert (done.returncode, done.stderr) == (0, "")
    assert "storage repair --accept-loss --data-dir" in done.stdout
    uploaded = offsets_in(folder)
    repair = [sys.executable, "-m", "danube.broker", "storage", "repair", "--accept-loss", "--data-dir", str(folder)]
    mended = fork_server.run_text(repair, variables=os.environ, timeout_s=PATIENCE_S)
    assert mended.returncode == 0, mended.stderr
    with BrokerProcess(folder, settings=settings) as broker:
        assert len(uploaded) >= 100
        found = asyncio.run(consume(broker, TOPIC, "all", len(uploaded), acknowledged=len(uploaded)))
        assert sorted(found) == uploaded
        count = asyncio.run(stored(broker, TOPIC))
        asyncio.run(publish(broker, 5, TOPIC))
        assert asyncio.run(stored(broker, TOPIC)) == count + 5
        broker.terminate()


def offsets_in(folder: Path) -> list[int]:
    """Offsets of the topic's messages in the segments of a folder, whether a manifest names them or not."""
    tier, topics = DirectoryTier(LocalDisk(folder)), folder / "segments"
    largest = max(topics.iterdir(), key=lambda one: sum(file.stat().st_size for file in one.iterdir()))
    names = [f"segments/{largest.name}/{file.name}" for file in largest.iterdir()]
    scans = [SegmentScan(tier, name, int(largest.name)) for name in names]
    found = {offset for scan in scans for one in scan.batches() for offset in range(one.base_offset, one.end_offset)}
    tier.close()
    return sorted(found)


def until_segments(store: ObjectStore, count: int) -> None:
    def are_there() -> bool:
        return sum(one.name.endswith(".segment") for one in store.listing("brokers/")) >= count

    wait_until(are_there, f"{count} segments are in the bucket")
