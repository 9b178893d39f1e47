"""Calls of clients that publish and fetch batches, and that detach."""

from collections.abc import Awaitable, Callable, Sequence

from danube.broker.clients.fetch import FetchSession, bounds_of
from danube.broker.clients.producers import ProducerStream
from danube.broker.services.context import ServiceContext
from danube.broker.topics.deduplication import SequencedStream
from danube.broker.topics.publish_stream import PublishSession
from danube.broker.topics.topic import ReliableTopic
from danube.model.calls.stream import (
    Bounds,
    FetchedBatch,
    PublishAcknowledged,
    PublishBatch,
    PublishOpen,
    PublishOpened,
    PublishRefused,
    TopicBounds,
)
from danube.model.errors import DanubeError, InternalError, InvalidRequestError, PreconditionFailedError
from danube.model.limits.broker import BATCH_BYTES_MAX
from danube.model.limits.stream import DEDUPLICATION_BATCHES_MAX, PUBLISH_WINDOW_BYTES
from danube.model.message import numbering_id
from danube.model.plans.plan import Effect
from danube.model.security.grants import Permission
from danube.model.topic import DispatchStrategy, TopicName
from danube.rpc.carrier import ServerStream, UnaryCall, UnaryHandler
from danube.storage.batches.compression import available_codecs
from danube.wire import client_messages, decode, encode


def bounds(context: ServiceContext) -> Callable[[Bounds], Awaitable[TopicBounds]]:
    """Answer the first offset and the end of a topic."""

    async def find(wanted: Bounds) -> TopicBounds:
        return await bounds_of(_reliable(context, wanted.topic).log, wanted.append_times_ms)

    return find


def close_producer(context: ServiceContext) -> UnaryHandler:
    """Detach a producer; one of another topic than the caller's is answered as an unknown one, and stays."""

    def handle(request: bytes, call: UnaryCall) -> bytes:  # noqa: ARG001 - answered at once
        identity = client_messages.CLOSE_PRODUCER.decode(request)
        topic = context.producers.topic_name_of(identity)
        if topic is not None and context.reaches(Permission.PRODUCE, Effect.WRITE, topic):
            context.producers.closed(identity)
        return b""

    return handle


def close_consumer(context: ServiceContext) -> UnaryHandler:
    """Detach a consumer; see `close_producer`."""

    def handle(request: bytes, call: UnaryCall) -> bytes:
        identity = client_messages.CLOSE_CONSUMER.decode(request)
        topic = context.consumers.topic_name_of(identity)
        if topic is not None and context.reaches(Permission.CONSUME, Effect.WRITE, topic):
            context.consumers.close(identity, call.caller.address)
        return b""

    return handle


def _reliable(context: ServiceContext, name: TopicName) -> ReliableTopic:
    topic = context.topics.get(name)
    if not isinstance(topic, ReliableTopic):
        raise PreconditionFailedError(f"{name} is not reliable: it keeps no messages and takes no batches")
    topic.check_readable()
    return topic


