"""The queue between a consumer's streams and the application: bounded, and it ends."""

import asyncio

from danube.client.message import Message
from danube.model.calls.client import ReceivedMessage
from danube.model.errors import DanubeError
from danube.model.limits.broker import CLIENT_RECEIVE_MESSAGES_MAX

_END = Message(ReceivedMessage(0, 0, "", "", 0, b"", 0, ""))


class MessageQueue(asyncio.Queue[Message]):
    """An `asyncio.Queue` whose `get` raises the consumer's error once it has ended and nothing is left in it."""

    def __init__(self) -> None:
        super().__init__(CLIENT_RECEIVE_MESSAGES_MAX)
        self._error: DanubeError | None = None

    def end(self, error: DanubeError) -> None:
        """Let what is queued be taken; then `get` raises `error`. Only the first call counts."""
        if self._error is not None:
            return
        self._error = error
        self._wake_a_getter()

    @property
    def ended(self) -> bool:
        """Whether nothing is put in any more."""
        return self._error is not None

    async def get(self) -> Message:
        """The next message, waiting for it. Raises the error with which the consumer ended."""
        if self._error is not None and self.empty():
            raise self._error
        message = await super().get()
        return self._checked(message)

    def get_nowait(self) -> Message:
        """The next message. Raises asyncio.QueueEmpty, or the error with which the consumer ended."""
        if self._error is not None and self.empty():
            raise self._error
        return self._checked(super().get_nowait())

    def _checked(self, message: Message) -> Message:
        if message is not _END:
            return message
        self._wake_a_getter()
        assert self._error is not None  # noqa: S101 - only `end` puts the mark in
        raise self._error

    def _wake_a_getter(self) -> None:
        """Waiting getters mean an empty queue, so there is room for the mark; each passes it on to the next."""
        if not self.full():
            self.put_nowait(_END)
