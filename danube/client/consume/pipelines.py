"""Pipelines between a consumer and its application: received messages, and acknowledgements in the background."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from danube.client.consume.inbox import Inbox
from danube.client.message import Message
from danube.model.errors import DanubeError
from danube.model.limits.broker import CLIENT_ACKS_IN_FLIGHT_MAX
from danube.runtime.tasks import TaskScope

_log = logging.getLogger(__name__)


class MessageQueue(asyncio.Queue[Message]):
    """The inbox of a consumer as an `asyncio.Queue`, whose `get` raises the consumer's error once it is over."""

    def __init__(self, inbox: Inbox) -> None:
        super().__init__()
        self._inbox = inbox

    async def get(self) -> Message:
        """The next message, waiting for it. Raises the error with which the consumer ended."""
        return (await self._inbox.get(1))[0]

    def get_nowait(self) -> Message:
        """The next message. Raises asyncio.QueueEmpty, or the error with which the consumer ended."""
        self._inbox.raise_if_over()
        if found := self._inbox.take(1):
            return found[0]
        raise asyncio.QueueEmpty

    def qsize(self) -> int:
        """The number of messages that are there."""
        return self._inbox.messages

    def empty(self) -> bool:
        """Tell whether none is there."""
        return not self._inbox.messages


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
