"""The view of the balance, and plans made of it: unknown is not idle, and what is absurd is no load."""

import math
from dataclasses import replace
from typing import cast

import pytest

from danube.broker.balance.assigner import LoadAssigner, Loads
from danube.broker.balance.picture import brokers_of
from danube.broker.balance.preview import Pace, preview
from danube.broker.balance.reporting.reports import LoadReports
from danube.broker.balance.source import BalanceSettings, BalanceSource
from danube.broker.balance.view import BalanceView, view_of
from danube.broker.ownership.cluster_topics import ClusterTopics
from danube.loadmgr.load import BrokerLoad, TopicLoad
from danube.loadmgr.score import Strategy
from danube.metadata.records import keys
from danube.metadata.records.cluster import BrokerDrain, decode_load, encode_load
from danube.metadata.records.record_format import TopicRecord, encode_topic
from danube.metadata.store import Entry
from danube.model.calls.balance import BalanceRule, BrokerPlaceState, RebalanceWish, RuleKind
from danube.model.errors import InvalidRequestError, NotFoundError
from danube.model.ownership import StorageMode
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.simulated.clock import SimClock
from tests.unit.broker.balance.scene import NOW_MS, NOW_S, RATES, SKEWED, facts, received, report, skewed, view

WISH = RebalanceWish()


def test_topics_go_from_the_busy_broker_to_the_idle_ones_with_a_reason_each() -> None:
    found = preview(view(), WISH, Pace())
    assert found.verdict == "planned"
    assert (found.before.cv > 1.4, found.after.cv < 0.2) == (True, True)
    assert {move.source for move in found.moves} == {"1"}
    assert {move.target for move in found.moves} == {"2", "3"}
    assert all(move.reason.startswith(f"{move.topic}: broker 1") and move.clients == 2 for move in found.moves)
    assert found.duration_s > 0
    assert [one.topics_after for one in found.brokers] == [2, 2, 2]


def test_a_broker_without_a_fresh_report_is_unknown_and_left_out_whatever_it_said_before() -> None:
    reports = [received(report(1, 0.6, RATES)), received(report(2, 0.0, {})), received(report(3, 0.0, {}), age_s=60)]
    seen = view_of(facts(reports, SKEWED, brokers=dict.fromkeys((1, 2, 3, 4))))
    states = {one.broker_id: one for one in brokers_of(seen, seen.state())}
    assert [states[each].state for each in "1234"] == ["active", "active", "unknown", "unknown"]
    assert not states["3"].is_known
    assert "60 s old" in states["3"].note
    assert "not reported" in states["4"].note
    found = preview(seen, WISH, Pace())
    assert {move.target for move in found.moves} == {"2"}
    assert sum("left out of plans" in bound for bound in found.bounds) == 2


def test_absurd_numbers_count_as_0_with_a_word_and_a_clock_a_day_off_makes_no_report_old() -> None:
    clock = SimClock()
    reports = LoadReports(clock)
    topic = TopicLoad(topic="/default/a", messages_per_s=math.nan, bytes_per_s=-1.0, stored_bytes=10**18)
    reports.receive(
        BrokerLoad(broker_id=7, measured_ms=clock.now_ms() + 86_400_000, cpu=9.0, memory=math.inf, topics=(topic,))
    )
    kept = reports.reports[7]
    assert (kept.load.cpu, kept.load.memory) == (1.0, 0.0)
    assert kept.load.topics[0] == TopicLoad(topic="/default/a")
    for word in ("cpu", "memory", "messages_per_s", "bytes_per_s", "stored_bytes", "86,400 s ahead"):
        assert word in kept.note
    assert kept.received_s == clock.monotonic_s()


def test_a_report_that_cannot_be_read_is_refused_with_its_reason_until_a_good_one_comes() -> None:
    reports = LoadReports(SimClock())
    key = keys.load(7)
    reports.follow(key, Entry(key, b"\xff", 1, 1))
    assert "cannot be read" in reports.refused[7]
    good = report(7, 0.25, {"/default/a": 12.5})
    reports.follow(key, Entry(key, encode_load(good), 1, 2))
    assert (reports.refused, reports.reports[7].load) == ({}, good)
    reports.follow(key, None)
    assert reports.reports == {}


