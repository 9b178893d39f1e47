"""A sink and an ingest in a process group of their own, which kills itself at a given place: parameters as JSON."""

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame, Row
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from danube.runtime.clock import SystemClock
from spark_analytics.ingest import log, tables
from spark_analytics.ingest.log import Commit
from spark_analytics.ingest.request import IngestRequest
from spark_analytics.ingest.stream import ingest
from spark_analytics.progress import Steps
from spark_analytics.results import Cluster
from spark_analytics.session import spark_session
from spark_analytics.source.datasource import DanubeDataSource
from spark_analytics.source.sink import DanubeStreamWriter, Written


@dataclass(frozen=True)
class Place:
    """Where the group of processes is killed."""

    name: str
    batch: int
    at: int
    group: int

    def kill(self, name: str, batch: int | None) -> None:
        if name == self.name and batch in {None, self.batch}:
            os.killpg(self.group, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)  # a worker is in a group of its own


def main() -> None:
    given = json.loads(sys.argv[1])
    place = Place(given["place"], given["batch"], given["at"], os.getpgid(0))
    spark = spark_session("killed", "local[2]", **{"spark.sql.shuffle.partitions": 2})
    folder = Path(given["folder"])
    if "topic" in given:

        class KilledWriter(DanubeStreamWriter):
            """The sink's writer; this class is sent to the workers by value."""

            def write(self, iterator: Iterator[Row]) -> Written:
                context = TaskContext.get()
                batch = int(str(context.getLocalProperty("streaming.sql.batchId"))) if context else -1
                if (place.name, place.batch) == ("delay", batch):
                    threading.Timer(place.at / 1_000, place.kill, ("delay", batch)).start()
                written = super().write(self._counted(iterator, batch))
                place.kill("sent", batch)
                place.kill("delay", batch)
                return written

            def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
                place.kill("commit", batchId)
                super().commit(messages, batchId)

            def _counted(self, rows: Iterator[Row], batch: int) -> Iterator[Row]:
                for number, row in enumerate(rows):
                    if number == place.at:
                        place.kill("row", batch)
                    yield row

        class KilledSource(DanubeDataSource):
            def streamWriter(self, schema: StructType, overwrite: bool) -> DanubeStreamWriter:  # noqa: N802 - Spark's
                made = super().streamWriter(schema, overwrite)
                return KilledWriter(made._endpoint, made._topic, made._checkpoint, schema)

        spark.dataSource.register(KilledSource)
        url, topic = given["service_url"], given["topic"]
        rows = spark.readStream.format("danube").options(
            service_url=url, topic=topic, columns="value", max_rows_per_trigger=str(given["max_rows"])
        )
        sink = rows.load().writeStream.format("danube").options(service_url=url, topic=f"{topic}-copy")
        query = sink.option("checkpointLocation", str(folder / "sink")).trigger(availableNow=True).start()
        query.awaitTermination()
    if "table" in given:
        _kill_ingest(place)
        request = IngestRequest(
            cluster=Cluster(service_url=given["service_url"]), folder=folder / "table", max_rows=given["max_rows"]
        )
        clock = SystemClock()
        ingest(spark, request, clock.now_ms(), Steps(clock, shown=False))


def _kill_ingest(place: Place) -> None:
    add_commit, write = log.add_commit, tables.ParquetTable._write

    def killed_commit(table: Path, commit: Commit) -> None:
        place.kill(f"{commit.reason} written", commit.batch)
        add_commit(table, commit)
        place.kill(f"{commit.reason} committed", commit.batch)

    def killed_write(self: tables.ParquetTable, rows: DataFrame, name: str) -> Any:
        if name.startswith("batch-"):
            place.kill("batch begun", int(name.split("-")[1]))
        return write(self, rows, name)

    vars(tables)["add_commit"] = killed_commit
    tables.ParquetTable._write = killed_write  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
