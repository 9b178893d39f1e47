"""Asking the broker, every few seconds, whether an attachment still holds."""

import logging
from collections.abc import Awaitable, Callable

from danube.model.calls.client import HealthStatus
from danube.model.errors import DanubeError, NotFoundError
from danube.model.limits.broker import CLIENT_HEALTH_INTERVAL_S
from danube.runtime.clock import Clock, sleep_for

_log = logging.getLogger(__name__)


async def wait_for_close(ask: Callable[[], Awaitable[HealthStatus]], clock: Clock) -> None:
    """Return once the broker answers that the attachment is to be made anew, or knows nothing of it (any more).

    A check that fails in another way is asked again.
    """
    while True:
        await sleep_for(clock, CLIENT_HEALTH_INTERVAL_S)
        try:
            if await ask() is HealthStatus.CLOSE:
                return
        except NotFoundError:
            return
        except DanubeError as error:
            _log.debug("health check failed, asking again later: %s", error)