class PublishStream:
    """One Publish stream."""

    def __init__(self, context: ServiceContext, stream: ServerStream) -> None:
        self._context = context
        self._stream = stream
        self._session: PublishSession | None = None
        self._producer_id = 0
        self._opening = self._half_closed = self._is_cancelled = False

    def on_message(self, message: bytes) -> None:
        try:
            request = decode.publish_request(message)
            if isinstance(request, PublishOpen):
                self._open(request)
            else:
                self._append(request)
        except DanubeError:
            self.on_cancel()
            raise

    def on_half_close(self) -> None:
        self._half_closed = True
        if self._session is not None:
            self._session.half_close()
        elif not self._opening:
            self._stream.finish()

    def on_ready(self) -> None:
        if self._session is not None:
            self._session.ready()

    def on_cancel(self) -> None:
        self._is_cancelled = True
        if self._session is not None:
            self._session.cancel()

    def _append(self, batch: PublishBatch) -> None:
        if self._session is None:
            raise InvalidRequestError("a batch came before the stream was opened: open it with the first message")
        self._context.producers.is_attached(self._producer_id)  # a sign of life
        self._session.add(batch)

    def _open(self, wanted: PublishOpen) -> None:
        if self._opening:
            raise InvalidRequestError("the stream is open already: open another one for another producer")
        if wanted.strategy is not DispatchStrategy.RELIABLE:
            raise PreconditionFailedError("only reliable topics take batches: send single messages to the others")
        self._opening = True
        self._stream.pause_reading()
        self._context.tasks.spawn(self._attach(wanted), "open a publish stream")

    async def _attach(self, wanted: PublishOpen) -> None:
        try:
            self._begin(wanted, await self._context.producers.open_stream(wanted))
        except DanubeError as error:
            self._stream.fail(error)
        except BaseException:
            self._stream.fail(InternalError("internal error; the broker's log has the details"))
            raise

    def _begin(self, wanted: PublishOpen, attached: ProducerStream) -> None:
        closing = self._context.closing
        if closing is not None or self._is_cancelled:
            attached.close()
            if closing is not None:
                raise closing
            return
        topic = attached.topic
        producer_state = (
            numbering_id(wanted.topic, wanted.producer_name, key) if (key := wanted.deduplication_key) else 0
        )
        self._producer_id = attached.producer.producer_id
        self._session = PublishSession(
            topic,
            _PublishAnswers(self._stream),
            self._context.clock,
            sequenced=SequencedStream(producer_state) if producer_state else None,
            ended=attached.close,
        )
        opened = PublishOpened(
            producer_id=self._producer_id,
            window_bytes=PUBLISH_WINDOW_BYTES,
            batch_bytes_max=BATCH_BYTES_MAX,
            numbering_id=producer_state,
            batches_max=DEDUPLICATION_BATCHES_MAX if producer_state else 0,
            epoch=attached.hold.epoch if attached.hold else 0,
            takes_messages=True,
            codecs=tuple(map(int, available_codecs())),
        )
        self._stream.write(encode.publish_opened(opened))
        self._stream.resume_reading()
        if self._half_closed:
            self._session.half_close()


class _PublishAnswers:
    """Answers of a publish session, as bytes on its stream."""

    def __init__(self, stream: ServerStream) -> None:
        self._stream = stream
        self.pause_reading = stream.pause_reading
        self.resume_reading = stream.resume_reading
        self.finish = stream.finish

    @property
    def room(self) -> int:
        return self._stream.room

    def acknowledge(self, answer: PublishAcknowledged) -> None:
        self._stream.write(encode.publish_acknowledged(answer))

    def refuse(self, answer: PublishRefused) -> None:
        self._stream.write(encode.publish_refused(answer))
        self._stream.finish()


class FetchStream:
    """One Fetch stream."""

    def __init__(self, context: ServiceContext, stream: ServerStream) -> None:
        self._context = context
        self._stream = stream
        self._session: FetchSession | None = None

    def on_message(self, message: bytes) -> None:
        wanted = client_messages.FETCH.decode(message)
        topic = _reliable(self._context, wanted.topic)
        self._session = FetchSession(topic, wanted, _FetchAnswers(self._stream), self._context.tasks)
        self._context.tasks.spawn(self._begin(self._session), "begin a fetch")

    async def _begin(self, session: FetchSession) -> None:
        try:
            if await session.begin():
                self._stream.open()
                session.pump()
        except BaseException:
            self._stream.fail(InternalError("internal error; the broker's log has the details"))
            raise

    def on_half_close(self) -> None:
        """Nothing follows the request."""

    def on_ready(self) -> None:
        if self._session is not None:
            self._session.pump()

    def on_cancel(self) -> None:
        if self._session is not None:
            self._session.cancel()


class _FetchAnswers:
    """Batches for a reader, as bytes on its stream."""

    def __init__(self, stream: ServerStream) -> None:
        self._stream = stream
        self.finish = stream.finish
        self.fail = stream.fail

    @property
    def room(self) -> int:
        return self._stream.room

    def write(self, batches: Sequence[FetchedBatch]) -> None:
        self._stream.write(encode.fetched(batches))
