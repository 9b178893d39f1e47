"""Connectors as their runners tell of them, and the wishes of administrators, both kept in metadata. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum


class Status(StrEnum):
    """State of a task; the worst first."""

    FAILED = "failed"
    """Its configuration is wrong."""
    RETRYING = "retrying"
    """It failed, and begins anew after a while."""
    STARTING = "starting"
    STANDBY = "standby"
    """Another runner has its place, or its topic is not there."""
    PAUSED = "paused"
    STOPPED = "stopped"
    RUNNING = "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorTask:
    """One task, as its runner tells of it."""

    connector: str
    kind: str
    direction: str
    delivery: str
    task: str
    topic: str = ""
    """The topic or partition that it reads or fills; empty for several."""
    subscription: str = ""
    status: Status
    reason: str = ""
    since_ms: int = 0
    restarts: int = 0
    written: int = 0
    dead: int = 0
    rate: float = 0.0
    position: str = ""
    """JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerReport:
    """The tasks of one runner."""

    runner: str
    tasks: tuple[ConnectorTask, ...] = ()
    release: bool = False
    """It ends."""
    principal: str = ""
    """The principal that told, by authentication; empty without it."""


class Change(StrEnum):
    """A thing that administrators want of a connector."""

    PAUSE = "pause"
    RESUME = "resume"
    RESTART = "restart"
    REPLAY = "replay"
    """Write its dead letters again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeConnector:
    """A wish."""

    connector: str
    change: Change
    set_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorWish:
    """All wishes for one connector; a runner acts when a number has grown."""

    connector: str
    paused: bool = False
    restarts: int = 0
    replays: int = 0
    set_by: str = ""
    set_ms: int = 0

    def after(self, wanted: ChangeConnector, now_ms: int) -> "ConnectorWish":
        """The wishes with one more."""
        change = wanted.change
        return replace(
            self,
            paused=change is Change.PAUSE or (self.paused and change is not Change.RESUME),
            restarts=self.restarts + (change is Change.RESTART),
            replays=self.replays + (change is Change.REPLAY),
            set_by=wanted.set_by,
            set_ms=now_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorBook:
    """All connectors that runners tell of, and all wishes."""

    runners: tuple[RunnerReport, ...] = ()
    wishes: tuple[ConnectorWish, ...] = ()

    def tasks_of(self, connector: str) -> list[tuple[str, ConnectorTask]]:
        """The tasks of a connector, with their runners."""
        return [(each.runner, task) for each in self.runners for task in each.tasks if task.connector == connector]

    def names(self) -> list[str]:
        """Every connector, in order."""
        told = {task.connector for runner in self.runners for task in runner.tasks}
        return sorted(told | {wish.connector for wish in self.wishes if wish.paused})

    def wish_for(self, connector: str) -> ConnectorWish:
        """The wishes for a connector."""
        return next((wish for wish in self.wishes if wish.connector == connector), ConnectorWish(connector=connector))


def worst(statuses: Iterable[Status]) -> Status | None:
    """The status of several tasks as one; None for no task. A standby does not count while another task runs."""
    found, order = set(statuses), list(Status)
    if found > {Status.STANDBY} and Status.RUNNING in found:
        found.discard(Status.STANDBY)
    return min(found, key=order.index, default=None)
