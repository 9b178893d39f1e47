"""The SDK: a function with `@sink` or `@source`, or a class where state is wanted, becomes a connector.

```python
from danube.connect import Batch, sink, source

@sink(schema=Order)                       # in the file: name = "mine:to_table"
async def to_table(batch: Batch[Order]) -> None:
    await table.insert(batch.values)

@source                                   # resumes after the last position that its topic has
async def ticks(after):
    async for tick in feed.since(after):
        yield tick.value, tick.number     # value, position[, key]
```
"""

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar, overload

from danube.client.typed.decoder import WritersSchema
from danube.connect.batch import Batch, Out, Partition
from danube.connect.config.routes import SinkSettings, SourceSettings
from danube.model.errors import SettingsError

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
WRITERS = WritersSchema()
"""Schema of a sink that takes values of whatever schema a record was written with."""
_ATTRIBUTE = "__danube_connector__"


class Delivery(StrEnum):
    """Delivery class of a connector."""

    EXACTLY_ONCE = "exactly once"
    AT_LEAST_ONCE = "at least once"


class Direction(StrEnum):
    """Direction of a connector, seen from the cluster."""

    SINK = "sink"
    SOURCE = "source"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The surroundings of one task."""

    connector: str
    """The connector's name in its file."""
    settings: Any
    """Its settings: a value of the class that the connector declares."""
    route: Any = None
    """Of a sink's task, the route that it serves; of a source's, the only route, or None where there are several."""


class Side:
    """The other side of one task: one object for each life of the task."""

    def __init__(self, context: Context) -> None:
        self.context = context

    async def open(self) -> None:
        """Connect to it."""

    async def close(self) -> None:
        """Disconnect. Called whatever failed, also after an `open` that raised."""

    async def check(self) -> str:
        """Reach it without changing it, and answer what it is."""
        return "nothing to reach"


class Sink(Side, Generic[T]):
    """A sink with state."""

    async def write(self, batch: Batch[T]) -> None:
        """Write a batch; all of it is durable on return. Raises OtherSideError, RefusedError, or anything."""
        raise NotImplementedError


class ExactSink(Sink[T]):
    """A sink that keeps the end of each batch with its data: exactly once.

    `write` saves `batch.end` under `batch.partition.key` in the transaction of the data, and writes
    `batch.after(saved)` alone: a task that was paused may come back with a batch that another has written.
    """

    async def position(self, partition: Partition) -> int | None:
        """The end that is saved for a partition, or None."""
        raise NotImplementedError


class Source(Side, Generic[T]):
    """A source that is read from a position on."""

    partitions = 1
    """Of the topic; set before it is read. With several the newest batch is read again, and must be the same then."""

    def read(self, after: Any) -> AsyncIterator[Out[T]]:  # noqa: ANN401 - JSON
        """The records after a position, in order and the same each time; None means from the beginning."""
        raise NotImplementedError

    async def confirm(self, position: Any) -> None:  # noqa: ANN401 - JSON
        """All records up to `position` are stored in the topic: the other side may forget them."""


class Emit(Protocol):
    """Sends records of a pushed source."""

    async def __call__(self, topic: str, records: Sequence[Out[Any]]) -> None:
        """Send them in order; returns after the receipt. Raises DanubeError."""


class PushedSource(Side):
    """A source that others push to, such as an HTTP server: it emits, and confirms after the receipt."""

    async def run(self, emit: Emit) -> None:
        """Serve until cancelled."""
        raise NotImplementedError

    async def drain(self) -> None:
        """Take nothing more, and return when what is under way is answered; `run` is cancelled afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A connector as the runner knows it."""

    direction: Direction
    make: Callable[[Context], Any]
    """Its Sink, Source or PushedSource."""
    delivery: Delivery
    settings: type[Any]
    schema: Any = None
    topic: str | None = None
    """The topic of a source whose file has no route."""


Position = Callable[[Partition], Awaitable[int | None]]
Write = Callable[[Batch[Any]], Awaitable[None]]


