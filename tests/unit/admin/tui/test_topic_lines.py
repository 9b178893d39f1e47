"""What is decided without a terminal: lines of topics, lag over time, the tail of the audit log, wrapped text."""

from dataclasses import replace

import pytest

from danube.admin.present import Table, View
from danube.admin.tui.data.audit_tail import AuditTail
from danube.admin.tui.data.lag_history import LagHistory, sparkline, trend
from danube.admin.tui.data.topic_rows import Order, TopicRow, TopicRows, arranged
from danube.admin.tui.widgets.lines import Line, view_lines, wrapped
from danube.admin.tui.widgets.rows import fitted
from danube.model.limits.faces import TUI_LAG_POINTS
from danube.model.plans.plan import Caller, Effect, Face
from danube.model.records.audit import GENESIS, AuditEntry, AuditPage, AuditRecord, Outcome, next_record
from danube.model.topic import DispatchStrategy, TopicName
from tests.faces.memory_cluster import MemorySubscription, MemoryTopic, described_topic

pytestmark = pytest.mark.slow  # together they take long


def line(name: str, *, lag: int | None = None, rate: float | None = None, broker_id: str = "1") -> TopicRow:
    topic = TopicName("default", name)
    return TopicRow(
        topic=topic,
        name=str(topic),
        strategy=DispatchStrategy.RELIABLE,
        broker_id=broker_id,
        lags={} if lag is None else {"s": lag},
        rate=rate,
    )


def names(lines: list[TopicRow]) -> list[str]:
    return [each.topic.local for each in lines]


def test_topics_are_sorted_largest_first_except_by_name() -> None:
    lines = [line("b", lag=5, rate=0.0), line("a", lag=None), line("c", lag=7, rate=9.0)]
    assert names(arranged(lines, Order.NAME, "")) == ["a", "b", "c"]
    assert names(arranged(lines, Order.LAG, "")) == ["c", "b", "a"]
    assert names(arranged(lines, Order.RATE, "")) == ["c", "b", "a"]


def test_topics_of_the_system_are_shown_by_a_filter_alone() -> None:
    audit = replace(line("audit"), topic=TopicName("system", "audit"), name="/system/audit")
    lines = [line("orders"), audit]
    assert names(arranged(lines, Order.NAME, "")) == ["orders"]
    assert names(arranged(lines, Order.NAME, "/system")) == ["audit"]
    assert names(arranged(lines, Order.NAME, "@1")) == ["orders", "audit"]


def test_a_filter_takes_words_in_any_case_and_brokers() -> None:
    lines = [line("orders-eu"), line("orders-us", broker_id="2"), line("events", broker_id="2")]
    assert names(arranged(lines, Order.NAME, "US ord")) == ["orders-us"]
    assert names(arranged(lines, Order.NAME, "@2")) == ["events", "orders-us"]
    assert names(arranged(lines, Order.NAME, "@2 ord")) == ["orders-us"]


def test_a_topic_that_comes_on_two_pages_has_the_larger_lag() -> None:
    topic = MemoryTopic(name=TopicName("default", "a"), topic_id=1, strategy=DispatchStrategy.RELIABLE, messages=9)
    topic.subscriptions = {"s": MemorySubscription(name="s", position=2)}
    rest = MemoryTopic(name=topic.name, topic_id=1, strategy=topic.strategy, messages=9)
    rest.subscriptions = {"t": MemorySubscription(name="t", position=8)}
    lines = TopicRows()
    lines.start()
    lines.add_described([described_topic(topic, "1")], 0.0)
    lines.add_described([described_topic(rest, "1")], 0.1)
    lines.finish()
    assert [each.lag for each in lines.lines] == [7]


def test_a_counter_that_starts_anew_gives_no_rate() -> None:
    topic = MemoryTopic(name=TopicName("default", "a"), topic_id=1, strategy=DispatchStrategy.RELIABLE, messages=9)
    lines = TopicRows()
    for now_s, messages in ((0.0, 9), (1.0, 2)):
        topic.messages = messages
        lines.start()
        lines.add_described([described_topic(topic, "1")], now_s)
        lines.finish()
    assert [each.rate for each in lines.lines] == [None]


def test_the_history_of_a_lag_is_bounded() -> None:
    history = LagHistory()
    for lag in range(TUI_LAG_POINTS + 50):
        history.add("t", "s", lag)
    assert history.points("t", "s") == tuple(range(50, TUI_LAG_POINTS + 50))


def test_a_full_history_makes_room_for_what_is_on_the_screen_alone() -> None:
    history = LagHistory(subscriptions_max=2)
    for name in ("a", "b", "c"):
        history.add("t", name, 1)
    assert history.subscriptions_of("t") == {"a", "b"}
    history.add("t", "d", 1, is_shown=True)
    assert history.subscriptions_of("t") == {"b", "d"}


