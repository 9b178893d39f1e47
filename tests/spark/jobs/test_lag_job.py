"""Spark's verdicts equal those of the Python rules: on the histories worked by hand, and on random ones."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Observation as Metrics

from danube.model.lag.group import GroupLag, PartitionLag, groups_of, worst_first
from danube.model.lag.history import Times
from danube.model.lag.records import judge_all
from danube.model.lag.verdict import LagPolicy, LagVerdict, Observation
from danube.model.records.telemetry import Reading, Stamp, SubscriptionReading, encode_record
from spark_analytics.jobs import lag as job
from spark_analytics.jobs.lag import VERDICT, lag_groups, lag_partitions
from spark_analytics.telemetry import SKIPPED, telemetry_records
from tests.golden.telemetry.make import BROKER
from tests.unit.model.lag_cases import AT_S, CASES, GONE, POLICY, ms, named, seen

Records = list[tuple[Stamp, Reading]]

pytestmark = pytest.mark.slow


def record(topic: str, subscription: str, one: Observation) -> tuple[Stamp, Reading]:
    """As a broker would publish it."""
    stamp = Stamp(
        broker_id=one.broker_id,
        start_id=one.start_id,
        sequence=one.sequence,
        at_ms=one.at_ms,
        full=False,
        gone=one.gone,
    )
    kept = {name: getattr(one, name) for name in SubscriptionReading._fields if one.kept and hasattr(one, name)}
    reading = SubscriptionReading(
        **{
            **kept,
            "topic": topic,
            "topic_id": one.topic_id,
            "subscription": subscription,
            "subscription_id": one.subscription_id,
            "type": "shared",
            "consumers": one.consumers,
            "consumers_known": one.consumers,
            "messages_out": 0,
        }
    )
    return stamp, reading


def messages(spark: SparkSession, records: Iterable[tuple[Stamp, Reading]], *others: bytes) -> DataFrame:
    rows = [(bytearray(encode_record(stamp, reading)),) for stamp, reading in records]
    return spark.createDataFrame([*rows, *((bytearray(other),) for other in others)], "value BINARY")


def from_spark(spark: SparkSession, records: Records, at_ms: int, policy: LagPolicy) -> list[dict[str, Any]]:
    found = lag_partitions(telemetry_records(messages(spark, records)), Times.at(at_ms), policy)
    return plain(job.worst_first(found))


def plain(rows: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in rows.collect()]


def partition_rows(partitions: Sequence[PartitionLag], at_ms: int) -> list[dict[str, Any]]:
    return [
        {"as_of_ms": at_ms, "topic": one.topic, "subscription": one.subscription, **asdict(one.verdict)}
        for one in worst_first(partitions)
    ]


def group_rows(groups: Sequence[GroupLag], at_ms: int) -> list[dict[str, Any]]:
    return [{"as_of_ms": at_ms, **asdict(one)} for one in groups]


def cases() -> Records:
    """Every history worked by hand, each on a topic and a broker of its own."""
    found = []
    for number, case in enumerate([*(case.observations for case in CASES), GONE]):
        found += [record(f"/default/case-{number}", "billing", one) for one in named(case, number)]
    return found


def random_records(chance: Random) -> Records:
    """Three brokers, topics with partitions that move between them, are deleted, come again, seek and fall silent."""
    found: Records = []
    sequences = dict.fromkeys(range(3), 0)
    starts = dict.fromkeys(range(3), 0)
    things = [(f"/default/t{n // 4}-part-{n % 4}", s) for n in range(12) for s in ("a", "b")]
    for number, (topic, subscription) in enumerate(things):
        head, position, beyond, counter, owner, life = chance.randint(0, 50), 0, 0, 0, number % 3, 0
        second = chance.uniform(-200, 40)
        while second < AT_S + 20:
            second += chance.choice([0.4, 5, 5, 5, 5, 20, 61])
            head += chance.choice([0, 0, 1, 10, 100])
            done = min(head - position - beyond, chance.choice([0, 0, 5, 60]))
            if chance.random() < 0.5:
                position, beyond = position + beyond + done, 0
            else:
                beyond = min(beyond + done, max(0, head - position - 1))
            if chance.random() < 0.04:
                position, beyond = chance.randint(0, head), 0
            if chance.random() < 0.04:
                owner = chance.randrange(3)
            if chance.random() < 0.03:
                starts[owner], counter = starts[owner] + 1, 0
            if chance.random() < 0.02:
                life, head, position, beyond = life + 1, 0, 0, 0
            counter += chance.choice([0, 0, 0, 1, 4])
            sequences[owner] += 1
            one = seen(
                second,
                head,
                position,
                beyond=beyond,
                broker_id=str(owner),
                start_id=f"{owner}-{starts[owner]}",
                sequence=sequences[owner],
                topic_id=str(life),
                gone=chance.random() < 0.04,
                kept=number % 8 != 7,
                consumers=chance.choice([0, 1, 2]) if number % 3 else 0,
                start_offset=chance.randint(0, head),
                in_flight=chance.choice([0, 3]),
                waiting=chance.choice([0, 0, 2, 5]),
                blocked=chance.choice([None, 0, 0, 0, 2]),
                nacked=counter,
                redelivered=counter // 2,
                oldest_s=chance.choice([None, second - 30, second - 1, second + 5]),
                head_s=chance.choice([None, second - 1, second]),
            )
            found.append(record(topic, subscription, one))
    found += chance.sample(found, 20)
    chance.shuffle(found)
    return found


def test_spark_says_of_the_histories_worked_by_hand_what_python_says(spark: SparkSession) -> None:
    records, at_ms = cases(), ms(AT_S)
    expected = partition_rows(judge_all(records, at_ms, POLICY), at_ms)
    assert len(expected) == len(CASES)
    assert from_spark(spark, records, at_ms, POLICY) == expected


def test_verdict_columns_are_the_fields_of_a_verdict(spark: SparkSession) -> None:
    found = lag_partitions(telemetry_records(messages(spark, [])), Times.at(0), POLICY)
    assert found.columns == ["as_of_ms", "topic", "subscription", *VERDICT]
    assert list(LagVerdict.__dataclass_fields__) == list(VERDICT)


@pytest.mark.parametrize("policy", [POLICY, LagPolicy(allowed_lag=20, intervals=6, interval_s=3.0, history_s=120.0)])
def test_spark_says_of_random_histories_what_python_says(spark: SparkSession, policy: LagPolicy) -> None:
    seed = 20_260_101
    times = Times(first_ms=ms(-40), last_ms=ms(AT_S + 30), step_ms=15_000)
    records = random_records(Random(seed))
    partitions = lag_partitions(telemetry_records(messages(spark, records)), times, policy).cache()
    found, found_groups = plain(job.worst_first(partitions)), plain(job.worst_first(lag_groups(partitions, policy)))
    partitions.unpersist()
    expected, expected_groups = [], []
    for at_ms in range(times.first_ms, times.last_ms + 1, times.step_ms):
        judged = judge_all(records, at_ms, policy)
        expected += partition_rows(judged, at_ms)
        expected_groups += group_rows(groups_of(judged, policy), at_ms)
    statuses = {row["rule"] for row in expected}
    assert len(statuses) > 8, statuses
    assert found == expected, f"seed {seed}"
    assert [approx(row) for row in found_groups] == expected_groups, f"seed {seed}"


def approx(row: dict[str, Any]) -> dict[str, Any]:
    """Sums of rates come in any order."""
    return {name: pytest.approx(value) if isinstance(value, float) else value for name, value in row.items()}


def test_what_is_no_record_of_this_version_is_left_out(spark: SparkSession) -> None:
    known = record("/default/orders", "billing", seen(50, 9, 4))
    fields = json.loads(encode_record(*known))
    others = [{**fields, "version": 2}, {**fields, "kind": "weather"}, {**fields, "sequence": None}, [], "x", {}]
    strange = [*(json.dumps(other).encode() for other in others), b"\xff\x00", b"", b"{"]
    newer = json.dumps({**fields, "sequence": 77_777, "colour": "blue"}).encode()
    found = telemetry_records(messages(spark, [known, known], *strange, newer))
    assert sorted(row["sequence"] for row in found.collect()) == [fields["sequence"], 77_777]


def test_messages_that_are_no_telemetry_are_skipped_and_counted(spark: SparkSession) -> None:
    known = record("/default/orders", "billing", seen(50, 9, 4))
    good = encode_record(*known)
    fields = json.loads(good)
    wrong = {"head": [1], "position": 2**70, "full": "x", "lag_messages": 1.5}
    bad = [
        *(b"[" * 100_000, b'{"a":' * 100_000, b'{"version":1,"kind":"broker","x":' + b"[" * 100_000),
        *(b"\xff\xfe", b"NaN", b"9" * 5_000, good.replace(b"orders", b"\xff")),
        *(json.dumps({**fields, name: value}).encode() for name, value in wrong.items()),
    ]
    other = json.dumps({**fields, "version": 2}).encode()
    counts = Metrics()
    found = telemetry_records(messages(spark, [known], *bad, other), counts).cache()
    assert (found.count(), counts.get[SKIPPED]) == (1, len(bad))
    (row,) = plain(lag_partitions(found, Times.at(ms(AT_S)), POLICY))
    assert (row["topic"], row["head"], row["position"]) == ("/default/orders", 9, 4)


def test_a_topic_that_has_no_name_is_no_row(spark: SparkSession) -> None:
    known = record("/default/orders", "billing", seen(50, 9, 4))
    nameless = json.dumps({**json.loads(encode_record(*known)), "topic": {"a": 1}, "sequence": 77}).encode()
    telemetry = telemetry_records(messages(spark, [known], nameless))
    assert [row["topic"] for row in plain(lag_partitions(telemetry, Times.at(ms(AT_S)), POLICY))] == ["/default/orders"]


def test_numbers_that_no_broker_tells_are_left_out(spark: SparkSession) -> None:
    known = record("/default/orders", "billing", seen(50, 9, 4))
    fields = json.loads(encode_record(*known))
    wrong = {"head": 2**62, "position": -5, "at_ms": 2**62, "nacked": 2**48, "blocked": 2**48}
    silent = {"name": "one", "host": None, "since_ms": 1, "in_flight": 1, "offset": 1}
    wrongly_silent = {"name": None, "since_ms": None, "in_flight": 2**62, "offset": -1}
    strange = [
        *wrong.items(),
        *(("silent", each) for each in (7, "one", ["one"], [{"name": "one"}])),
        *(("silent", [silent, {**silent, name: value}]) for name, value in wrongly_silent.items()),
    ]
    others = [{**fields, "sequence": number, name: value} for number, (name, value) in enumerate(strange)]
    telemetry = telemetry_records(messages(spark, [known], *(json.dumps(other).encode() for other in others)))
    (row,) = plain(lag_partitions(telemetry, Times.at(ms(AT_S)), POLICY))
    assert (row["head"], row["position"], row["looks"]) == (9, 4, 1)


def test_a_subscription_that_its_broker_speaks_of_no_longer_is_gone(spark: SparkSession) -> None:
    told = record("/default/orders", "billing", seen(-80, 9, 4))
    stamp = Stamp(broker_id="1", start_id="s1", sequence=99_000, at_ms=ms(49), full=True)
    assert from_spark(spark, [told], ms(AT_S), POLICY)[0]["rule"] == "silent"
    assert from_spark(spark, [told, (stamp, BROKER)], ms(AT_S), POLICY) == []
    assert judge_all([told, (stamp, BROKER)], ms(AT_S), POLICY) == []
