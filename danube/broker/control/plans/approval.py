"""Approval rules of the broker: which plans wait, and who may not approve them. The caller's word only adds to them."""

from dataclasses import dataclass

from danube.model.errors import PlanRefusedError
from danube.model.plans.plan import Approval, Decision, Effect, Plan
from danube.model.security.principal import name_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRules:
    """Rules of one broker."""

    effects: frozenset[Effect] = frozenset()
    """Plans with these effects wait, whatever their caller asked for."""
    two_person: bool = False
    """Somebody else than who asked approves."""

    def asks(self, effect: Effect) -> bool:
        """True if plans with this effect wait for approval."""
        return effect in self.effects

    def check_other(self, plan: Plan, decision: Decision) -> None:
        """Raise PlanRefusedError for an approval by the principal that asked for the plan."""
        if self.two_person and name_of(plan.asked_by.who) == name_of(decision.caller.who):
            raise PlanRefusedError(
                f"plan {plan.plan_id} was asked for by {plan.asked_by.who}: somebody else has to approve it"
            )


def check_operator(plan: Plan, who: str) -> None:
    """Raise PlanRefusedError unless somebody else than `who`, whose token is of scope operator, approved the plan."""
    by = plan.decided_by if plan.approval is Approval.APPROVED else None
    if by is None or name_of(by.who) == name_of(who):
        raise PlanRefusedError(
            f"plan {plan.plan_id} destroys, and {who} has a token of scope operator: another principal has to approve"
            " it first"
        )


CALLER_ASKS = ApprovalRules()
"""Plans wait if their caller says so."""
