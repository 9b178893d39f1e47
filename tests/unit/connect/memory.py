"""Sinks and a source whose other side is this process: the ones that the contract suite itself is tested with."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any

from danube.connect.batch import Batch, Out, Partition
from danube.connect.sdk import Context, Definition, ExactSink, Sink, Source, definition_of, sink, source


@sink
class MemorySink(Sink[bytes]):
    """Keeps payloads in a list, at least once."""

    def __init__(self, context: Context, side: "MemorySide | None" = None) -> None:
        super().__init__(context)
        self._side = side or MemorySide()

    async def write(self, batch: Batch[bytes]) -> None:
        self._side.payloads.extend(batch.values)


@sink
class MemoryExactSink(ExactSink[bytes]):
    """Keeps payloads in a list and the end beside them: exactly once."""

    def __init__(self, context: Context, side: "MemorySide | None" = None) -> None:
        super().__init__(context)
        self._side = side or MemorySide()

    async def position(self, partition: Partition) -> int | None:
        return self._side.ends.get(partition.key)

    async def write(self, batch: Batch[bytes]) -> None:
        key = batch.partition.key
        fresh = batch.after(self._side.ends.get(key))
        self._side.payloads.extend(fresh.values)
        self._side.ends[key] = max(batch.end, self._side.ends.get(key, 0))


@source
class MemorySource(Source[bytes]):
    """Reads a list; a position is an index."""

    def __init__(self, context: Context, side: "MemorySide | None" = None) -> None:
        super().__init__(context)
        self._side = side or MemorySide()

    async def read(self, after: Any) -> AsyncGenerator[Out[bytes], None]:
        index = 0 if after is None else int(after) + 1
        assert index > self._side.confirmed, "it is asked for what it was told to forget"
        while True:
            while index < len(self._side.payloads):
                payload = self._side.payloads[index]
                yield Out(payload, position=index, key=payload.decode("latin-1"))
                index += 1
            self._side.added.clear()
            await self._side.added.wait()

    async def confirm(self, position: Any) -> None:
        self._side.confirmed = max(self._side.confirmed, int(position))


class MemorySide:
    """The memory that these write to or read from."""

    def __init__(self, kind: type[MemorySink | MemoryExactSink | MemorySource] = MemorySink) -> None:
        self._kind = kind
        self.payloads: list[bytes] = []
        self.ends: dict[str, int] = {}
        self.added = asyncio.Event()
        self.confirmed = -1

    @property
    def definition(self) -> Definition:
        """The connector, with this memory for its other side."""
        kind: Any = self._kind
        return replace(definition_of(kind), make=lambda context: kind(context, self))

    @property
    def section(self) -> dict[str, Any]:
        """It has no settings."""
        return {}

    @property
    def route(self) -> dict[str, Any]:
        """Nor has its route."""
        return {}

    async def rows(self) -> Sequence[bytes]:
        """The payloads."""
        return list(self.payloads)

    async def add(self, payloads: Sequence[bytes]) -> None:
        """Add payloads for the source."""
        self.payloads.extend(payloads)
        self.added.set()