@overload
def sink(target: F) -> F: ...
@overload
def sink(
    *,
    schema: Any = None,  # noqa: ANN401 - a class of the application
    position: Position | None = None,
    settings: type[Any] | None = None,
) -> Callable[[F], F]: ...
def sink(
    target: Any = None, *, schema: Any = None, position: Position | None = None, settings: type[Any] | None = None
) -> Any:
    """Make a sink of an async function of a batch, or of a subclass of Sink.

    Args:
        target: the function or class, where the decorator has no arguments.
        schema: a dataclass, a pydantic model or another schema of the client, or WRITERS; else values are bytes.
        position: of a function that saves `batch.end` with its data, a function that answers it: exactly once.
        settings: a pydantic model of the connector's section in the file.
    """

    def mark(target: F) -> F:
        if not _extends(target, Sink) and not inspect.iscoroutinefunction(target):
            raise SettingsError(f"{target.__qualname__} is no sink: make it an `async def`, or a subclass of Sink")
        is_exact = position is not None or _extends(target, ExactSink)
        definition = Definition(
            direction=Direction.SINK,
            make=target if isinstance(target, type) else _sink_of(target, position),
            delivery=Delivery.EXACTLY_ONCE if is_exact else Delivery.AT_LEAST_ONCE,
            settings=settings or SinkSettings,
            schema=schema,
        )
        setattr(target, _ATTRIBUTE, definition)
        return target

    return mark if target is None else mark(target)


@overload
def source(target: F) -> F: ...
@overload
def source(
    *,
    schema: Any = None,  # noqa: ANN401 - as above
    topic: str | None = None,
    settings: type[Any] | None = None,
) -> Callable[[F], F]: ...
def source(
    target: Any = None, *, schema: Any = None, topic: str | None = None, settings: type[Any] | None = None
) -> Any:
    """Make a source of an async generator, or of a subclass of Source or PushedSource.

    A generator gets the position after which it is to go on (None at first), and yields `Out`, or tuples of value,
    position and perhaps key. `topic` is for files without a route.
    """

    def mark(target: F) -> F:
        if not _extends(target, Source | PushedSource) and not inspect.isasyncgenfunction(target):
            raise SettingsError(
                f"{target.__qualname__} is no source: make it an async generator, or a subclass of Source"
            )
        definition = Definition(
            direction=Direction.SOURCE,
            make=target if isinstance(target, type) else _source_of(target),
            delivery=Delivery.AT_LEAST_ONCE if _extends(target, PushedSource) else Delivery.EXACTLY_ONCE,
            settings=settings or SourceSettings,
            schema=schema,
            topic=topic,
        )
        setattr(target, _ATTRIBUTE, definition)
        return target

    return mark if target is None else mark(target)


def definition_of(target: object) -> Definition:
    """The definition of what was marked with `@sink` or `@source`. Raises SettingsError for anything else."""
    found: Definition | None = getattr(target, _ATTRIBUTE, None)
    if found is None:
        name = f"{getattr(target, '__module__', '')}:{getattr(target, '__qualname__', target)}"
        raise SettingsError(f"{name} is no connector: decorate it with @sink or @source of danube.connect")
    return found


def _extends(target: object, kind: Any) -> bool:  # noqa: ANN401 - a class, or several
    return isinstance(target, type) and issubclass(target, kind)


def _sink_of(write: Write, position: Position | None) -> Callable[[Context], Sink[Any]]:
    class OfFunction(ExactSink[Any]):
        async def write(self, batch: Batch[Any]) -> None:
            await write(batch)

        async def position(self, partition: Partition) -> int | None:
            return None if position is None else await position(partition)

    return OfFunction


def _source_of(generate: Callable[[Any], AsyncGenerator[Any, None]]) -> Callable[[Context], Source[Any]]:
    class OfGenerator(Source[Any]):
        async def read(self, after: Any) -> AsyncGenerator[Out[Any], None]:  # noqa: ANN401 - JSON
            generator = generate(after)
            try:
                async for each in generator:
                    yield each if isinstance(each, Out) else Out(*each)
            finally:
                await generator.aclose()

    return OfGenerator
