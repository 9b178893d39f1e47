"""Reconciler: makes a metadata store hold what this broker wants, for as long as the broker runs."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from danube.model.errors import DanubeError
from danube.model.limits.metadata import CLUSTER_RETRY_S
from danube.runtime.clock import Clock, sleep_for

_log = logging.getLogger(__name__)


class Reconciler:
    """Looks at what is there and what is wanted after each `wake`, and once more when the store would not have it."""

    def __init__(self, clock: Clock, reconcile: Callable[[], Awaitable[None]], trouble: str) -> None:
        """`reconcile` makes what is there what is wanted, if it is not; `trouble` is logged when that fails."""
        self._clock = clock
        self._reconcile = reconcile
        self._trouble = trouble
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Something changed. Several changes may be looked at together, and none is missed."""
        self._wake.set()

    async def run(self) -> None:
        """Reconcile for ever, one at a time. After an error, a fault of its own too, it is tried again."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._reconcile()
            except DanubeError as error:
                _log.warning("%s, which is tried again: %s", self._trouble, error)
            except Exception:
                _log.exception("%s, by a fault of its own, and it is tried again", self._trouble)
            else:
                continue
            await sleep_for(self._clock, CLUSTER_RETRY_S)
            self._wake.set()
