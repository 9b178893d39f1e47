"""Surroundings of a task: the cluster, time, metrics, the connector's file, and the state that it tells."""

import logging
from dataclasses import dataclass, field

from danube.client import DanubeClient
from danube.connect.config.file import ConnectorConfig
from danube.connect.failures import reason_of
from danube.connect.metrics import TaskMetrics
from danube.model.records.connectors import Status
from danube.runtime.clock import Clock
from danube.runtime.rng import Rng

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class TaskState:
    """State of one task, as /health, `describe` and the log tell it."""

    connector: str
    task: str
    """The topic or partition; of a source that is pushed to, the connector."""
    topic: str = ""
    """The topic or partition that it reads or fills; empty for several."""
    subscription: str = ""
    status: Status = Status.STARTING
    reason: str = ""
    """Of a status that is not RUNNING."""
    since_s: float = 0.0
    """Monotonic time of the last change of the status."""
    restarts: int = 0
    written: int = 0
    """Records written or sent since the process began."""
    dead: int = 0
    """Those that went to the dead letters."""
    position: object = None
    """Of a sink, the end offset; of a source, its position."""

    def change(self, status: Status, now_s: float, error: BaseException | None = None) -> None:
        """Set the status, and log a change."""
        reason = "" if error is None else reason_of(error)
        if (status, reason) == (self.status, self.reason):
            return
        if status is not self.status:
            self.since_s = now_s
        self.status, self.reason = status, reason
        level = logging.WARNING if status in {Status.RETRYING, Status.FAILED} else logging.INFO
        _log.log(level, "%s, %s: %s%s", self.connector, self.task, status, f": {reason}" if reason else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Parts that every task of a connector has."""

    config: ConnectorConfig
    client: DanubeClient
    clock: Clock
    rng: Rng
    metrics: TaskMetrics
    state: TaskState


@dataclass(slots=True)
class Draining:
    """A wish that a task ends after what it has under way."""

    wanted: bool = field(default=False)
