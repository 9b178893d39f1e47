"""The sink: each row is stored once, also when its micro-batch runs again."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from danube.model.errors import InvalidRequestError, SettingsError
from spark_analytics.source.datasource import DanubeDataSource
from spark_analytics.source.sink import Task, groups_of, planned_ms
from tests.spark.conftest import Lake

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def stream_to(lake: Lake, source: Path, folder: Path, topic: str) -> None:
    rows = lake.spark.readStream.schema("value STRING").format("text").load(str(source))
    sink = rows.writeStream.format("danube").options(service_url=lake.broker.endpoints.service_url, topic=topic)
    sink.option("checkpointLocation", str(folder)).trigger(availableNow=True).start().awaitTermination()


def values(lake: Lake, topic: str) -> list[str]:
    rows = lake.read(topic=topic, columns="value,publish_time").collect()
    return sorted(bytes(row.value).decode() for row in rows)


def test_a_micro_batch_that_runs_again_stores_nothing_twice(lake: Lake, tmp_path: Path) -> None:
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    source.mkdir()
    (source / "a.txt").write_text("\n".join(f"a{number}" for number in range(500)))
    stream_to(lake, source, checkpoint, lake.topic)
    expected = sorted(f"a{number}" for number in range(500))
    assert values(lake, lake.topic) == expected
    (checkpoint / "commits" / "0").unlink()  # as if the query had been killed before it told of the end
    (checkpoint / "commits" / ".0.crc").unlink(missing_ok=True)
    stream_to(lake, source, checkpoint, lake.topic)
    assert values(lake, lake.topic) == expected
    (source / "b.txt").write_text("b")
    stream_to(lake, source, checkpoint, lake.topic)
    assert values(lake, lake.topic) == [*expected, "b"]


def test_keys_groups_and_times_follow_from_query_batch_and_rows(tmp_path: Path) -> None:
    keys = {Task("q", batch, number).key(group) for batch in range(3) for number in range(3) for group in range(3)}
    assert len(keys) == 27
    assert Task("q", 1, 2).key(0) == Task("q", 1, 2).key(0)

    def large() -> Iterator[bytes]:
        yield from (b"x" * 3_000_000 for _ in range(5))

    assert [len(group) for group in groups_of(large())] == [3, 2]
    with pytest.raises(SettingsError, match="a checkpointLocation in a folder that all workers see"):
        planned_ms(tmp_path, 3)


def test_a_sink_without_a_checkpoint_or_with_other_columns_is_refused(lake: Lake, tmp_path: Path) -> None:
    source = DanubeDataSource({"topic": lake.topic})
    with pytest.raises(InvalidRequestError, match="checkpointLocation is missing"):
        source.streamWriter(StructType().add("value", "string"), overwrite=False)
    source = DanubeDataSource({"topic": lake.topic, "checkpointLocation": str(tmp_path)})
    with pytest.raises(InvalidRequestError, match="takes one column, value"):
        source.streamWriter(StructType().add("value", "string").add("more", "integer"), overwrite=False)
