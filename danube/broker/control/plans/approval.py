"""Approval rules of the broker: which plans wait, and who may not approve them. The caller's word only adds to them."""

from dataclasses import dataclass

from danube.model.errors import PlanRefusedError
from danube.model.plans.plan import Decision, Effect, Plan


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
        if self.two_person and plan.asked_by.who == decision.caller.who:
            raise PlanRefusedError(
                f"plan {plan.plan_id} was asked for by {plan.asked_by.who}: somebody else has to approve it"
            )


CALLER_ASKS = ApprovalRules()
"""Plans wait if their caller says so."""
