"""Reads of the times of oldest unread messages, which wait for storage a moment only."""

import asyncio
from collections.abc import Callable

from danube.broker.subscriptions.subscription import ReliableSubscription
from danube.model.limits.broker import UNREAD_TIME_WAIT_S
from danube.runtime.tasks import TaskScope


class UnreadTimes:
    """Has subscriptions read their times. A read that takes longer goes on, and nobody waits for it."""

    def __init__(self, tasks: TaskScope, silence: Callable[[], str | None]) -> None:
        """`silence` answers the reason while the object store does not answer."""
        self._tasks = tasks
        self.silence = silence

    async def read(self, subscription: ReliableSubscription) -> bool:
        """Read one; False where storage does not answer, so others would wait in vain, too."""
        if self.silence() is not None:
            return False
        reading = self._tasks.spawn(subscription.read_unread_time(), "read an append time")
        done, _ = await asyncio.wait([reading], timeout=UNREAD_TIME_WAIT_S)
        return bool(done)
