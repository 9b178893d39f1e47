"""What a broker does every now and then for as long as it lives: each on its own, so that none holds up the others.

A metadata store that is away for a moment, a topic whose change takes long, a fault of our own in one of them: the next
time it is tried again.
"""

import logging
from collections.abc import Awaitable, Callable

from danube.model.errors import DanubeError
from danube.model.limits.broker import SWEEP_INTERVAL_S
from danube.runtime.clock import Clock, sleep_for

_log = logging.getLogger(__name__)


async def sweep_on(clock: Clock, what: str, sweep: Callable[[], Awaitable[object]]) -> None:
    """Call `sweep` every SWEEP_INTERVAL_S, until cancelled. What fails is logged, once in a row of failures."""
    is_failing = False
    while True:
        await sleep_for(clock, SWEEP_INTERVAL_S)
        is_failing = not await _does(what, sweep, is_told=is_failing)


async def _does(what: str, sweep: Callable[[], Awaitable[object]], *, is_told: bool) -> bool:
    try:
        await sweep()
    except DanubeError as error:
        if not is_told:
            _log.warning("%s has to wait, it is tried again every %.0f s: %s", what, SWEEP_INTERVAL_S, error)
        return False
    except Exception:
        if not is_told:
            _log.exception("%s met a fault of its own, and is tried again every %.0f s", what, SWEEP_INTERVAL_S)
        return False
    return True
