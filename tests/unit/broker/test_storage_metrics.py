"""What a broker tells of its storage: to Prometheus, to administrators, to telemetry."""

import re
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from danube.broker.config.settings import BrokerSettings
from danube.broker.telemetry.metrics import RpcCounts, new_registry
from danube.model.calls.stream import FetchFrom
from danube.model.records.telemetry import BrokerReading, Stamp, decode_record, encode_record
from danube.model.topic import TopicName
from danube.storage.segment.reader import SegmentReader
from danube.storage.settings import LATENCY_BOUNDS_S, LatencyHistogram
from danube.testing.in_process_broker import Cell, StartBroker
from tests.unit.broker.keeper import Keeper

DOCUMENT = (Path(__file__).parents[3] / "docs/storage.md").read_text()
PAYLOAD = b"x" * 400


async def fill(cell: Cell, topic: TopicName, count: int = 30) -> None:
    producer = await cell.client.create_producer(topic)
    for _ in range(count):
        await cell.client.send(topic, producer, PAYLOAD)


def scraped(keeper: Keeper) -> dict[str, float]:
    """The metrics without labels, by name, and those of one topic."""
    text = generate_latest(new_registry(keeper.topics, keeper.storage, RpcCounts())).decode()
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {re.sub(r"\{topic=\"/default/.*\"\}", "", name): float(value) for name, value in lines}


async def test_prometheus_is_told_what_the_document_says(
    keepers: list[Keeper], start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(telemetry_interval_s=0, retention_bytes=5_000)
    await fill(cell, topic)
    await keepers[-1].let_go()
    found = scraped(keepers[-1])
    named = re.findall(r"`(danube_\w+)`", DOCUMENT)
    assert [name for name in named if not any(one.startswith(name) for one in found)] == []
    assert found["danube_storage_segments"] > 0
    assert found["danube_storage_dropped_segments_total"] > 0
    assert found["danube_storage_freed_bytes_total"] > 0
    assert found["danube_storage_disk_level"] == 0
    assert 0 < found["danube_topic_stored_bytes"] <= 5_000
    assert found["danube_topic_segments"] == found["danube_storage_segments"]
    assert found["danube_topic_unsynced_bytes"] == 0
    oldest_s, newest_s = (found[f"danube_topic_{which}_append_timestamp_seconds"] for which in ("oldest", "newest"))
    (described,) = await cell.admin.describe(topic)
    assert described.storage is not None
    assert (described.storage.oldest_ms, described.storage.newest_ms) == (oldest_s * 1_000, newest_s * 1_000)
    rounds = found["danube_journal_rounds_total"]
    assert found['danube_journal_round_seconds_bucket{le="+Inf"}'] == rounds > 0


async def test_a_topic_says_what_its_messages_take_and_how_old_they_are(
    keepers: list[Keeper], start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(telemetry_interval_s=0)
    await fill(cell, topic)
    (before,) = await cell.admin.describe(topic)
    await keepers[-1].let_go()
    (after,) = await cell.admin.describe(topic)
    assert before.storage is not None
    assert after.storage is not None
    assert (before.storage.segments, before.storage.unsynced_bytes) == (0, 0)
    assert after.storage.segments > 0
    assert after.storage.stored_bytes == before.storage.stored_bytes > 30 * len(PAYLOAD)
    assert (after.storage.oldest_ms, after.storage.newest_ms) == (before.storage.oldest_ms, before.storage.newest_ms)
    assert (before.storage.oldest_ms or 0) <= (before.storage.newest_ms or 0)


async def test_what_is_written_and_not_synced_is_told(
    keepers: list[Keeper], start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(telemetry_interval_s=0, durability="os")
    await fill(cell, topic, 3)
    (described,) = await cell.admin.describe(topic)
    assert described.storage is not None
    assert 3 * len(PAYLOAD) < described.storage.unsynced_bytes <= described.storage.stored_bytes
    assert scraped(keepers[-1])["danube_topic_unsynced_bytes"] == described.storage.unsynced_bytes


async def test_of_a_topic_without_messages_no_times_are_told(
    keepers: list[Keeper], start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(telemetry_interval_s=0)
    await cell.client.create_producer(topic)
    found = scraped(keepers[-1])
    assert found["danube_topic_segments"] == 0
    assert not any("append_timestamp" in name for name in found)


async def test_how_old_unread_messages_in_segments_are_is_read_once_for_each_place(
    keepers: list[Keeper], start_broker: StartBroker, topic: TopicName, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = await start_broker(telemetry_interval_s=0)
    await fill(cell, topic)
    await cell.admin.create_subscription(topic, start=3)
    (before,) = await cell.admin.describe(topic)
    await keepers[-1].let_go()
    cell = await start_broker(telemetry_interval_s=0)
    reads: list[int] = []
    read = SegmentReader.append_time_ms

    def counted(reader: SegmentReader, topic_id: int, segment: object, offset: int) -> int:
        reads.append(offset)
        return read(reader, topic_id, segment, offset)  # type: ignore[arg-type]

    monkeypatch.setattr(SegmentReader, "append_time_ms", counted)
    for _ in range(3):
        (after,) = await cell.admin.describe(topic)
        assert after.subscriptions[0].reliable == before.subscriptions[0].reliable
    assert len(reads) <= 1
    await cell.admin.seek(topic, FetchFrom.EARLIEST)
    (after,) = await cell.admin.describe(topic)
    assert after.storage is not None
    assert after.subscriptions[0].reliable is not None
    assert after.subscriptions[0].reliable.oldest_unacknowledged_ms == after.storage.oldest_ms


def test_the_document_names_settings_that_there_are() -> None:
    table = DOCUMENT.split("## Settings")[1].split("## Metrics")[0]
    named = [name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)]
    assert set(named) <= BrokerSettings.model_fields.keys()
    assert len(named) > 10


def test_a_histogram_counts_what_is_at_most_a_bound() -> None:
    took = LatencyHistogram()
    for seconds in (0.0, LATENCY_BOUNDS_S[0], 0.9, 1.0, 60.0):
        took.observe(seconds)
    found = dict(took.cumulative())
    assert (found[LATENCY_BOUNDS_S[0]], found[0.5], found[1.0], found[10.0], found[float("inf")]) == (2, 2, 4, 4, 5)
    assert took.total_s == pytest.approx(61.9, abs=0.001)


def test_telemetry_of_before_and_after_is_read() -> None:
    stamp = Stamp(broker_id="1", start_id="2", sequence=3, at_ms=4, full=False)
    old = BrokerReading("0.1.0", 1.0, 1, 1, 1, 1, 0.5, 1, 1, 0, 1, 1, 0, 0.5, journal_stopped=False)
    new = old._replace(segments=7, segment_bytes=8, disk_free_bytes=9, disk_refuses=False)
    assert b"segment" not in encode_record(stamp, old)
    assert [decode_record(encode_record(stamp, one)) for one in (old, new)] == [(stamp, old), (stamp, new)]