def test_a_report_is_one_small_record() -> None:
    load = report(1, 0.5, {f"/default/topic-{number}": 10.0 for number in range(100)})
    encoded = encode_load(load)
    assert len(encoded) < 8_000
    assert decode_load(Entry(keys.load(1), encoded, 1, 1)) == load


@pytest.mark.parametrize(
    ("more", "verdict", "said"),
    [
        ({"brokers": {1: None}}, "alone", "fewer than two brokers"),
        (
            {"rules": [BalanceRule(kind=RuleKind.PIN_TOPIC, name=name) for name in SKEWED]},
            "stuck",
            "6 topics stay where they are: it is pinned.",
        ),
        (
            {"rules": [BalanceRule(kind=RuleKind.EXCLUDE_NAMESPACE, name="default")]},
            "stuck",
            "the namespace default is excluded",
        ),
        ({"rules": [BalanceRule(kind=RuleKind.EXCLUDE_BROKER, name="1")]}, "balanced", "Broker 1 is excluded."),
        (
            {"brokers": {1: None, 2: BrokerDrain(broker_id=2), 3: BrokerDrain(broker_id=3)}},
            "alone",
            "Broker 2 is drained.",
        ),
        ({"failed": {2, 3}}, "waiting", "a short while ago: it gets no topics until 1970-01-01 00:17:20Z."),
        ({"moved": frozenset(SKEWED)}, "stuck", "it has moved lately"),
    ],
)
def test_what_keeps_topics_where_they_are_is_said(more: dict[str, object], verdict: str, said: str) -> None:
    found = preview(view(**more), WISH, Pace())
    assert (found.verdict, found.moves) == (verdict, ())
    assert any(said in text for text in (found.summary, *found.bounds))


def test_all_brokers_full_is_said_and_no_topic_is_moved_to_one() -> None:
    full = {"disk_bytes": 100, "disk_used_bytes": 99}
    reports = [received(report(each, 0.6, RATES if each == 1 else {}, **full)) for each in (1, 2, 3)]
    seen = view_of(facts(reports, SKEWED))
    assert {one.state for one in seen.statuses.values()} == {BrokerPlaceState.FULL}
    found = preview(seen, WISH, Pace())
    assert (found.moves, found.verdict) == ((), "alone")
    assert "make room" in found.bounds[0]


def test_no_topic_is_a_clear_answer() -> None:
    reports = [received(report(each, 0.0, {})) for each in (1, 2)]
    found = preview(view_of(facts(reports, {})), WISH, Pace())
    assert (found.moves, found.before.cv, found.verdict) == ((), 0.0, "balanced")


def test_a_cluster_can_be_imagined_and_what_is_not_there_cannot() -> None:
    seen = view()
    assert len(preview(seen, replace(WISH, extra_brokers=2), Pace()).brokers) == 5
    assert [one.broker_id for one in preview(seen, replace(WISH, without_broker="3"), Pace()).brokers] == ["1", "2"]
    hotter = preview(seen, replace(WISH, topic="/default/t0", factor=3.0), Pace())
    assert hotter.before.highest > preview(seen, WISH, Pace()).before.highest
    with pytest.raises(NotFoundError):
        preview(seen, replace(WISH, without_broker="9"), Pace())
    with pytest.raises(NotFoundError):
        preview(seen, replace(WISH, topic="/default/none"), Pace())
    with pytest.raises(InvalidRequestError):
        preview(seen, replace(WISH, strategy="odd"), Pace())


def test_logs_are_carried_where_each_broker_has_a_disk_and_take_their_time() -> None:
    shared, local = (preview(view(mode=mode), WISH, Pace()) for mode in (StorageMode.SHARED_FS, StorageMode.LOCAL))
    assert shared.carried_bytes == 0
    assert local.carried_bytes == 1_000 * len(local.moves)
    assert local.duration_s > shared.duration_s
    assert local.moves[0].pause_ms >= shared.moves[0].pause_ms


NAMES = [TopicName("default", f"new{number}") for number in range(9)]


