"""Life of a source that is pushed to: it serves, and emits to the topics of its routes."""

import asyncio
from collections.abc import Sequence
from typing import Any

from danube.client import Producer
from danube.connect.batch import Out
from danube.connect.config.routes import SourceRoute
from danube.connect.failures import OtherSideError
from danube.connect.sdk import Context, Definition, PushedSource
from danube.connect.tasks.outgoing import producer_of, send
from danube.connect.tasks.surroundings import Draining, Surroundings
from danube.model.errors import InvalidRequestError, TopicDeletedError
from danube.model.limits.faces import CONNECT_IDLE_S
from danube.model.records.connectors import Status
from danube.runtime.tasks import TaskScope


class PushedLife:
    """From its start to its end. Raises what ends it."""

    def __init__(
        self,
        around: Surroundings,
        definition: Definition,
        context: Context,
        routes: Sequence[SourceRoute],
        *,
        draining: Draining,
    ) -> None:
        self._around = around
        self._source: PushedSource = definition.make(context)
        self._routes = routes
        self._draining = draining
        self._schema = definition.schema
        self._producers: dict[str, Producer] = {}

    async def run(self) -> None:
        """Serve until it is to drain."""
        around, scope = self._around, TaskScope(f"connector {self._around.config.name}")
        try:
            for route in self._routes:
                self._producers[route.to] = await producer_of(
                    around.client, around.config, route, is_exclusive=False, schema=self._schema
                )
            serving = scope.spawn(self._source.run(self._emit), "serve")
            around.state.change(Status.RUNNING, around.clock.monotonic_s())
            while not (serving.done() or self._draining.wanted):
                await asyncio.wait([serving], timeout=CONNECT_IDLE_S)
            if serving.done():
                serving.result()
                raise OtherSideError("the server has ended by itself")
            await self._source.drain()
        finally:
            await scope.close()
            for producer in self._producers.values():
                await producer.close()

    async def _emit(self, topic: str, records: Sequence[Out[Any]]) -> None:
        metrics, producer = self._around.metrics, self._producers.get(topic)
        if producer is None:
            raise InvalidRequestError(f"no route leads to {topic}: name it in the file")
        metrics.received.inc(len(records))
        with metrics.batch(len(records)):
            try:
                await send(producer, records, is_typed=self._schema is not None)
            except TopicDeletedError:
                await producer.create()
                raise
            except Exception:
                metrics.failed.inc(len(records))
                raise
        metrics.processed.inc(len(records))
        self._around.state.written += len(records)
