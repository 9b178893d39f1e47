"""Sending many messages in batches, where the broker takes them."""

from collections.abc import AsyncIterable, Callable, Iterable, Sequence

from danube.client.publish.batch_stream import OnStored, StoredRange
from danube.client.publish.send_pipeline import OnSent
from danube.client.publish.topic_producer import TopicProducer
from danube.model.calls.client import NO_ATTRIBUTES
from danube.runtime.tasks import TaskScope


class BatchPipeline:
    """Takes payloads in order and gathers them for one topic, or for the partitions of one."""

    def __init__(
        self,
        producers: Sequence[TopicProducer],
        choose: Callable[[], int],
        attributes: dict[str, str] | None,
        *,
        on_sent: OnSent | None,
        on_stored: OnStored | None,
    ) -> None:
        """`choose` says which of `producers` gets the next payload; what it raises ends the pipeline."""
        self._choose = choose
        self._on_sent = on_sent
        self._on_stored = on_stored
        self._sent = 0
        self._scope = TaskScope("send_many")
        self._batch_streams = [
            producer.batch_stream(attributes or NO_ATTRIBUTES, self._stored) for producer in producers
        ]

    async def open(self) -> None:
        """Have a stream to each topic. Raises UnsupportedError where a broker takes no batches, and DanubeError."""
        try:
            for batch_stream in self._batch_streams:
                await batch_stream.open(self._scope)
        except BaseException:
            await self._scope.close()
            raise

    async def run(self, payloads: Iterable[bytes] | AsyncIterable[bytes]) -> int:
        """Send them all and answer how many. Raises what the first failing batch, or the source, raised.

        After a failure of the source what was taken from it is sent all the same.
        """
        try:
            try:
                await self._take_all(payloads)
            finally:
                await self._finish()
        finally:
            await self._scope.close()
        return self._sent

    async def _take_all(self, payloads: Iterable[bytes] | AsyncIterable[bytes]) -> None:
        if isinstance(payloads, AsyncIterable):
            async for payload in payloads:
                batch_stream = self._batch_streams[self._choose()]
                while not batch_stream.take(payload):
                    await batch_stream.wait_for_room()
        else:
            for payload in payloads:
                batch_stream = self._batch_streams[self._choose()]
                while not batch_stream.take(payload):
                    await batch_stream.wait_for_room()

    async def _finish(self) -> None:
        errors: list[Exception] = []
        for batch_stream in self._batch_streams:
            try:
                await batch_stream.finish()
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _stored(self, stored: StoredRange) -> None:
        self._sent += stored.count
        if self._on_stored is not None:
            self._on_stored(stored)
        if self._on_sent is not None:
            self._on_sent(self._sent)
