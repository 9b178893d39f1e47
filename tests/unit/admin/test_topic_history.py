"""Rates and lag of a topic over the last minutes, out of telemetry."""

import json

import pytest

from danube.admin.analytics.history import TopicHistory, history_of, topic_history
from danube.model.errors import InvalidRequestError
from danube.model.limits.faces import HISTORY_S
from danube.model.records.telemetry import (
    TELEMETRY_TOPIC,
    BrokerReading,
    Reading,
    Stamp,
    SubscriptionReading,
    TopicReading,
    decode_record,
    encode_record,
)
from danube.model.topic import TopicName
from tests.faces.memory_gateway import MemoryGateway
from tests.faces.memory_schedules import StoredSystemRecord

NOW_MS = 1_795_000_000_000
ORDERS = TopicName("default", "orders")
PER_S = 20


def _told(at_ms: int, name: str, count: int) -> list[tuple[Stamp, Reading]]:
    stamp = Stamp(broker_id="1", start_id="a", sequence=at_ms, at_ms=at_ms, full=False)
    group = SubscriptionReading(name, "1", "billing", "2", "exclusive", 1, 1, count, lag_messages=7)
    base = str(ORDERS) if name != str(ORDERS) else None
    return [(stamp, TopicReading(name, "1", "reliable", base, 0 if base else None, count, 0, 1, 1, 1)), (stamp, group)]


def _steady(
    name: str, last_ms: int, *, interval_ms: int = 5_000, length_ms: int = 600_000
) -> list[tuple[Stamp, Reading]]:
    """A reading each interval up to the last, of a topic that takes PER_S messages a second."""
    moments = range(last_ms - length_ms, last_ms + 1, interval_ms)
    return [each for at_ms in moments for each in _told(at_ms, name, (at_ms - moments[0]) * PER_S // 1_000)]


def _history(records: list[tuple[Stamp, Reading]]) -> TopicHistory:
    return history_of(records, ORDERS, since_ms=NOW_MS - round(HISTORY_S * 1_000), now_ms=NOW_MS)


def _known(points: tuple[float | None, ...]) -> list[float]:
    return [round(point, 3) for point in points if point is not None]


def test_rates_of_a_steady_topic_end_at_the_last_full_step_without_a_dip() -> None:
    for interval_ms in (5_000, 60_000):  # of telemetry, also of one that is told more rarely
        for age_ms in (0, 900, 4_900, 6_500):
            history = _history(_steady(str(ORDERS), NOW_MS - age_ms, interval_ms=interval_ms))
            for points in (history.published, history.groups["billing"].consumed):
                assert set(_known(points)[-30:]) == {PER_S}
                assert points[-3] is not None
            assert history.groups["billing"].lag[-1] == 7


def test_one_partition_that_is_idle_or_told_later_makes_no_dip() -> None:
    first, second, idle = (str(ORDERS.partition(index)) for index in range(3))
    records = _steady(first, NOW_MS - 500) + _steady(second, NOW_MS - 4_500) + _told(NOW_MS - 50_000, idle, 0)
    assert set(_known(_history(records).published)[-20:]) == {2 * PER_S}


def test_a_topic_that_gets_no_more_messages_falls_to_zero_once_that_is_known() -> None:
    assert _known(_history(_steady(str(ORDERS), NOW_MS - 60_000)).published)[-1] == 0
    assert _known(_history(_steady(str(ORDERS), NOW_MS - 60_000)).published)[-6] == PER_S


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("topic", "messages_in", "many"),
        ("topic", "topic", 7),
        ("subscription", "lag_messages", [1]),
        ("subscription", "messages_out", -1),
        ("broker", "topics", None),
        ("topic", "at_ms", "now"),
        ("topic", "sequence", 0.5),
    ],
)
async def test_a_record_with_a_wrong_type_is_none_and_the_history_goes_on_without_it(
    kind: str, field: str, value: object
) -> None:
    records = _steady(str(ORDERS), NOW_MS - 900)
    broker = BrokerReading("1", 1.0, 1, 1, 1, 1, 0.5, 1, 1, 0, 1, 1, 0, 0.5, False)
    readings = {"topic": records[-2], "subscription": records[-1], "broker": (records[-1][0], broker)}
    sound = encode_record(*readings[kind])
    assert decode_record(sound) == readings[kind]
    damaged = json.dumps({**json.loads(sound), field: value}).encode()
    with pytest.raises(InvalidRequestError, match="not a telemetry record"):
        decode_record(damaged)
    gateway = MemoryGateway()
    payloads = [damaged, *(encode_record(*each) for each in records)]
    gateway.system[TELEMETRY_TOPIC] = [StoredSystemRecord(at_ms=NOW_MS, payload=payload) for payload in payloads]
    history = await topic_history(gateway, ORDERS, NOW_MS)
    assert history is not None
    assert set(_known(history.published)[-20:]) == {PER_S}
