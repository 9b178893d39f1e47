"""The ring of log records: bounded, filtered, and without secrets."""

import logging

from danube.broker.telemetry.log_ring import LogRing
from danube.model.calls.inspection import LogLevel, ReadLog
from danube.model.limits.inspection import LOG_TEXT_CHARS_MAX
from danube.model.topic import TopicName

_log = logging.getLogger("danube.test_log_ring")
ORDERS = TopicName("default", "orders")


def texts(ring: LogRing, **wanted: object) -> list[str]:
    return [each.text for each in ring.read(ReadLog(**wanted)).records]  # type: ignore[arg-type]


def test_the_oldest_records_go_and_are_counted() -> None:
    with LogRing(records_max=3).listening() as ring:
        for number in range(5):
            _log.warning("record %d", number)
    page = ring.read(ReadLog())
    assert [each.text for each in page.records] == ["record 2", "record 3", "record 4"]
    assert (page.dropped_count, page.record_count) == (2, 3)
    assert page.kept_since_ms == page.records[0].time_ms


def test_long_records_leave_no_room_for_many() -> None:
    with LogRing(bytes_max=1_000).listening() as ring:
        for _ in range(5):
            _log.warning("x" * 400)
        _log.warning("y" * 10 * LOG_TEXT_CHARS_MAX)
    assert ring.read(ReadLog()).records == ()
    assert ring.read(ReadLog()).dropped_count == 6


def test_records_are_found_by_level_time_and_topic() -> None:
    with LogRing().listening() as ring:
        _log.warning("%s cannot be opened", ORDERS)
        _log.error("%s is damaged", ORDERS.partition(3))
        _log.error("/default/orders-eu is damaged")
    assert texts(ring, level=LogLevel.ERROR) == ["/default/orders-part-3 is damaged", "/default/orders-eu is damaged"]
    assert texts(ring, topic=ORDERS) == ["/default/orders cannot be opened", "/default/orders-part-3 is damaged"]
    first = ring.read(ReadLog()).records[0].time_ms
    assert texts(ring, until_ms=first) == []
    assert len(texts(ring, since_ms=first)) == 3
    assert texts(ring, limit=1) == ["/default/orders-eu is damaged"]


def test_secrets_and_tracebacks_with_secrets_are_not_kept() -> None:
    with LogRing().listening() as ring:
        try:
            int("password=hunter2")
        except ValueError:
            _log.exception("token=%s", "abc.def")
    (text,) = texts(ring)
    assert "hunter2" not in text
    assert "abc.def" not in text
    assert "base 10: 'password=[redacted]" in text


def test_nothing_is_kept_after_the_end() -> None:
    with LogRing().listening() as ring:
        pass
    _log.warning("late")
    assert texts(ring) == []
