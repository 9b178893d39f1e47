"""Plans, as people and assistants see them."""

from typing import Annotated, Any

from pydantic import Field

from danube.admin.operations.cluster.balance_views import (
    RebalancePlanView,
    RebalanceView,
    followed_text,
    plan_of,
)
from danube.admin.operations.fields import DETAIL, VOLATILE, WIDE, Millis, Result
from danube.model.plans.plan import Caller, Effect, Face, Plan, PlanStatus


class PlanView(Result):
    """A plan: what would happen, or has happened."""

    plan_id: Annotated[str, VOLATILE] = Field(description="Call the operation again with it to apply the plan.")
    operation: str = Field(description="The operation that was planned.")
    arguments: Annotated[dict[str, Any], WIDE] = Field(description="Its parameters.")
    effect: Annotated[Effect, WIDE] = Field(description="What it does to the cluster.")
    status: PlanStatus = Field(description="Where the plan stands.")
    changes: Annotated[list[str], DETAIL] = Field(description="What is done.")
    irreversible: Annotated[list[str], WIDE] = Field(description="What cannot be undone.")
    topics: Annotated[list[str], WIDE] = Field(description="Topics that it touches, the first of them.")
    topic_count: int = Field(title="Topics", description="Topics that it touches.")
    subscriptions: Annotated[list[str], WIDE] = Field(
        description="Subscriptions that it touches, as `topic subscription`, the first of them."
    )
    subscription_count: Annotated[int, WIDE] = Field(description="Subscriptions that it touches.")
    producers: Annotated[int | None, WIDE] = Field(
        description="Producers attached now; null where the broker does not tell."
    )
    consumers: Annotated[int | None, WIDE] = Field(
        description="Consumers attached now; null where the broker does not tell."
    )
    messages: int | None = Field(description="Messages that go; null where the broker does not tell.")
    bytes: Annotated[int | None, WIDE] = Field(description="Their bytes; null where the broker does not tell.")
    rebalance: Annotated[RebalancePlanView | None, VOLATILE, WIDE] = Field(
        default=None, description="Of a plan that rebalances: exactly the moves that it makes, and what they lead to."
    )
    asked_by: Annotated[str, VOLATILE] = Field(description="Who asked for the plan.")
    asked_through: Annotated[Face, VOLATILE, WIDE] = Field(description="The face that it was asked for through.")
    decided_by: Annotated[str | None, VOLATILE, WIDE] = Field(description="Who approved or rejected it.")
    created_ms: Annotated[Millis, WIDE]
    expires_ms: Millis
    applied_ms: Annotated[int | None, VOLATILE, WIDE] = Field(
        description="When it was applied, milliseconds since the epoch."
    )


class PlannedResult(Result):
    """Answer of an operation that acts by a plan: the plan, or that it was applied."""

    status: PlanStatus = Field(description="`applied`: it is done. Anything else: nothing has changed.")
    plan: PlanView = Field(description="The plan.")
    next_step: Annotated[str, VOLATILE] = Field(description="What to do next, a sentence.")
    progress: Annotated[RebalanceView | None, VOLATILE] = Field(
        default=None, description="Of a rebalance that was applied: how far it has come; null for any other plan."
    )

    def followed(self, progress: "RebalanceView | None") -> "PlannedResult":
        """The answer once what the plan began was followed."""
        if progress is None:
            return self
        return self.model_copy(update={"progress": progress, "next_step": followed_text(progress)})


def plan_view(plan: Plan, now_ms: int) -> PlanView:
    """The plan as it stands at this time."""
    return PlanView.of(
        plan,
        plan.impact,
        status=plan.status(now_ms),
        asked_by=caller_text(plan.asked_by),
        asked_through=plan.asked_by.face,
        decided_by=caller_text(plan.decided_by) if plan.decided_by else None,
        rebalance=plan_of(plan.impact.rebalance) if plan.impact.rebalance else None,
    )


def planned_result(plan: Plan, now_ms: int) -> PlannedResult:
    """The answer to who asked for the plan, or applied it."""
    status = plan.status(now_ms)
    return PlannedResult(status=status, plan=plan_view(plan, now_ms), next_step=_next_step(plan, status))


def is_applicable_on(plan: PlanView, face: Face) -> bool:
    """True if it may be applied there: a plan that nobody approved is for the face that made it."""
    return plan.status is PlanStatus.READY and (plan.decided_by is not None or plan.asked_through is face)


def caller_text(caller: Caller) -> str:
    """A caller in a few words."""
    return f"{caller.who} ({caller.client})" if caller.client else caller.who


def _next_step(plan: Plan, status: PlanStatus) -> str:
    match status:
        case PlanStatus.APPLIED:
            return "Done."
        case PlanStatus.READY:
            return (
                f"Nothing has changed yet. Call {plan.operation} again with plan_id {plan.plan_id} to apply the plan."
            )
        case PlanStatus.WAITING:
            return (
                f"Nothing has changed yet. A person has to approve it: `danube-admin plans approve {plan.plan_id}` in a"
                f" terminal, the TUI or the web page. Then call {plan.operation} again with plan_id {plan.plan_id}."
            )
        case PlanStatus.SHOWN if plan.impact.is_nothing and plan.impact.rebalance is not None:
            return f"Nothing has changed, and there is nothing to apply. {plan.impact.rebalance.summary}"
        case PlanStatus.SHOWN:
            return "Nothing has changed, and this plan cannot be applied: it was a dry run. Run it without to do it."
        case PlanStatus.REJECTED | PlanStatus.EXPIRED:
            return (
                f"Nothing has changed, and nothing will: the plan is {status}. Ask for a new one if it is still wanted."
            )
