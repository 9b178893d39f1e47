"""The asking end of one stream."""

import asyncio
from collections.abc import Sequence

from danube.model import errors
from danube.model.errors import DanubeError
from danube.rpc.http2.client.answers import answer_error
from danube.rpc.http2.client.connection import ClientConnection
from danube.rpc.http2.client.connector import Connector
from danube.rpc.http2.protocol.heads import ResponseHead
from danube.rpc.http2.protocol.messages import PREFIX_BYTES, MessageReader
from danube.rpc.http2.protocol.streams import Stream
from danube.rpc.inbox import Inbox
from danube.runtime.clock import within
from danube.runtime.tasks import Wakeup


class Http2ClientStream:
    """A stream that opens at once where its channel has a connection, else by a task that waits for one."""

    def __init__(
        self,
        connector: Connector,
        path: str,
        timeout_s: float | None,
        metadata: Sequence[tuple[str, str]],
        *,
        request: bytes | None = None,
    ) -> None:
        self.stream: Stream | None = None
        self._connector = connector
        self._path = path
        self._timeout_s = timeout_s
        self._metadata = metadata
        self._request = request
        self._half_closed = request is not None
        self._half_close_sent = False
        self._connection: ClientConnection | None = None
        self._inbox = Inbox(connector.options)
        self._reader = MessageReader(connector.options.receive_bytes_max)
        self._opened = False
        self._changed = Wakeup()
        connection = connector.ready()
        if connection is not None and connection.has_room:
            self._begin(connection, timeout_s)
        else:
            beginning = connector.tasks.spawn(self._begin_later(), "open a stream")
            beginning.add_done_callback(self._begun)

    async def send(self, message: bytes) -> None:
        self._check_sending()
        try:
            while not (self._inbox.ended or self._may_send):
                await self._changed.wait()
        except asyncio.CancelledError:
            self.cancel()
            raise
        self._check_sending()
        connection, stream = self._connection, self.stream
        if connection is not None and stream is not None:
            connection.connection.sender.message(stream, message)
            connection.count_unwritten(len(message))
            connection.flush_soon()

    async def half_close(self) -> None:
        self._half_closed = True
        self._send_half_close()

    async def opened(self) -> None:
        while not (self._opened or self._inbox.ended):
            await self._changed.wait()
        if not self._opened:
            self._inbox.raise_if_failed()

    async def receive(self) -> bytes | None:
        message = await self._inbox.get()
        connection, stream = self._connection, self.stream
        if message is not None and connection is not None and stream is not None:
            connection.connection.credit(stream, len(message) + PREFIX_BYTES)
            connection.flush_soon()
        return message

    def cancel(self) -> None:
        if self._connection is not None:
            self._connection.cancel(self)
        self._inbox.drop(errors.CancelledError("the stream was cancelled at this end"))
        self._changed.notify()

    # For the connection.

    def on_head(self, head: ResponseHead, *, ended: bool) -> None:
        error = answer_error(head, self._connector.address, ended=ended)
        if error is not None:
            self.on_end(error)
            return
        self._opened = True
        self._changed.notify()
        if ended:
            self._end(None)

    def on_data(self, data: bytes, *, ended: bool) -> None:
        try:
            messages = self._reader.feed(data)
        except DanubeError as error:
            self.on_end(type(error)(f"the answer of {self._connector.address}: {error}"))
            return
        for message in messages:
            self._inbox.put(message)
        if self.stream is not None and self._connection is not None:
            self._connection.connection.let_in(self.stream, self._reader.missing_bytes)
        if ended:
            self.on_end(errors.InternalError(f"{self._connector.address} ended a stream without its status"))

    def on_end(self, error: DanubeError) -> None:
        self._end(error)

    def on_room(self) -> None:
        self._changed.notify()

    @property
    def _may_send(self) -> bool:
        connection, stream = self._connection, self.stream
        return connection is not None and stream is not None and stream.pending is None and not connection.writes_paused

    def _begin(self, connection: ClientConnection, timeout_s: float | None) -> None:
        self._connection = connection
        stream = connection.open(self, self._path, timeout_s, self._metadata)
        request, self._request = self._request, None
        if request is not None:
            self._half_close_sent = True
            connection.connection.sender.message(stream, request, ended=True)
        elif self._half_closed:
            self._send_half_close()
        self._changed.notify()

    async def _begin_later(self) -> None:
        started_s = self._connector.clock.monotonic_s()
        try:
            async with within(self._connector.clock, self._timeout_s):
                connection = await self._connector.connected()
        except DanubeError as error:
            self._end(error)
            return
        except TimeoutError:
            self._end(errors.DeadlineExceededError(f"no connection to {self._connector.address} in time"))
            return
        if self._inbox.ended:
            return
        timeout_s = self._timeout_s
        if timeout_s is not None:
            timeout_s = max(0.001, timeout_s - (self._connector.clock.monotonic_s() - started_s))
        self._begin(connection, timeout_s)

    def _begun(self, beginning: asyncio.Task[None]) -> None:
        if beginning.cancelled():  # perhaps before its first step
            self._end(self._connector.closed_error())

    def _send_half_close(self) -> None:
        connection, stream = self._connection, self.stream
        if connection is None or stream is None or self._half_close_sent or self._inbox.ended:
            return
        self._half_close_sent = True
        if connection.connection.sender.finish(stream):
            connection.connection.close(stream)
        connection.flush_soon()

    def _end(self, error: DanubeError | None) -> None:
        if self._connection is not None:
            self._connection.cancel(self)
        self._inbox.end(error)
        self._changed.notify()

    def _check_sending(self) -> None:
        if self._half_closed:
            raise errors.InvalidRequestError("the stream was half-closed: nothing more can be sent on it")
        if self._inbox.ended:
            self._inbox.raise_if_failed()
            raise errors.UnavailableError("the server ended the stream: open a new one")
