"""The page of the cluster's balance: the load of each broker as a picture, a plan's before and after, progress."""

from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from danube.admin.charts.balance import balance_chart, plan_chart
from danube.admin.charts.balance_svg import balance_svg, plan_svg
from danube.admin.operations.cluster.balance import (
    ANALYZE_CLUSTER_BALANCE,
    GET_CLUSTER_BALANCE,
    SET_AUTOMATIC,
    TRIGGER_REBALANCE,
    BalanceResult,
)
from danube.admin.operations.cluster.balance_portraits import (
    hottest_table,
    moves_table,
    rebalance_text,
)
from danube.admin.operations.cluster.balance_views import RebalancePlanView, progress_words
from danube.admin.operations.cluster.plans_and_audit import LIST_PLANS, PlanList
from danube.admin.operations.plan_views import PlanView
from danube.admin.web.pages.catalog import page_path
from danube.admin.web.pages.operation_page import plan_card
from danube.admin.web.pages.rendering import Renderer
from danube.admin.web.pages.tables import portrait_grid
from danube.admin.web.protection.requests import person_of
from danube.admin.web.server import WebServer
from danube.admin.web.statuses import problem_of, status_of
from danube.model.errors import DanubeError

PATH = "/balance"
_LINKS = (
    (TRIGGER_REBALANCE, "Plan a rebalance …"),
    (ANALYZE_CLUSTER_BALANCE, "Why, and what if"),
    (SET_AUTOMATIC, "Automatic mode …"),
)


class BalancePage:
    """The handler of the page."""

    def __init__(self, server: WebServer, renderer: Renderer) -> None:
        self._server = server
        self._renderer = renderer

    def routes(self) -> list[Route]:
        return [Route(PATH, self.show, methods=["GET"])]

    async def show(self, request: Request) -> Response:
        """The balance as it stands; a cluster that does not answer shows within WEB_PROBE_TIMEOUT_S."""
        try:
            problem = await self._server.problem()
            if problem is not None:
                raise problem
            balance = await self._server.call(person_of(request), GET_CLUSTER_BALANCE, {})
            plan = await self._open_plan(request)
        except DanubeError as error:
            return self._renderer.page(
                request, "balance.html", status_of(error), problem=problem_of(error), links=(), is_running=False
            )
        if not isinstance(balance, BalanceResult):
            raise TypeError(f"{GET_CLUSTER_BALANCE.name} answered {type(balance).__name__}")
        return self._renderer.page(
            request,
            "balance.html",
            problem=None,
            links=[(page_path(operation), text) for operation, text in _LINKS],
            is_running=balance.running is not None,
            **_shown(balance),
            plan=plan_card(plan) if plan else None,
            rebalance=plan.rebalance if plan else None,
            plan_picture=plan_picture(plan.rebalance) if plan and plan.rebalance else "",
            moves=portrait_grid(moves_table("Moves, in this order", plan.rebalance.moves, wide=True))
            if plan and plan.rebalance
            else None,
        )

    async def _open_plan(self, request: Request) -> PlanView | None:
        """The newest plan of a rebalance that waits or is ready."""
        listed = await self._server.call(person_of(request), LIST_PLANS, {})
        plans = listed.plans if isinstance(listed, PlanList) else []
        found = [plan for plan in plans if plan.rebalance is not None and not plan.status.is_over]
        return max(found, key=lambda plan: plan.created_ms, default=None)


def plan_picture(plan: RebalancePlanView) -> Markup:
    """Before and after of a plan; `plan_svg` escapes what stands in it."""
    return Markup(plan_svg(plan_chart(plan))) if plan.moves else Markup()  # noqa: S704 - escaped there


def _shown(balance: BalanceResult) -> dict[str, Any]:
    chart = balance_chart(balance)
    run = balance.running or balance.last
    return {
        "balance": balance,
        "judged": chart.imbalance,
        "picture": Markup(balance_svg(chart)),  # noqa: S704 - escaped there
        "run": run,
        "run_text": rebalance_text(run) if run else "",
        "progress": progress_words(run) if run else "",
        "percent": _percent(balance),
        "run_moves": portrait_grid(moves_table("Its moves", run.plan.moves, wide=True, states=True)) if run else None,
        "topics": portrait_grid(hottest_table(balance.brokers)),
    }


def _percent(balance: BalanceResult) -> int:
    run = balance.running
    if run is None or not run.moves_total:
        return 0
    return round(100 * (run.moves_done + run.moves_failed + run.moves_skipped) / run.moves_total)