@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_burst_of_new_topics_is_spread_over_idle_brokers_whatever_their_noise(strategy: Strategy) -> None:
    reports = [received(report(each, cpu, {})) for each, cpu in ((1, 0.001), (2, 0.02), (3, 0.04))]
    found = Loads(view_of(facts(reports, {}, strategy=strategy))).assign(NAMES, [1, 2, 3])
    assert sorted(found) == [1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_new_topics_go_where_there_is_least_load_and_each_counts_as_soon_as_it_is_assigned() -> None:
    found = Loads(view()).assign(NAMES, [1, 2, 3])
    assert 1 not in found[:4]
    assert len(found) == 9
    assert abs(found.count(2) - found.count(3)) <= 1


def test_topics_that_change_between_two_reports_count_as_in_a_new_view() -> None:
    moved, deleted, made = "/default/t0", "/default/t1", "/default/t9"
    followed = Loads(view())
    after = {each: 2 if each == moved else 1 for each in SKEWED if each != deleted} | {made: 3}
    reports = [received(report(1, 0.6, RATES)), received(report(2, 0.0, {})), received(report(3, 0.0, {}))]
    for name, one in facts(reports, after).topics:
        followed.follow(name, one)
    followed.follow(TopicName.parse(deleted), None)
    state = followed.state
    assert state.broker_of == after
    assert {each: len(on) for each, on in state.on.items()} == {1: 4, 2: 1, 3: 1}
    assert state.shares[2][0] == pytest.approx(view().state().topics[moved].demand.cores)


class Source:
    """A source whose reports do not change."""

    settings = BalanceSettings()
    views = 0

    def basis(self) -> tuple[object, ...]:
        return ()

    def failed(self) -> dict[int, int]:
        return {}

    def view(self) -> BalanceView:
        self.views += 1
        return view()


def test_changes_of_topics_are_kept_for_as_long_as_the_reports_they_are_counted_from() -> None:
    clock, topics, source = SimClock(start_s=NOW_S), ClusterTopics(own_id=1), Source()
    assigner = LoadAssigner(cast("BalanceSource", source), topics, clock)

    def create(number: int) -> None:
        name = TopicName("default", f"made{number}")
        record = TopicRecord(name, 1_000 + number, DispatchStrategy.RELIABLE, 0, broker=2)
        topics.follow_topic(keys.topic(name), Entry(keys.topic(name), encode_topic(record), 1, 1))

    assigner(NAMES[:1], [1, 2, 3])
    create(1)
    assert set(assigner._changed) == {"/default/made1"}
    assigner(NAMES[1:2], [1, 2, 3])
    assert (assigner._changed, source.views) == ({}, 1)
    create(2)
    clock.advance(skewed().stale_s)
    create(3)
    assert not assigner._changed
    assigner(NAMES[2:3], [1, 2, 3])
    assert source.views == 2


def test_partitions_of_a_topic_are_spread() -> None:
    base = TopicName("default", "parts")
    found = Loads(view()).assign([base.partition(index) for index in range(6)], [1, 2, 3])
    assert sorted(found) == [1, 1, 2, 2, 3, 3]


def test_drained_full_and_lately_failed_brokers_get_no_topics() -> None:
    full = received(report(2, 0.0, {}, disk_bytes=100, disk_used_bytes=99))
    reports = [received(report(1, 0.9, RATES)), full, received(report(3, 0.0, {}))]
    brokers = {1: None, 2: None, 3: None, 4: BrokerDrain(broker_id=4)}
    seen = view_of(facts([*reports, received(report(4, 0.0, {}))], SKEWED, brokers=brokers, failed={3}))
    assert set(Loads(seen).assign(NAMES, [1, 2, 3])) == {1}
    assert Loads(seen).assign(NAMES, [2, 3]) == []  # the caller has its own last resort
    unknown = view_of(facts(reports[:1], SKEWED, brokers={1: None, 2: None}))
    assert Loads(unknown).assign(NAMES, [1, 2]) == []


def test_topics_on_their_way_count_where_they_go_and_stay_on_it() -> None:
    on_their_way = dict.fromkeys(list(SKEWED)[:4], 2)
    seen = view_of(skewed(assigned=on_their_way))
    state = seen.state()
    assert len(state.on[2]) == 4
    assert {state.topics[name].stays for name in on_their_way} == {"it is on its way"}
    assert seen.facts.now_ms == NOW_MS
