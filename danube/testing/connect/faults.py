"""Faults around a connector: its steps stop, raise or refuse, and the connector itself is left alone."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from danube.connect.batch import Batch, Out
from danube.connect.failures import OtherSideError, RefusedError
from danube.connect.sdk import Definition
from danube.testing.patience import PATIENCE_S


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

    async def stands(self) -> None:
        """Wait until a task stands still. Raises TimeoutError after PATIENCE_S."""
        async with asyncio.timeout(PATIENCE_S):
            await self.stopped.wait()

    async def stands_or(self, is_so: Callable[[], Awaitable[bool]]) -> None:
        """Wait until a task stands still or, as it never comes there, something else is so."""
        async with asyncio.timeout(PATIENCE_S):
            while not (self.stopped.is_set() or await is_so()):  # noqa: ASYNC110 - the other side tells nobody
                await asyncio.sleep(0.01)

    def judge(self, batch: Batch[Any]) -> None:
        """Raise what is wished for this batch."""
        if self.down:
            raise OtherSideError("the other side is switched off")
        if any(self.fails(record.payload) for record in batch.records):
            raise ValueError("something about this batch is wrong")
        if refused := [record.offset for record in batch.records if self.refuses(record.payload)]:
            raise RefusedError("refused by the test", refused)


class _Faulty:
    """Stands for a sink or a source, with faults before and after its steps."""

    def __init__(self, inner: Any, faults: Faults) -> None:  # noqa: ANN401 - a Sink or a Source
        self._inner = inner
        self._faults = faults

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as the inner one has it
        return getattr(self._inner, name)

    async def open(self) -> None:
        await self._inner.open()
        await self._faults.reach(Step.OPENED)

    async def write(self, batch: Batch[Any]) -> None:
        self._faults.judge(batch)
        await self._faults.reach(Step.BEFORE_WRITE)
        await self._inner.write(batch)
        await self._faults.reach(Step.AFTER_WRITE)

    async def read(self, after: Any) -> AsyncGenerator[Out[Any], None]:  # noqa: ANN401 - JSON
        async with aclosing(self._inner.read(after)) as records:
            async for record in records:
                await self._faults.reach(Step.BEFORE_RECORD)
                yield record

    async def confirm(self, position: Any) -> None:  # noqa: ANN401 - JSON
        await self._faults.reach(Step.BEFORE_CONFIRM)
        await self._inner.confirm(position)
        await self._faults.reach(Step.AFTER_CONFIRM)


def faulty(definition: Definition, faults: Faults | None) -> Definition:
    """The same connector with faults around it, if there are any."""
    if faults is None:
        return definition
    return replace(definition, make=lambda context: _Faulty(definition.make(context), faults))
