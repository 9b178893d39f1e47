"""How long to wait before the next attempt at a service that does not answer."""

import asyncio

from danube.model.limits.metadata import METADATA_LOG_RETRY_DELAY_MAX_S, METADATA_RETRY_DELAY_S
from danube.runtime.rng import Rng


class Pause:
    """Waits longer each time, up to a bound, and never exactly as long as another member."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._delay_s = METADATA_RETRY_DELAY_S

    async def __call__(self) -> None:
        """Wait."""
        delay_s = self._delay_s
        self._delay_s = min(2 * delay_s, METADATA_LOG_RETRY_DELAY_MAX_S)
        await asyncio.sleep(self._rng.uniform(delay_s / 2, delay_s))

    def over(self) -> None:
        """It answers again: the next wait is a short one."""
        self._delay_s = METADATA_RETRY_DELAY_S
