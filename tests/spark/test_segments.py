"""Segments read from their folder are what the broker sends, and a slice that reaches beyond them is whole."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from danube.client import DanubeClientBuilder, DispatchStrategy
from danube.model.errors import PreconditionFailedError, SettingsError
from danube.model.limits.broker import MIB
from danube.model.ownership import StorageMode
from danube.tables.link import Endpoint, close_link, link_to
from danube.tables.planning import OffsetRange
from danube.tables.reading import SliceReader
from danube.tables.rows import COLUMN_NAMES
from danube.tables.segments import SegmentFolder, close_folders
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.broker_cluster import BrokerCluster
from danube.testing.processes.object_server import BUCKET, MotoServer
from spark_analytics.options import parse_options

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

TOPIC = "/default/orders"
MESSAGES = 400
SETTINGS = {"journal_file_bytes_max": MIB, "segment_bytes_max": MIB, "telemetry_interval_s": 0}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """With a topic whose history is in several segments, and its end in the journal."""
    with BrokerProcess(tmp_path / "data", settings=SETTINGS) as process:
        asyncio.run(fill(process))
        yield process
    close_link()


async def fill(process: BrokerProcess) -> None:
    async with await DanubeClientBuilder().service_url(process.endpoints.service_url).build() as client:
        builder = client.new_producer().with_topic(TOPIC).with_name("p")
        async with builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build() as producer:
            await producer.send_many((b"%06d" % number + bytes(10_000) for number in range(MESSAGES)), {"a": "b"})


def rows(reader: SliceReader, wanted: OffsetRange) -> pa.Table:
    return pa.Table.from_batches(reader.read(wanted))


def test_segments_and_broker_give_the_same_rows(broker: BrokerProcess, tmp_path: Path) -> None:
    endpoint = Endpoint(service_url=broker.endpoints.service_url, retry_s=PATIENCE_S)
    (state,) = link_to(endpoint).states(TOPIC)
    end_s = time.monotonic() + PATIENCE_S
    while not (found := list(tmp_path.glob("data/**/segments"))):  # made with the first one
        assert time.monotonic() < end_s
    folder = found[0].parent
    segments = SegmentFolder(folder)
    while len(segments.manifest(state.topic_id).segments) < 2:
        assert time.monotonic() < end_s
    through = SliceReader(endpoint=endpoint, columns=COLUMN_NAMES, fail_on_data_loss=True)
    direct = replace(through, folder=folder)
    whole = OffsetRange(TOPIC, state.topic_id, state.start, state.end)
    middle = replace(whole, start=7, end=segments.manifest(state.topic_id).end_offset - 3)
    for wanted in (whole, middle, replace(whole, start=whole.end - 1)):
        expected = rows(through, wanted)
        assert rows(direct, wanted).equals(expected)
        assert expected.num_rows == wanted.rows
    broker.kill()
    close_link()
    assert rows(direct, middle).num_rows == middle.rows  # without a broker


@pytest.mark.cluster
def test_segments_in_a_bucket_give_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with MotoServer(tmp_path / "moto") as server:
        for name, value in server.variables.items():
            monkeypatch.setenv(name, value)
        settings = {"object_store_batch_timeout_ms": "0", **{name: str(value) for name, value in SETTINGS.items()}}
        cluster = BrokerCluster(tmp_path, size=1, mode=StorageMode.OBJECT_STORE, objects=server, settings=settings)
        with cluster:
            broker = cluster.brokers[0]
            asyncio.run(fill(broker))
            options = {"topic": TOPIC, "source": "segments", "folder": f"s3://{BUCKET}/cluster"}
            place = parse_options({**options, "folder_endpoint": server.endpoint}).segments
            assert place is not None
            endpoint = Endpoint(service_url=broker.endpoints.service_url, retry_s=PATIENCE_S)
            (state,) = link_to(endpoint).states(TOPIC)
            segments, end_s = SegmentFolder(place), time.monotonic() + PATIENCE_S
            while len(segments.manifest(state.topic_id).segments) < 2:
                assert time.monotonic() < end_s
                time.sleep(0.1)
            through = SliceReader(endpoint=endpoint, columns=COLUMN_NAMES, fail_on_data_loss=True)
            whole = OffsetRange(TOPIC, state.topic_id, state.start, state.end)
            assert rows(replace(through, folder=place), whole).equals(rows(through, whole))
            close_link()
            segments.close()
            close_folders()


def test_a_folder_that_is_none_and_trimmed_records_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="has no folder segments"):
        SegmentFolder(tmp_path)
    (tmp_path / "segments").mkdir()
    folder = SegmentFolder(tmp_path)
    empty = folder.manifest(5)
    assert (empty.end_offset, empty.segments) == (0, ())
    with pytest.raises(PreconditionFailedError, match="removed by its retention"):
        list(folder.batches(OffsetRange(TOPIC, 5, 0, 1), replace(empty, start_offset=1)))
    with pytest.raises(SettingsError, match="source=segments goes with the option folder"):
        parse_options({"topic": TOPIC, "source": "segments"})
    with pytest.raises(SettingsError, match="is no absolute path"):
        parse_options({"topic": TOPIC, "source": "segments", "folder": "data"})
