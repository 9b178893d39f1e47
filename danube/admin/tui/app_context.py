"""State that all screens of one terminal share: the cluster, the rules, what is known, and how often to refresh."""

from dataclasses import dataclass

from danube.admin.access import AccessLevel
from danube.admin.execution import Session
from danube.admin.gateway import AdminGateway
from danube.admin.operations.operation import Report, say_nothing
from danube.admin.target import Target
from danube.admin.tui.data.watch import Watch
from danube.model.limits.faces import TUI_REFRESH_MAX_S, TUI_REFRESH_MIN_S, TUI_REFRESH_S
from danube.model.plans.plan import Caller
from danube.runtime.clock import Clock


@dataclass(slots=True, kw_only=True)
class AppContext:
    """One person at one cluster."""

    gateway: AdminGateway
    target: Target
    clock: Clock
    caller: Caller
    watch: Watch
    refresh_s: float = TUI_REFRESH_S
    is_paused: bool = False

    @property
    def level(self) -> AccessLevel:
        return self.target.guard.level

    def session(self, report: Report = say_nothing) -> Session:
        return Session(
            gateway=self.gateway, caller=self.caller, clock=self.clock, guard=self.target.guard, report=report
        )

    def change_pace(self, factor: float) -> None:
        self.refresh_s = min(max(self.refresh_s * factor, TUI_REFRESH_MIN_S), TUI_REFRESH_MAX_S)
