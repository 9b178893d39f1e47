"""The acts of a person on a plan, and the word to type for each. No I/O."""

from dataclasses import dataclass

from danube.admin.execution import parse_arguments
from danube.admin.operations import BY_NAME, operation_of
from danube.admin.operations.fields import Params
from danube.admin.operations.operation import AnyOperation
from danube.admin.operations.plan_views import PlanView, is_applicable_on
from danube.admin.present import Table, View, name_at_stake, plan_view_of, printable
from danube.model.errors import DanubeError
from danube.model.plans.plan import Effect, Face, PlanStatus

APPROVE = "approve_plan"
REJECT = "reject_plan"
YES = "yes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One way to go on, and what has to be typed for it."""

    verb: str
    word: str
    operation: AnyOperation
    params: Params
    plan_id: str | None = None
    """Of the plan to apply."""


def apply_act(operation: AnyOperation, params: Params, plan_id: str) -> Act:
    """Apply a plan: what destroys wants the name of what goes, anything else a yes."""
    word = name_at_stake(operation, params) if operation.effect is Effect.DESTROY else YES
    return Act(verb="apply the plan", word=word, operation=operation, params=params, plan_id=plan_id)


def decision_act(name: str, verb: str, word: str, plan_id: str) -> Act:
    """Approve or reject a plan: to approve wants its id, to reject a yes."""
    operation = operation_of(name)
    return Act(verb=verb, word=word, operation=operation, params=parse_arguments(operation, {"plan_id": plan_id}))


def consent_act(operation: AnyOperation, params: Params, plan_id: str | None) -> Act:
    """Give a person's consent: wants the id of the plan, or the words of the operation."""
    return Act(verb=operation.command, word=plan_id or operation.command, operation=operation, params=params)


def acts_on(plan: PlanView) -> dict[str, Act]:
    """By key, what can be done with a plan as it stands."""
    if plan.status is PlanStatus.WAITING:
        return {
            "a": decision_act(APPROVE, "approve the plan", plan.plan_id, plan.plan_id),
            "x": decision_act(REJECT, "reject the plan", YES, plan.plan_id),
        }
    operation = BY_NAME.get(plan.operation)
    if operation is None or not is_applicable_on(plan, Face.TUI):
        return {}
    try:
        return {"y": apply_act(operation, parse_arguments(operation, plan.arguments), plan.plan_id)}
    except DanubeError:  # a plan of another version, with arguments that this one does not know
        return {}


def whole_view(plan: PlanView) -> View:
    """A plan with every name it has, for somebody who decides about it."""
    view = plan_view_of(plan)
    tables = [
        Table(f"{title}: the first {len(names)} of {count:,}", ("Name",), tuple((printable(each),) for each in names))
        for title, names, count in (
            ("Topics", plan.topics, plan.topic_count),
            ("Subscriptions", plan.subscriptions, plan.subscription_count),
        )
        if len(names) > 1
    ]
    return View(view.facts, tuple(tables), view.notes)
