"""Restarts of a task: one life after the other, for as long as it takes."""

import logging
from collections.abc import Callable
from typing import Protocol

from danube.connect.failures import Backoff, FailureKind, kind_of, retry_after_s_of
from danube.connect.tasks.surroundings import Draining, Surroundings
from danube.model.limits.faces import CONNECT_RESTART_DELAY_MAX_S, CONNECT_RESTART_DELAY_S, CONNECT_STANDBY_S
from danube.model.records.connectors import Status
from danube.runtime.clock import sleep_for

_log = logging.getLogger(__name__)
_BACKOFF = Backoff(first_s=CONNECT_RESTART_DELAY_S, longest_s=CONNECT_RESTART_DELAY_MAX_S)


class Life(Protocol):
    """One life of a task."""

    async def run(self) -> None:
        """Serve until it is to drain. Raises what ends it."""


async def live(around: Surroundings, make: Callable[[], Life], draining: Draining) -> None:
    """Live one life after the other, until one is complete, it is to drain, or its configuration is wrong."""
    state, failures = around.state, 0
    while not draining.wanted:
        written = state.written
        around.metrics.health.set(1)
        try:
            await make().run()
            break
        except Exception as error:
            kind = kind_of(error)
            failures = 1 if state.written > written else failures + 1
            _tell(around, kind, error)
            if kind is FailureKind.CONFIGURATION:
                return
            if kind is FailureKind.STANDBY:
                await sleep_for(around.clock, CONNECT_STANDBY_S)
            else:
                delay_s = _BACKOFF.delay_s(failures, around.rng.uniform(0, 1))
                await sleep_for(around.clock, max(delay_s, retry_after_s_of(error)))
    state.change(Status.STOPPED, around.clock.monotonic_s())


def _tell(around: Surroundings, kind: FailureKind, error: Exception) -> None:
    statuses = {FailureKind.CONFIGURATION: Status.FAILED, FailureKind.STANDBY: Status.STANDBY}
    status = statuses.get(kind, Status.RETRYING)
    if kind is FailureKind.UNKNOWN:
        _log.error("%s, %s failed", around.config.name, around.state.task, exc_info=error)
    if status is Status.RETRYING:
        around.state.restarts += 1
        around.metrics.restarts.inc()
    around.metrics.health.set(0 if status in {Status.RETRYING, Status.FAILED} else 1)
    around.state.change(status, around.clock.monotonic_s(), error)
