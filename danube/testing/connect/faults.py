"""Faults around a connector: its steps stop, raise or refuse, and the connector itself is left alone."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from danube.connect.batch import Batch, Out, Partition
from danube.connect.failures import OtherSideError, RefusedError
from danube.connect.sdk import Context, ExactSink, Sink, SinkDefinition, Source, SourceDefinition


class Step(StrEnum):
    """Places between the steps of a task."""

    OPENED = "opened"
    BEFORE_WRITE = "before a write"
    AFTER_WRITE = "after a write, before the acknowledgement"
    BEFORE_RECORD = "before a record is read"
    BEFORE_CONFIRM = "after the receipt, before the confirmation"
    AFTER_CONFIRM = "after the confirmation"


@dataclass
class Faults:
    """Faults that are wished for."""

    down: bool = False
    """Each write raises OtherSideError."""
    fails: Callable[[bytes], bool] = lambda _: False
    """A batch with such a payload raises a ValueError, which does not say of which record."""
    refuses: Callable[[bytes], bool] = lambda _: False
    """Such payloads are refused by their offsets."""
    stop_at: tuple[Step, int] | None = None
    """The task stands still there the n-th time (from 1), as if the process was paused."""
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    """It stands still."""
    released: asyncio.Event = field(default_factory=asyncio.Event)
    """It may continue."""
    counts: Counter[Step] = field(default_factory=Counter)

    async def reach(self, step: Step) -> None:
        """A task has come to a step."""
        self.counts[step] += 1
        if self.stop_at == (step, self.counts[step]):
            self.stopped.set()
            await self.released.wait()

    def judge(self, batch: Batch[Any]) -> None:
        """Raise what is wished for this batch."""
        if self.down:
            raise OtherSideError("the other side is switched off")
        if any(self.fails(record.payload) for record in batch.records):
            raise ValueError("something about this batch is wrong")
        if refused := [record.offset for record in batch.records if self.refuses(record.payload)]:
            raise RefusedError("refused by the test", refused)


class _FaultySink(Sink[Any]):
    def __init__(self, context: Context, sink: Sink[Any], faults: Faults) -> None:
        super().__init__(context)
        self.inner = sink
        self._faults = faults

    async def open(self) -> None:
        await self.inner.open()
        await self._faults.reach(Step.OPENED)

    async def write(self, batch: Batch[Any]) -> None:
        self._faults.judge(batch)
        await self._faults.reach(Step.BEFORE_WRITE)
        await self.inner.write(batch)
        await self._faults.reach(Step.AFTER_WRITE)

    async def close(self) -> None:
        await self.inner.close()

    async def check(self) -> str:
        return await self.inner.check()


class _FaultyExactSink(_FaultySink, ExactSink[Any]):
    async def position(self, partition: Partition) -> int | None:
        assert isinstance(self.inner, ExactSink)  # noqa: S101 - for mypy; `faulty_sink` has looked
        return await self.inner.position(partition)


def faulty_sink(definition: SinkDefinition, faults: Faults) -> SinkDefinition:
    """The same sink with faults around it."""

    def make(context: Context) -> Sink[Any]:
        inner = definition.make(context)
        kind = _FaultyExactSink if isinstance(inner, ExactSink) else _FaultySink
        return kind(context, inner, faults)

    return replace(definition, make=make)


class _FaultySource(Source[Any]):
    def __init__(self, context: Context, source: Source[Any], faults: Faults) -> None:
        super().__init__(context)
        self._inner = source
        self._faults = faults

    async def open(self) -> None:
        await self._inner.open()
        await self._faults.reach(Step.OPENED)

    async def read(self, after: Any) -> AsyncGenerator[Out[Any], None]:  # noqa: ANN401 - JSON
        async for record in self._inner.read(after):
            await self._faults.reach(Step.BEFORE_RECORD)
            yield record

    async def confirm(self, position: Any) -> None:  # noqa: ANN401 - JSON
        await self._faults.reach(Step.BEFORE_CONFIRM)
        await self._inner.confirm(position)
        await self._faults.reach(Step.AFTER_CONFIRM)

    async def close(self) -> None:
        await self._inner.close()

    async def check(self) -> str:
        return await self._inner.check()


def faulty_source(definition: SourceDefinition, faults: Faults) -> SourceDefinition:
    """The same source with faults around it. Raises TypeError for one that is pushed to."""

    def make(context: Context) -> Source[Any]:
        inner = definition.make(context)
        if not isinstance(inner, Source):
            raise TypeError("a source that is pushed to is tested by pushing")
        return _FaultySource(context, inner, faults)

    return replace(definition, make=make)
