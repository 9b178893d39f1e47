"""Pipelines between a consumer and its application: received messages, and acknowledgements in the background."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from danube.client.message import Message
from danube.model.calls.client import ReceivedMessage
from danube.model.errors import DanubeError
from danube.model.limits.broker import CLIENT_ACKS_IN_FLIGHT_MAX, CLIENT_RECEIVE_MESSAGES_MAX
from danube.runtime.tasks import TaskScope

_END = Message(ReceivedMessage(0, 0, "", "", 0, b"", 0, ""))

_log = logging.getLogger(__name__)


class MessageQueue(asyncio.Queue[Message]):
    """A bounded `asyncio.Queue` whose `get` raises the consumer's error once it has ended and is empty."""

    def __init__(self) -> None:
        super().__init__(CLIENT_RECEIVE_MESSAGES_MAX)
        self._error: DanubeError | None = None

    def end(self, error: DanubeError) -> None:
        """Raise `error` from `get` once the queue is empty. Only the first call counts."""
        if self._error is not None:
            return
        self._error = error
        self._wake_a_getter()

    async def get(self) -> Message:
        """The next message, waiting for it. Raises the error with which the consumer ended."""
        self._raise_if_over()
        return self._checked(await super().get())

    def get_nowait(self) -> Message:
        """The next message. Raises asyncio.QueueEmpty, or the error with which the consumer ended."""
        self._raise_if_over()
        return self._checked(super().get_nowait())

    def _raise_if_over(self) -> None:
        if self._error is not None and self.empty():
            raise self._error

    def _checked(self, message: Message) -> Message:
        if message is not _END:
            return message
        self._wake_a_getter()
        assert self._error is not None  # noqa: S101 - only `end` adds the mark
        raise self._error

    def _wake_a_getter(self) -> None:
        """Waiting getters mean an empty queue, so there is room for the mark; each passes it on to the next."""
        if not self.full():
            self.put_nowait(_END)


class AckPipeline:
    """Runs a bounded number of acknowledgements in the background. The message of one that fails comes again."""

    def __init__(self, scope: TaskScope) -> None:
        self._scope = scope
        self._room = asyncio.Semaphore(CLIENT_ACKS_IN_FLIGHT_MAX)
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._error: DanubeError | None = None

    async def add(self, work: Callable[[], Awaitable[None]]) -> None:
        """Start `work`, waiting while there is no room: a function, so that one never started leaves no coroutine."""
        await self._room.acquire()
        self._under_way += 1
        self._idle.clear()
        self._scope.spawn(self._run(work), "acknowledgement")

    async def flush(self) -> None:
        """Return once nothing is under way. Raises the first error since the last time."""
        await self._idle.wait()
        error, self._error = self._error, None
        if error is not None:
            raise error

    async def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except DanubeError as error:
            _log.warning("an acknowledgement failed, its message will come again: %s", error)
            self._error = self._error or error
        finally:
            self._room.release()
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()
