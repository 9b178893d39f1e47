"""Answers of calls: the one answer of a unary call, and the status that ends a failed one."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from danube.model.errors import DanubeError
from danube.model.limits import broker as limits
from danube.runtime.tasks import resolve
from danube.wire.status import Status, opaque_status, status_of

_log = logging.getLogger(__name__)


def status_for(error: Exception, what: str) -> Status:
    """The status that ends `what`; an error that must not cross the wire is logged here with its traceback."""
    if isinstance(error, DanubeError) and error.public:
        status = status_of(error)
        return replace(status, message=status.message[: limits.RPC_STATUS_MESSAGE_CHARS_MAX])
    _log.error("%s failed", what, exc_info=error)
    return status_of(error) if isinstance(error, DanubeError) else opaque_status()


def log_callback_failure(error: Exception, what: str) -> None:
    """Keep the traceback of a callback whose failure has no peer to be told."""
    _log.error("%s: a callback failed after the call had ended", what, exc_info=error)


class PendingAnswer:
    """The answer of one `UnaryCall`, given once or lost. An answer that comes at once needs no future."""

    __slots__ = ("_callbacks", "_lost", "_path", "_settled", "_waiter", "outcome")

    def __init__(self, path: str) -> None:
        self._path = path
        self._callbacks: list[Callable[[], None]] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._settled = False
        self._lost = False
        self.outcome: bytes | Status | None = None
        """The response, or how the call failed; None while neither is known."""

    def reply(self, response: bytes) -> None:
        """Answer the call."""
        self.settle(response)

    def fail(self, error: DanubeError) -> None:
        """Fail the call."""
        if not self._settled:
            self.settle(status_for(error, self._path))

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Have `callback` called if the call ends before it is answered; at once if it has."""
        if self._lost:
            self._run(callback)
        elif not self._settled:
            self._callbacks = [*(self._callbacks or ()), callback]

    def settle(self, outcome: bytes | Status) -> None:
        """Keep the outcome and wake the carrier, unless the call has ended."""
        if self._settled:
            return
        self._settled = True
        self.outcome = outcome
        self._callbacks = None
        resolve(self._waiter, None)

    def lose(self, outcome: Status) -> None:
        """End the call unanswered: its peer is gone, or the time is up. Runs the cancel callbacks."""
        if self._settled:
            return
        callbacks = self._callbacks or ()
        self._lost = True
        self.settle(outcome)
        for callback in callbacks:
            self._run(callback)

    async def wait(self) -> bytes | Status:
        """The outcome, as soon as there is one."""
        if self.outcome is None:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        assert self.outcome is not None  # noqa: S101 - the waiter is woken by settle alone
        return self.outcome

    def _run(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception as error:
            log_callback_failure(error, self._path)
