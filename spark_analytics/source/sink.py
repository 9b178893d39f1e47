"""The sink `danube`: micro-batches of a query become messages of a reliable topic, each stored once.

A task writes numbered batches under a key that query, micro-batch, task and group of batches give; sizes of batches
and publish times follow from the checkpoint. So a task that runs again, after a kill or on another worker, sends the
same bytes under the same numbers, and the broker stores none of them twice. A group has as many batches as a broker
remembers of one producer.
"""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, StringType, StructType

from danube.client.client import DanubeClient
from danube.model.errors import DanubeError, InvalidRequestError, SettingsError
from danube.model.limits.faces import SPARK_SINK_BYTES, SPARK_SINK_ROWS
from danube.model.topic import DispatchStrategy
from danube.model.untrusted_json import decode_json
from danube.runtime.clock import SystemClock
from danube.runtime.rng import SystemRng
from danube.tables.link import Endpoint, connect

_BATCH_ID, _QUERY_ID = "streaming.sql.batchId", "sql.streaming.queryId"
VALUE = "value"


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """Rows that one task stored."""

    rows: int


class BatchClock(SystemClock):
    """Clock of one micro-batch: the time at which Spark planned it, so a repeated one says the same."""

    def __init__(self, now_ms: int) -> None:
        super().__init__()
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms


class KeyRng(SystemRng):
    """Chance for retries, and one id: the key of a group of numbered batches."""

    def __init__(self, key: int) -> None:
        super().__init__()
        self._key = key

    def new_id(self) -> int:
        return self._key


@dataclass(frozen=True, slots=True)
class Task:
    """One task of one micro-batch."""

    query: str
    batch: int
    number: int

    def key(self, group: int) -> int:
        """Key of its numbered batches, the same each time."""
        text = f"{self.query}/{self.batch}/{self.number}/{group}"
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") % (2**63 - 1) + 1


class DanubeStreamWriter(DataSourceStreamWriter):
    """Writer of one query. `write` runs on workers, the rest on the driver."""

    def __init__(self, endpoint: Endpoint, topic: str, checkpoint: Path, schema: StructType) -> None:
        if schema.fieldNames() != [VALUE] or not isinstance(schema[VALUE].dataType, BinaryType | StringType):
            raise InvalidRequestError("the sink danube takes one column, value, binary or string: select it first")
        self._endpoint, self._topic, self._checkpoint = endpoint, topic, checkpoint

    def write(self, iterator: Iterator[Row]) -> Written:
        """Store the rows of one task. Raises DanubeError."""
        try:
            return Written(asyncio.run(self._write(iterator, *self._task())))
        except DanubeError as error:
            raise error.with_traceback(None) from None

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing to do: what tasks wrote is stored."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing to do: the micro-batch runs again, and continues what is stored."""

    def _task(self) -> tuple[Task, int]:
        context = TaskContext.get()
        batch = context.getLocalProperty(_BATCH_ID) if context else None
        if context is None or batch is None:
            raise SettingsError("the sink danube writes streams: use writeStream")
        task = Task(str(context.getLocalProperty(_QUERY_ID)), int(batch), context.partitionId())
        return task, planned_ms(self._checkpoint, task.batch)

    async def _write(self, rows: Iterator[Row], task: Task, now_ms: int) -> int:
        written = 0
        for group, one in enumerate(groups_of(map(_payload, rows))):
            clock, rng = BatchClock(now_ms), KeyRng(task.key(group))
            async with await connect(self._endpoint, clock, rng) as client:
                written += await self._send(client, task, one)
        return written

    async def _send(self, client: DanubeClient, task: Task, payloads: list[bytes]) -> int:
        """To the topic, or to one partition of it: the same for this task each time."""
        names = await client.partitions(self._topic)
        topic = names[task.number % len(names)] if names else self._topic
        builder = client.new_producer().with_topic(topic).with_name(f"spark-{task.query}").with_deduplication()
        async with builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build() as producer:
            return await producer.send_many(payloads)


def _payload(row: Row) -> bytes:
    value: Any = row[0]
    if value is None:
        raise InvalidRequestError("a row has no value: leave such rows out before the sink")
    return value.encode() if isinstance(value, str) else bytes(value)


def groups_of(payloads: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Payloads in groups that fit the batches that a broker remembers; where one ends follows from the payloads."""
    source = iter(payloads)
    group: list[bytes] = []
    size = 0
    for payload in source:
        group.append(payload)
        size += len(payload)
        if size >= SPARK_SINK_BYTES or len(group) >= SPARK_SINK_ROWS:
            yield group
            group, size = [], 0
    if group:
        yield group


def planned_ms(checkpoint: Path, batch: int) -> int:
    """Time at which Spark planned a micro-batch, from its checkpoint. Raises SettingsError."""
    file = checkpoint / "offsets" / str(batch)
    try:
        with file.open(encoding="utf-8") as lines:
            head = list(islice(lines, 2))
        found = decode_json(head[1])["batchTimestampMs"]
    except (OSError, ValueError, IndexError, KeyError, TypeError):
        raise SettingsError(
            f"cannot read {file}: the sink danube needs a checkpointLocation in a folder that all workers see"
        ) from None
    return int(found)