@pytest.mark.parametrize(
    ("points", "bars", "word"),
    [
        ((), "    ", ""),
        ((0, 0, 0), " ▁▁▁", "steady"),
        ((0, 4, 8), " ▁▅█", "growing"),
        ((1_000, 1_004, 1_008), " ▁▅█", "growing"),
        ((7, 7, 7), " ▁▁▁", "steady"),
        ((9, 8, 4, 2, 0), "█▅▃▁", "shrinking"),
    ],
)
def test_a_lag_is_drawn_as_bars_and_told_in_a_word(points: tuple[int, ...], bars: str, word: str) -> None:
    assert (sparkline(points, 4), trend(points)) == (bars, word)


def chain(count: int, who: str = "ann") -> list[AuditRecord]:
    entry = AuditEntry(
        caller=Caller(who=who, face=Face.CLI), operation="o", arguments={}, effect=Effect.READ, outcome=Outcome.DONE
    )
    records: list[AuditRecord] = []
    for sequence in range(count):
        previous = records[-1].hash if records else GENESIS
        records.append(next_record(entry, sequence=sequence, at_ms=sequence, keeper="1", previous=previous))
    return records


def page(records: list[AuditRecord], start: int) -> AuditPage:
    return AuditPage(records=tuple(records[start:]), start=0, end=len(records))


def test_the_audit_tail_checks_each_record_against_the_one_before() -> None:
    records, tail = chain(4), AuditTail()
    tail.add(page(records[:2], 0), 0)
    assert tail.next == 2
    tail.add(page(records, 2), 2)
    assert (tail.verdict.is_intact, tail.verdict.checked, tail.total) == (True, 4, 4)


def test_a_record_changed_between_two_looks_breaks_the_chain_for_good() -> None:
    records, tail = chain(4), AuditTail()
    tail.add(page(records[:2], 0), 0)
    forged = [*records[:2], replace(records[2], previous=GENESIS), records[3]]
    tail.add(page(forged, 2), 2)
    tail.add(page(chain(5), 4), 4)
    assert (tail.verdict.is_intact, tail.verdict.broken_at) == (False, 2)


def test_a_log_that_was_written_anew_between_two_looks_does_not_follow() -> None:
    tail = AuditTail()
    tail.add(page(chain(2), 0), 0)
    tail.add(page(chain(4, who="mallory"), 2), 2)
    assert (tail.verdict.is_intact, tail.verdict.broken_at) == (False, 2)


def test_records_that_are_lost_break_the_chain_where_the_log_goes_on() -> None:
    records, tail = chain(6), AuditTail()
    tail.add(page(records[:2], 0), 0)
    tail.add(AuditPage(records=tuple(records[4:]), start=0, end=6), 2)
    verdict = tail.verdict
    assert (verdict.broken_at, verdict.reason) == (4, "records 2 to 3 should stand before it")
    assert tail.next == 6


def test_a_log_whose_newest_records_are_lost_is_broken_though_nothing_can_be_shown() -> None:
    tail = AuditTail()
    tail.add(AuditPage(records=(), start=0, end=900), 400)
    verdict = tail.verdict
    assert (verdict.is_intact, verdict.broken_at) == (False, 400)
    assert verdict.reason == "records 400 to 899 cannot be read any more"


def test_a_log_that_became_shorter_was_cut() -> None:
    records, tail = chain(4), AuditTail()
    tail.add(page(records, 0), 0)
    tail.add(page(records[:2], 4), 4)
    assert "the log was cut" in tail.verdict.reason


def test_sentences_are_wrapped_between_words_and_long_words_are_cut() -> None:
    assert wrapped("one two three", 7) == ["one two", "three"]
    assert wrapped("abcdefgh", 3) == ["abc", "def", "gh"]
    assert wrapped("", 5) == [""]


def test_wide_characters_take_two_cells() -> None:
    assert fitted("日本語", 5) == "日本…"
    assert fitted("日本", 5) == "日本 "


def test_a_view_becomes_lines_with_headings_and_counts() -> None:
    view = View((("Topic", "/a/b"),), (Table("Rows", ("Name", "Lag"), (("x", "1"), ("yy", "22"))),), ("A note.",))
    assert view_lines(view, 40) == [
        Line("Topic  /a/b"),
        Line(""),
        Line("Rows (2)", "heading"),
        Line("Name  Lag", "dim"),
        Line("x     1"),
        Line("yy    22"),
        Line(""),
        Line("A note."),
    ]
