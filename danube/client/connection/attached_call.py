"""Calls on an attachment, repeated until they succeed or nothing is left to try."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from danube.client.connection.attachment import Attachment
from danube.client.connection.connection import Connection
from danube.client.connection.retry import Failure, GiveUp, Reattach, Wait, after_failed_call
from danube.client.connection.session import Link
from danube.client.settings import RetryOptions
from danube.model.errors import DanubeError, TopicDeletedError
from danube.runtime.clock import sleep_for

T = TypeVar("T")


class AttachedCalls:
    """Makes calls on the link of the moment. A call whose outcome is unknown is made again: at least once."""

    def __init__(self, attachment: Attachment, connection: Connection, options: RetryOptions) -> None:
        self._attachment = attachment
        self._clock = connection.clock
        self._rng = connection.rng
        self._policy = options.policy(0)
        self._total_s = options.call_total_s

    async def run(self, call: Callable[[Link], Awaitable[T]]) -> T:
        """What `call` answers. Raises the DanubeError after which no further try was made."""
        attempt = 0
        failing_since_s: float | None = None
        while True:
            link = await self._attachment.ready()
            try:
                answer = await call(link)
            except TopicDeletedError as error:
                self._attachment.lose(link, error)
                raise
            except DanubeError as error:
                attempt += 1
                now_s = self._clock.monotonic_s()
                failing_since_s = now_s if failing_since_s is None else failing_since_s
                failure = Failure(error=error, attempt=attempt, elapsed_s=now_s - failing_since_s)
                attempt = await self._recover(link, failure)
            else:
                self._attachment.note_use(link)
                return answer

    async def _recover(self, link: Link, failure: Failure) -> int:
        """Do what helps against the failure and answer how many failures there are in this row. Raises its error."""
        chance = self._rng.uniform(0, 1)
        match after_failed_call(self._policy, failure, total_s=self._total_s, chance=chance):
            case Wait(delay_s):
                await sleep_for(self._clock, delay_s)
                return failure.attempt
            case Reattach():
                self._attachment.lose(link, failure.error)
                return 0
            case GiveUp():
                raise failure.error
