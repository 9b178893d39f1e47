"""Batch reads against a broker process: exactly what was published, by any bounds, and errors that help."""

import zlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark uses

from danube.client import DanubeClient
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.peers.admin import AdminPeer
from tests.spark.conftest import Lake

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.mark.parametrize("rows", [100_000, pytest.param(1_000_000, marks=pytest.mark.nightly)])
def test_many_records_come_back_exactly(lake: Lake, rows: int) -> None:
    payloads = [number.to_bytes(8, "big") * 12 + b"...." for number in range(rows)]
    lake.publish(payloads)
    frame = lake.read(rows_per_partition=rows // 4)
    number = F.conv(F.hex(F.substring("value", 1, 8)), 16, 10).cast("bigint")
    (found,) = frame.agg(
        F.count("*").alias("rows"),
        F.countDistinct("offset").alias("offsets"),
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
        F.sum(F.length("value")).alias("bytes"),
        F.sum((number != F.col("offset")).cast("int")).alias("misplaced"),
        F.sum(F.crc32("value") * (F.col("offset") % 1_000 + 1)).alias("checksum"),
    ).collect()
    assert (found.rows, found.offsets, found.first, found.last) == (rows, rows, 0, rows - 1)
    assert (found.bytes, found.misplaced) == (100 * rows, 0)
    assert found.checksum == sum(zlib.crc32(one) * (at % 1_000 + 1) for at, one in enumerate(payloads))
    assert frame.rdd.getNumPartitions() == 4


def test_read_is_planned_by_offset_range(lake: Lake) -> None:
    lake.publish([b"%d" % number for number in range(1_000)])
    frame = lake.read(rows_per_partition=300, starting=50)
    parts = frame.groupBy(F.spark_partition_id()).agg(F.min("offset"), F.max("offset"), F.count("*")).collect()
    assert sorted(tuple(part)[1:] for part in parts) == [
        (50, 286, 237),
        (287, 524, 238),
        (525, 761, 237),
        (762, 999, 238),
    ]


def test_any_bounds_read_what_lies_between_them(lake: Lake) -> None:
    lake.publish([b"%d" % number for number in range(500)])

    @settings(max_examples=6, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 500))
    def check(one: int, other: int, rows: int) -> None:
        start, end = sorted((one, other))
        assert lake.offsets(starting=start, ending=end, rows_per_partition=rows) == list(range(start, end))

    check()


def test_all_partitions_are_read_and_told_apart(lake: Lake) -> None:
    lake.publish([b"%d" % number for number in range(90)], partitions=3)
    rows = lake.read().groupBy("topic", "partition").agg(F.count("*"), F.max("offset")).collect()
    assert sorted(tuple(row) for row in rows) == [(f"{lake.topic}-part-{n}", n, 30, 29) for n in range(3)]
    first = f"{lake.topic}-part-0"
    assert lake.read(topic=first, starting=20).count() == 10
    others = "".join(f', "{lake.topic}-part-{n}": "latest"' for n in (1, 2))
    assert lake.read(starting=f'{{"{first}": 25{others}}}').count() == 5


def test_messages_that_came_singly_are_read_with_their_attributes_and_keys(lake: Lake) -> None:
    async def send(client: DanubeClient) -> None:
        builder = client.new_producer().with_topic(lake.topic).with_name("one-by-one")
        async with builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build() as producer:
            for number in range(5):
                await producer.send(b"%d" % number, {"n": str(number)})

    lake.with_client(send)
    rows = lake.read().orderBy("offset").collect()
    assert [(row.offset, bytes(row.value), row.attributes, row.producer_name) for row in rows] == [
        (number, b"%d" % number, {"n": str(number)}, "one-by-one") for number in range(5)
    ]
    assert all(abs((row.append_time - row.publish_time).total_seconds()) < 60 for row in rows)


def test_times_find_what_was_appended_since(lake: Lake) -> None:
    lake.publish([b"early"] * 10)
    (last,) = lake.read().agg(F.max("append_time").cast("double").alias("s")).collect()
    after_ms = round(last.s * 1_000) + 1
    assert lake.offsets(starting_timestamp=after_ms) == []
    assert lake.offsets(ending_timestamp=after_ms) == list(range(10))


def test_dataframe_reads_the_same_again_and_load_sees_what_came_since(lake: Lake) -> None:
    lake.publish([b"x"] * 10)
    frame = lake.read(columns="offset,value")
    counts = [frame.count()]
    lake.publish([b"y"] * 5)
    assert [*counts, frame.count(), lake.read().count(), len(frame.columns)] == [10, 10, 15, 2]


def test_filtered_query_does_not_narrow_the_next_one(lake: Lake) -> None:
    lake.publish([b"x"] * 100)
    frame = lake.read()
    assert [frame.where("offset >= 90").count(), frame.count()] == [10, 100]


def test_empty_topic_has_no_rows(lake: Lake) -> None:
    lake.publish([])
    assert lake.read().collect() == []


def test_topic_that_is_not_there_is_an_error_in_a_sentence(lake: Lake) -> None:
    with pytest.raises(AnalysisException) as refused:
        lake.read().count()
    text = str(refused.value)
    assert f"TopicNotFoundError: there is no topic {lake.topic} at {lake.broker.endpoints.service_url}" in text
    assert "JVM stacktrace" not in text
    assert text.count("File ") == 1


def test_topic_that_keeps_nothing_is_an_error_in_a_sentence(lake: Lake) -> None:
    async def create(admin: AdminPeer, topic: TopicName) -> None:
        await admin.create_topic(topic, DispatchStrategy.NON_RELIABLE)

    lake.administer(create)
    with pytest.raises(AnalysisException, match="is not reliable: it keeps no messages"):
        lake.read().count()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"startin": 5}, "did you mean starting"),
        ({"starting": 11}, "can be read from 0 to 10"),
        ({"max_rows_per_trigger": 5}, "max_rows_per_trigger is for streams"),
        ({"service_url": "http://127.0.0.1:1", "timeout_s": 0.1}, "cannot reach 127.0.0.1:1"),
    ],
)
def test_wrong_options_are_refused_without_a_tower_of_calls(
    lake: Lake, options: dict[str, object], sentence: str
) -> None:
    lake.publish([b"x"] * 10)
    with pytest.raises(AnalysisException, match=sentence) as refused:
        lake.read(**options).count()
    assert str(refused.value).count("File ") == 1


def test_schema_of_ones_own_is_refused(lake: Lake) -> None:
    lake.publish([b"x"])
    with pytest.raises(AnalysisException, match="choose with the option columns"):
        lake.spark.read.format("danube").options(**lake.options()).schema("value BINARY").load().count()


def test_topic_that_was_created_again_after_planning_is_noticed(lake: Lake) -> None:
    async def delete(admin: AdminPeer, topic: TopicName) -> None:
        await admin.delete_topic(topic)

    lake.publish([b"old"] * 10)
    frame = lake.read()
    assert frame.count() == 10
    lake.administer(delete)
    lake.publish([b"new"] * 10)
    with pytest.raises(Exception, match="was deleted and created again after this read was planned: load it again"):
        frame.count()


def test_token_is_in_no_plan(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    frame = lake.read(token="s3cret-token")
    frame.explain(extended=True)
    assert "s3cret" not in f"{capsys.readouterr()} {frame} {frame._jdf.queryExecution().toString()}"
