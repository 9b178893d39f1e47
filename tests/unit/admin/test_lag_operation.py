"""Who is behind: live, from Spark's result, and the same either way."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from danube.admin.operations.analytics.lag import ANALYZE_CONSUMER_LAG, AnalyzeLagParams, LagReport
from danube.admin.operations.operation import Call
from danube.admin.present import view_of, with_details
from danube.model.errors import NotFoundError, TopicNotServedError, UnsupportedError
from danube.model.lag.group import LagFilter, groups_of
from danube.model.lag.records import judge_all
from danube.model.lag.rows import GROUPS, PARTITIONS, group_row, partition_row
from danube.model.lag.verdict import LagPolicy
from danube.model.limits.faces import ANALYTICS_FRESH_S
from danube.model.plans.plan import Caller, Face
from danube.model.records.analytics import ANALYTICS_TOPIC, LAG_JOB, RunWriter, encode_record
from danube.model.records.telemetry import TELEMETRY_TOPIC, Stamp, SubscriptionReading
from danube.model.records.telemetry import encode_record as encode_telemetry
from danube.model.topic import DispatchStrategy, TopicName
from tests.faces.memory_cluster import MemorySubscription
from tests.faces.memory_gateway import HOSTILE, MemoryGateway
from tests.faces.seeded import seeded_gateway

ME = Caller(who="me@here", face=Face.CLI)
INTERVAL_MS = 5_000
TOPICS = ("/default/slow-part-0", "/default/slow-part-1", "/default/unread")
Telemetry = list[tuple[Stamp, SubscriptionReading]]


async def asked(gateway: MemoryGateway, **arguments: object) -> LagReport:
    run = ANALYZE_CONSUMER_LAG.run
    assert run is not None
    call = Call(gateway=gateway, clock=gateway.clock, caller=ME)
    return await run(call, AnalyzeLagParams.model_validate(arguments))


def history(gateway: MemoryGateway, looks: int = 10) -> Telemetry:
    """Two partitions that are read too slowly and a topic that nobody reads, told each interval up to now."""
    found: Telemetry = []
    for look in range(looks):
        at_ms = gateway.clock.now_ms() - (looks - 1 - look) * INTERVAL_MS
        for number, topic in enumerate(TOPICS):
            head, position = 20 * (look + 1), 0 if number == 2 else (10 - number) * (look + 1)
            stamp = Stamp(broker_id="1", start_id="s", sequence=3 * look + number, at_ms=at_ms, full=False)
            found.append((stamp, reading(topic, str(number + 1), head, position, consumers=int(number != 2))))
    return found


def reading(topic: str, topic_id: str, head: int, position: int, *, consumers: int) -> SubscriptionReading:
    return SubscriptionReading(
        topic=topic,
        topic_id=topic_id,
        subscription="billing",
        subscription_id=f"9{topic_id}",
        type="shared",
        consumers=consumers,
        consumers_known=consumers,
        messages_out=0,
        start_offset=0,
        head=head,
        position=position,
        acknowledged_beyond=0,
        lag_messages=head - position,
        in_flight=0,
        waiting=0,
        ready=0,
        redelivered=0,
        nacked=0,
        oldest_unread_append_ms=0,
        head_append_ms=1,
        blocked=0,
    )


def with_topics(gateway: MemoryGateway, telemetry: Telemetry) -> None:
    """What describe_topics tells agrees with the newest telemetry."""
    for _, newest in telemetry[-3:]:
        topic = gateway.cluster.add_topic(TopicName.parse(newest.topic), DispatchStrategy.RELIABLE)
        topic.messages = newest.head or 0
        consumers = ["c"] * newest.consumers
        topic.subscriptions["billing"] = MemorySubscription(
            name="billing", position=newest.position or 0, consumers=consumers
        )


@pytest.fixture
async def gateway() -> MemoryGateway:
    gateway = MemoryGateway()
    gateway.cluster.brokers.append(seeded_gateway().cluster.brokers[0])
    gateway.cluster.namespaces |= seeded_gateway().cluster.namespaces
    await gateway.clock.sleep_until(0)
    telemetry = history(gateway)
    gateway.publish_system(TELEMETRY_TOPIC, *(encode_telemetry(*record) for record in telemetry))
    with_topics(gateway, telemetry)
    return gateway


def publish_result(gateway: MemoryGateway, *, as_of_ms: int, wanted: LagFilter = LagFilter()) -> None:  # noqa: B008 - frozen
    """As the job would."""
    policy = LagPolicy()
    partitions = judge_all(history(gateway), as_of_ms, policy)
    tables = {
        GROUPS: [group_row(one) for one in groups_of(partitions, policy)],
        PARTITIONS: [partition_row(one) for one in partitions],
    }
    writer = RunWriter(run_id="nightly", attempt="a", job=LAG_JOB)
    window = {"filter": {"topic": wanted.topic, "subscription": wanted.subscription, "namespace": wanted.namespace}}
    start = writer.started(as_of_ms, as_of_ms=as_of_ms, time_limit_s=60, window=window)
    told = [start, *writer.result(as_of_ms, tables, totals={}, window=window)]
    gateway.publish_system(ANALYTICS_TOPIC, *map(encode_record, told))


def subscriptions(report: LagReport) -> Sequence[tuple[str, str, str | None]]:
    return [(row.topic, row.status, row.cause) for row in report.groups]


async def test_groups_come_worst_first_with_their_cause(gateway: MemoryGateway) -> None:
    report = await asked(gateway)
    assert subscriptions(report) == [
        ("/default/slow", "WARN", "too_slow"),
        ("/default/unread", "STOP", "nobody_reads"),
    ]
    assert (report.answered_by, report.statuses, report.total) == ("live", {"WARN": 1, "STOP": 1}, 2)
    assert (
        report.groups[0].evidence == "/default/slow-part-1: the lag does not fall so that it clears within 10 m;"
        " 180 arrived, 81 acknowledged in 45 s"
    )
    assert (report.groups[0].lag_messages, report.groups[0].partitions, report.partitions) == (210, 2, [])


async def test_blocked_subscription_is_named_with_the_next_call(gateway: MemoryGateway) -> None:
    gateway.cluster.topics["/default/unread"].subscriptions["billing"].is_blocked = True
    report = await asked(gateway, partitions=True)
    assert subscriptions(report)[1] == ("/default/unread", "STOP", "blocked")
    assert (report.groups[1].blocked, report.partitions[0].blocked, report.groups[0].blocked) == (1, 1, 0)
    assert "a retry sends them again" in report.groups[1].evidence


async def test_each_group_that_is_behind_has_a_line_of_evidence_below_the_table(gateway: MemoryGateway) -> None:
    report = await asked(gateway)
    view = view_of(ANALYZE_CONSUMER_LAG, report)
    assert view.notes == tuple(f"{row.status} {row.topic} billing: {row.evidence}" for row in report.groups)
    assert with_details(view).notes == view.notes
    many = report.model_copy(update={"groups": [report.groups[0]] * 17})
    assert many.remarks()[10:] == ("7 more have no line here.",)


async def test_without_a_result_auto_answers_live_and_says_so(gateway: MemoryGateway) -> None:
    report = await asked(gateway)
    assert report.reason == "last 3 m (no recent Spark run)"
    assert report.words()["answered_by"] == "live, last 3 m (no recent Spark run)"


async def test_live_and_spark_agree_on_the_same_history(gateway: MemoryGateway) -> None:
    publish_result(gateway, as_of_ms=gateway.clock.now_ms())
    live = await asked(gateway, source="live", partitions=True)
    spark = await asked(gateway, source="spark", partitions=True)
    assert (live.answered_by, spark.answered_by, spark.run_id) == ("live", "spark", "nightly")
    volatile = {"answered_by", "reason", "run_id"}
    assert live.model_dump(exclude=volatile) == spark.model_dump(exclude=volatile)


async def test_auto_takes_a_fresh_result_and_no_stale_one(gateway: MemoryGateway) -> None:
    now_ms = gateway.clock.now_ms()
    publish_result(gateway, as_of_ms=now_ms - round(ANALYTICS_FRESH_S * 1_000) - 1)
    stale = await asked(gateway)
    assert (stale.answered_by, "newest Spark run nightly is 2 m old" in stale.reason) == ("live", True)
    publish_result(gateway, as_of_ms=now_ms)
    assert (await asked(gateway)).answered_by == "spark"


async def test_a_result_for_another_topic_is_no_answer(gateway: MemoryGateway) -> None:
    publish_result(gateway, as_of_ms=gateway.clock.now_ms(), wanted=LagFilter(topic="/default/unread"))
    assert (await asked(gateway)).answered_by == "live"
    assert (await asked(gateway, topic="/default/unread")).answered_by == "spark"


async def test_spark_without_a_result_names_the_call_to_make(gateway: MemoryGateway) -> None:
    with pytest.raises(NotFoundError, match="call run_analytics"):
        await asked(gateway, source="spark")


async def test_filters_and_pages(gateway: MemoryGateway) -> None:
    assert [row.topic for row in (await asked(gateway, topic="/default/slow")).groups] == ["/default/slow"]
    assert [row.topic for row in (await asked(gateway, status="STOP")).groups] == ["/default/unread"]
    assert (await asked(gateway, namespace="staging")).groups == []
    first = await asked(gateway, limit=1)
    second = await asked(gateway, limit=1, cursor=first.next_cursor)
    assert [row.topic for row in (*first.groups, *second.groups)] == ["/default/slow", "/default/unread"]
    assert second.next_cursor is None


async def test_partitions_are_shown_on_request_worst_first(gateway: MemoryGateway) -> None:
    report = await asked(gateway, topic="/default/slow", partitions=True)
    assert [row.topic for row in report.partitions] == ["/default/slow-part-0", "/default/slow-part-1"]
    assert report.partition_total == 2


async def test_an_unknown_subscription_or_topic_is_not_found(gateway: MemoryGateway) -> None:
    with pytest.raises(NotFoundError, match="no subscription 'nobody' on any topic"):
        await asked(gateway, subscription="nobody")
    with pytest.raises(NotFoundError, match="there is no topic /default/nothing"):
        await asked(gateway, topic="/default/nothing")


async def test_the_original_broker_is_told_from_ours(gateway: MemoryGateway) -> None:
    gateway.is_original = True
    with pytest.raises(UnsupportedError, match="original one and publishes no telemetry"):
        await asked(gateway)


async def test_a_subscription_that_telemetry_has_not_told_of_is_there_and_unknown() -> None:
    report = await asked(seeded_gateway())
    found = [(row.subscription, row.status, row.lag_messages, row.consumers) for row in report.groups]
    assert found == [("audit", "UNKNOWN", 5, 0), ("billing", "UNKNOWN", 3, 1)]


async def test_a_deleted_subscription_is_not_shown_although_telemetry_still_tells_of_it(gateway: MemoryGateway) -> None:
    del gateway.cluster.topics["/default/unread"].subscriptions["billing"]
    assert [row.topic for row in (await asked(gateway)).groups] == ["/default/slow"]


async def test_what_strangers_wrote_to_the_telemetry_topic_is_left_out(gateway: MemoryGateway) -> None:
    before = await asked(gateway)
    known = json.loads(encode_telemetry(*history(gateway)[0]))
    wrong = {"at_ms": "x", "head": 2**60, "position": -1, "lag_messages": [], "topic": 7, "sequence": None}
    silent = {"name": "one", "host": None, "since_ms": 1, "in_flight": 1, "offset": 1}
    wrongly_silent = {"name": 7, "host": 7, "since_ms": None, "in_flight": 2**60, "offset": -1}
    strange = [
        *({**known, name: value} for name, value in wrong.items()),
        *({**known, "silent": each} for each in (7, "one", ["one"], [{"name": "one"}])),
        *({**known, "silent": [silent, {**silent, name: value}]} for name, value in wrongly_silent.items()),
    ]
    no_json = (b"\xff", b"{}", b"[" * 100_000, b'{"version": 1, "kind": "topic", "at_ms": 1e999}')
    gateway.publish_system(TELEMETRY_TOPIC, *no_json, *(json.dumps(each).encode() for each in strange))
    after = await asked(gateway)
    assert after.groups == before.groups
    assert f"{len(no_json) + len(strange)} damaged telemetry records skipped" in after.reason
    assert "skipped" not in before.reason


async def test_hostile_names_are_rows_like_others(gateway: MemoryGateway) -> None:
    gateway.serve_hostile_names()
    report = await asked(gateway)
    assert HOSTILE in {row.subscription for row in report.groups}


async def test_a_broker_clock_ahead_of_ours_hides_nothing(gateway: MemoryGateway) -> None:
    ahead = [
        (replace(stamp, at_ms=stamp.at_ms + 60_000, sequence=stamp.sequence + 1_000), row)
        for stamp, row in history(gateway)
    ]
    gateway.publish_system(TELEMETRY_TOPIC, *(encode_telemetry(*record) for record in ahead))
    assert [row.status for row in (await asked(gateway)).groups] == ["WARN", "STOP"]


async def test_live_answers_while_the_results_of_spark_are_on_their_way_to_another_broker(
    gateway: MemoryGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = gateway.system_records

    async def refuse_results(topic: TopicName, **which: Any) -> Any:
        if topic == ANALYTICS_TOPIC:
            raise TopicNotServedError("/system/analytics is being opened by broker 1: try again in a moment")
        return await published(topic, **which)

    monkeypatch.setattr(gateway, "system_records", refuse_results)
    report = await asked(gateway)
    assert report.answered_by == "live"
    assert "results of Spark were not read: /system/analytics is being opened" in report.reason
    with pytest.raises(TopicNotServedError):
        await asked(gateway, source="spark")
