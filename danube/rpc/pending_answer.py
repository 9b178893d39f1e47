"""The answer that one unary call is owed: given at most once, waited for by the carrier, or lost with its peer."""

import asyncio
from collections.abc import Callable

from danube.model.errors import DanubeError
from danube.rpc.failure import log_callback_failure, status_for
from danube.wire.status import Status


class PendingAnswer:
    """What `UnaryCall`s of all carriers share. No future is made for an answer that comes at once."""

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
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

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
