"""`decode=true`: payloads are typed values, whichever version of their schema wrote them; and the function topics."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.errors import PySparkException

import spark_analytics
from danube.client import DanubeClient, DispatchStrategy, SchemaType
from danube.client.typed.avro import AvroSchema
from tests.spark.conftest import Lake

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

OLD = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
LOCAL = {"type": "long", "logicalType": "local-timestamp-micros"}
NEW = {
    **OLD,
    "fields": [
        *OLD["fields"],
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
        {"name": "at", "type": ["null", LOCAL], "default": None},
    ],
}
AT = datetime(2026, 3, 8, 2, 30, 0, 1)  # noqa: DTZ001 - a local time, which no clock of New York ever showed


def test_avro_of_two_versions_is_one_typed_column(lake: Lake) -> None:
    async def publish(client: DanubeClient) -> None:
        for number, definition in enumerate((OLD, NEW)):
            registration = client.schema().register_schema("orders-decoded").with_type(SchemaType.AVRO)
            await registration.with_schema_data(json.dumps(definition).encode()).execute()
            builder = client.new_producer().with_topic(lake.topic).with_name(f"p{number}")
            builder = builder.with_schema_subject("orders-decoded")
            async with builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build() as producer:
                value: dict[str, Any] = {"id": 10 + number} | ({"tags": ["a", "b"], "at": AT} if number else {})
                await producer.send_many([AvroSchema(definition).encode(value)] * 3)
                await producer.send(b"\xff")
        await client.schema().configure_topic_schema(lake.topic, "orders-decoded")

    lake.with_client(publish)
    read = lake.read(decode="true", columns="offset")
    assert (
        read.schema.simpleString()
        == "struct<offset:bigint,decoded:struct<id:bigint,tags:array<string>,at:timestamp_ntz>>"
    )
    rows = [(row.offset, row.decoded and row.decoded.asDict()) for row in read.orderBy("offset").collect()]
    assert [value for _, value in rows] == [
        *[{"id": 10, "tags": [], "at": None}] * 3,
        None,
        *[{"id": 11, "tags": ["a", "b"], "at": AT}] * 3,
        None,
    ]
    assert read.where("decoded.id = 11").count() == 3


def test_a_topic_without_a_schema_says_so(lake: Lake) -> None:
    lake.publish([b"x"])
    with pytest.raises(PySparkException, match="has no schema: bind it to a subject"):
        lake.read(decode="true").count()


def test_times_are_bounds_by_the_clock_of_the_broker(lake: Lake) -> None:
    lake.publish([b"x"] * 3)
    middle_ms = 1 + max(int(row.append_time.timestamp() * 1_000) for row in lake.read(columns="append_time").collect())
    while datetime.now(UTC).timestamp() * 1_000 <= middle_ms:
        pass
    lake.publish([b"y"] * 4)
    text = datetime.fromtimestamp(middle_ms / 1_000, UTC).isoformat()
    assert lake.offsets(starting_timestamp=text) == [3, 4, 5, 6]
    assert lake.offsets(ending_timestamp=str(middle_ms)) == [0, 1, 2]


def test_topics_are_listed_with_their_ends(lake: Lake) -> None:
    lake.publish([b"x"] * 5, partitions=2)
    rows: list[Any] = []
    while not rows:  # until the broker has published its telemetry
        found = spark_analytics.topics(lake.spark, lake.broker.endpoints.service_url)
        rows = found.where(f"partition_base = '{lake.topic}' AND head > 0").orderBy("partition_index").collect()
    assert [(row.topic, row.partition_index, row.strategy) for row in rows] == [
        (f"{lake.topic}-part-{number}", number, "reliable") for number in range(2)
    ]
    assert sum(row.head for row in rows) == 5
