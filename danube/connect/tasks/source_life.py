"""Life of a source's task: from its position in the topic on, one batch after the other."""

import logging
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from danube.client import Producer
from danube.client.publish.accumulator import Router
from danube.client.publish.pipelines import OutgoingRecord
from danube.connect.batch import Out
from danube.connect.config.routes import SourceRoute
from danube.connect.sdk import Context, Definition, Source
from danube.connect.tasks import positions
from danube.connect.tasks.feed import Feed
from danube.connect.tasks.outgoing import payload_of, producer_of
from danube.connect.tasks.positions import Held, Mark, Resume
from danube.connect.tasks.pump import Pump
from danube.connect.tasks.surroundings import Draining, Surroundings
from danube.model.errors import OffsetTrimmedError, SettingsError
from danube.model.limits.faces import CONNECT_IDLE_S, CONNECT_SEARCH_RECORDS
from danube.model.records.connectors import Status
from danube.runtime.clock import sleep_for

_log = logging.getLogger(__name__)


class SourceLife:
    """From one position to its end. Raises what ends it; a new one continues after what is stored."""

    def __init__(
        self,
        around: Surroundings,
        definition: Definition,
        context: Context,
        route: SourceRoute,
        *,
        draining: Draining,
    ) -> None:
        self._around = around
        self._source: Source[Any] = definition.make(context)
        self._route = route
        self._draining = draining
        self._schema = definition.schema
        self._partitions: Sequence[str] = ()
        self._batch = 1
        self._after: Any = None
        self._held = Held({})

    async def run(self) -> None:
        """Serve until it is to drain."""
        producer: Producer | None = None
        feed: Feed | None = None
        try:
            await self._source.open()
            producer = await producer_of(
                self._around.client, self._around.config, self._route, is_exclusive=True, schema=self._schema
            )
            feed = Feed(producer)
            await feed.open()  # before the position is read: an older task stores nothing any more
            self._begin(await self._resume())
            self._source.partitions = len(self._partitions)
            self._around.state.change(Status.RUNNING, self._around.clock.monotonic_s())
            while not self._draining.wanted:
                await self._read_to_end(feed)
        finally:
            try:
                if feed is not None:
                    await feed.close()
                if producer is not None:
                    await producer.close()
            finally:
                await self._source.close()

    def _begin(self, resume: Resume) -> None:
        self._after, self._batch, self._held = resume.after, resume.batch, Held(resume.held)
        self._around.state.position = resume.after
        if resume.after is not None:
            _log.info("%s: continues after position %s", self._around.config.name, positions.encoded(resume.after))

    async def _read_to_end(self, feed: Feed) -> None:
        """Send what the source has; one that comes to an end is asked again after a while."""
        processing = self._around.config.processing
        pump = Pump(self._source.read(self._after), processing.batch_size, self._around.clock)
        pump.start()
        try:
            while not (self._draining.wanted or pump.ended):
                batch = await pump.batch(idle_s=CONNECT_IDLE_S, linger_s=processing.batch_timeout_ms / 1_000)
                if batch:
                    await self._send(feed, batch)
        finally:
            await pump.close()
        if not self._draining.wanted:
            await sleep_for(self._around.clock, processing.poll_interval_ms / 1_000)

    async def _send(self, feed: Feed, batch: Sequence[Out[Any]]) -> None:
        self._around.metrics.received.inc(len(batch))
        with self._around.metrics.batch(len(batch)):
            records = self._records(batch)
            await feed.store(records)
            before, self._after = self._after, batch[-1].position
            self._batch += 1
            # Of several partitions one may lack its part of this batch after a crash: the batch is read again.
            if (stored := self._after if len(self._partitions) == 1 else before) is not None:
                await self._source.confirm(stored)
        self._around.metrics.processed.inc(len(records))
        self._around.metrics.repeated.inc(len(batch) - len(records))
        self._around.state.written += len(records)
        self._around.state.position = self._after

    def _records(self, batch: Sequence[Out[Any]]) -> list[OutgoingRecord]:
        """The records to be stored: those that their partition does not hold."""
        found, after = [], positions.encoded(self._after)
        router = Router(len(self._partitions))
        for record in batch:
            if record.position is None:
                raise SettingsError(
                    f"{self._around.config.name} sent a record without a position, and could not resume after it: "
                    "yield a value and its position"
                )
            position = positions.encoded(record.position)
            partition = router.choose(self._key(record))
            if self._held.drops(partition, position):
                continue
            mark = positions.attributes_of(
                self._around.config.name, Mark(position, self._batch, after), is_partitioned=len(self._partitions) > 1
            )
            value = record.value if self._schema is not None else payload_of(record.value)
            found.append(OutgoingRecord(value, record.key, {**record.attributes, **mark}))
        return found

    def _key(self, record: Out[Any]) -> str | None:
        if record.key is None and len(self._partitions) > 1:
            raise SettingsError(
                f"{self._around.config.name} sent a record without a key to {self._route.to}, which has partitions: "
                "give each record a key, or take a topic without partitions"
            )
        return record.key

    async def _resume(self) -> Resume:
        """The place to resume at, from what the topic holds."""
        self._partitions = await self._around.client.partitions(self._route.to)
        return positions.resume_of([await self._last_mark(topic) for topic in self._partitions])

    async def _last_mark(self, topic: str) -> Mark | None:
        """The mark of this source's last record, further and further back."""
        client, count = self._around.client, CONNECT_SEARCH_RECORDS
        bounds = await client.bounds(topic)
        end = bounds.end_offset
        while end > bounds.start_offset:
            start, found = max(bounds.start_offset, end - count), None
            try:
                async with aclosing(client.fetch(topic, start=start, end=end)) as stored:
                    async for message in stored:
                        found = positions.mark_of(self._around.config.name, message.attributes) or found
            except OffsetTrimmedError:
                bounds = await client.bounds(topic)
                continue
            if found is not None:
                return found
            end, count = start, 10 * count
        return None
