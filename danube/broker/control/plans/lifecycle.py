"""Plans of operations that move or destroy: created with the impact of this moment, decided, and applied once."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from danube.broker.control.plans.approval import CALLER_ASKS, ApprovalRules, check_operator
from danube.broker.control.plans.planned import PlannedCall, PlannedOperation
from danube.broker.security.current import authenticated, current_principal
from danube.metadata.records.plans import PlanRecords
from danube.metadata.transaction_builder import TransactionBuilder
from danube.model.errors import DanubeError, InvalidRequestError, PlanNotFoundError, PlanWaitsError, UnsupportedError
from danube.model.limits.broker import PLANS_PAGE_BYTES_MAX
from danube.model.plans.plan import (
    Decision,
    Effect,
    Impact,
    ListPlans,
    Plan,
    PlanApplication,
    PlanCursor,
    PlanRequest,
    PlansPage,
    canonical,
    check_applicable,
    counted,
    describe_call,
    fingerprint_of,
    new_plan,
)
from danube.model.plans.policy_effects import PolicyEffect, PreviewPolicy
from danube.model.security.principal import TokenScope
from danube.runtime.clock import Clock
from danube.runtime.rng import Rng

_PLAN_ID = re.compile(r"plan-[0-9a-f]{12}")
_ID_BITS = 48
_MOVE_TEXT = " " * 120  # what the numbers of a move take on the wire, roughly
_ENTRY_BYTES = 1_000  # what a plan takes on the wire besides its texts, roughly


class PlanControl:
    """The plans of this broker: create, decide, apply."""

    def __init__(
        self,
        operations: Mapping[str, PlannedOperation],
        records: PlanRecords,
        *,
        clock: Clock,
        rng: Rng,
        approval: ApprovalRules = CALLER_ASKS,
    ) -> None:
        self._operations = operations
        self._records = records
        self._clock = clock
        self._rng = rng
        self.approval = approval

    async def create(self, request: PlanRequest) -> Plan:
        """Create a plan of what the operation would do now; a dry run, or a plan of nothing, is not stored.

        Raises:
            UnsupportedError: this broker does not plan that operation.
            InvalidRequestError: its arguments or its effect are wrong.
            LimitReachedError: PLANS_MAX plans wait, or PLANS_OPEN_PER_CALLER_MAX of this caller.
            Errors of the operation itself: a plan never promises what cannot be done.
        """
        operation = self._operation(request.operation)
        request = self._authenticated(request)
        if request.effect is not operation.effect:
            raise InvalidRequestError(f"{request.operation} has the effect {operation.effect}, not {request.effect}")
        impact = counted(await operation.parse(request.arguments).impact())
        plan_id = f"plan-{self._rng.new_id() % 2**_ID_BITS:012x}"
        plan = new_plan(request, impact, plan_id=plan_id, now_ms=self._clock.now_ms())
        if plan.plan_id:
            await self._records.create(plan)
        return plan

    async def get(self, plan_id: str) -> Plan:
        """One plan. Raises PlanNotFoundError."""
        _check_id(plan_id)
        return await self._records.get(plan_id)

    async def list(self, wanted: ListPlans) -> PlansPage:
        """A page of plans, newest first; a plan created or deleted between two pages may be missed."""
        now_ms = self._clock.now_ms()
        found = sorted(
            (plan for plan in await self._records.all() if _is_wanted(plan, wanted, now_ms)), key=_newest_first
        )
        return _page(found, wanted.page_size, now_ms)

    async def decide(self, decision: Decision) -> Plan:
        """Approve or reject a waiting plan. Raises PlanNotFoundError, PlanRefusedError."""
        _check_id(decision.plan_id)
        decision = replace(decision, caller=authenticated(decision.caller))
        if self.approval.two_person and decision.approve:
            self.approval.check_other(await self._records.get(decision.plan_id), decision)
        return await self._records.decide(decision, self._clock.now_ms())

    async def apply(self, application: PlanApplication) -> Plan:
        """Carry a plan out and answer it, applied. Both are one transaction, so it acts once, whoever else tries.

        Raises:
            PlanNotFoundError.
            PlanRefusedError, PlanWaitsError: it may not be applied (any more); nothing was done.
            Errors of the operation; nothing was done then either.
        """
        application = replace(application, caller=authenticated(application.caller))
        plan = await self.get(application.plan_id)
        check_applicable(plan, application, plan.impact, self._clock.now_ms())
        if plan.effect is Effect.DESTROY and _is_operator():
            check_operator(plan, application.caller.who)
        operation = self._operation(plan.operation)
        call = operation.resume(plan) if operation.resume else operation.parse(plan.arguments)
        try:
            # An act of several steps begins before its transaction, which checks again.
            check_applicable(plan, application, counted(await call.impact()), self._clock.now_ms())
            return await self._act(call, application)
        except DanubeError:
            # Where somebody else was faster, "applied already" says more than "there is no such topic".
            check_applicable(await self.get(plan.plan_id), application, plan.impact, self._clock.now_ms())
            raise

    async def effects(self, wanted: PreviewPolicy) -> Sequence[PolicyEffect]:
        """Effects of a planned operation on topics of this broker. Raises UnsupportedError, and as `create`."""
        effects = self._operation(wanted.operation).effects
        if effects is None:
            raise UnsupportedError(f"{wanted.operation} changes no policy: nothing is asked of other brokers")
        return await effects(wanted)

    def makes(self, operation: str) -> bool:
        """True if there are plans of this operation, with an impact that is worked out."""
        return operation in self._operations

    async def check_consent(self, request: PlanRequest) -> None:
        """Use up the approved plan of a call that its caller makes directly: it is applied then.

        Without one, a plan of the call is left to wait for approval. Raises PlanWaitsError then, and LimitReachedError.
        """
        now_ms = self._clock.now_ms()
        for plan in await self._records.all():
            if not _is_same_call(plan, request) or plan.status(now_ms).is_over:
                continue
            plan = await self._records.get(plan.plan_id)
            application = PlanApplication(
                plan_id=plan.plan_id,
                operation=request.operation,
                arguments=request.arguments,
                caller=request.caller,
            )
            await self._records.apply(application, now_ms, plan.impact)
            return
        text = describe_call(request.operation, request.arguments)
        impact = Impact(changes=(f"{request.caller.who} may call {text}, once.",), fingerprint=fingerprint_of(text))
        plan_id = f"plan-{self._rng.new_id() % 2**_ID_BITS:012x}"
        await self._records.create(new_plan(request, impact, plan_id=plan_id, now_ms=now_ms))
        raise PlanWaitsError(
            f"{request.operation} needs the approval of somebody else: plan {plan_id} waits for it (`danube-admin plans"
            f" approve {plan_id}`); then call again"
        )

    async def _act(self, call: PlannedCall, application: PlanApplication) -> Plan:
        now_ms = self._clock.now_ms()
        marked: list[Plan] = []

        async def mark(builder: TransactionBuilder) -> None:
            impact = counted(await call.impact())
            applied = await self._records.mark_applied(
                builder, application, now_ms, lambda plan: check_applicable(plan, application, impact, now_ms)
            )
            marked.append(applied)

        await call.act(mark)
        return marked[-1]

    def _authenticated(self, request: PlanRequest) -> PlanRequest:
        """The request, of the proven caller, and with approval where the broker's policy asks for it."""
        needs = request.needs_approval or self.approval.asks(request.effect)
        needs = needs or (request.effect is Effect.DESTROY and _is_operator())
        return replace(request, caller=authenticated(request.caller), needs_approval=needs)

    def _operation(self, name: str) -> PlannedOperation:
        operation = self._operations.get(name)
        if operation is None:
            raise UnsupportedError(
                f"this broker makes no plans for {name[:80]!r}: it does for {', '.join(sorted(self._operations))}"
            )
        return operation


def _is_operator() -> bool:
    principal = current_principal()
    return principal is not None and principal.scope is TokenScope.OPERATOR


def _is_same_call(plan: Plan, request: PlanRequest) -> bool:
    return (plan.operation, plan.asked_by.who, plan.asked_by.face, canonical(plan.arguments)) == (
        request.operation,
        request.caller.who,
        request.caller.face,
        canonical(request.arguments),
    )


def _check_id(plan_id: str) -> None:
    if not _PLAN_ID.fullmatch(plan_id):
        raise PlanNotFoundError(f"{plan_id[:40]!r} is no plan's id: list the plans to see theirs")


def _is_wanted(plan: Plan, wanted: ListPlans, now_ms: int) -> bool:
    if wanted.open_only and plan.status(now_ms).is_over:
        return False
    after = wanted.after
    return after is None or _newest_first(plan) > _newest_first(after)


def _page(plans: list[Plan], page_size: int, now_ms: int) -> PlansPage:
    """The first of them that fit; one always does."""
    count = size = 0
    while count < min(len(plans), page_size) and size < PLANS_PAGE_BYTES_MAX:
        size += _wire_bytes(plans[count])
        count += 1
    last = plans[count - 1] if count < len(plans) else None
    cursor = PlanCursor(created_ms=last.created_ms, plan_id=last.plan_id) if last else None
    return PlansPage(plans=tuple(plans[:count]), now_ms=now_ms, next=cursor)


def _wire_bytes(plan: Plan) -> int:
    impact = plan.impact
    texts = [*impact.changes, *impact.irreversible, *impact.topics, *impact.subscriptions]
    if impact.rebalance is not None:
        texts += (f"{_MOVE_TEXT}{move.topic}{move.reason}" for move in impact.rebalance.moves)
    return _ENTRY_BYTES + len(canonical(plan.arguments)) + sum(len(text.encode()) for text in texts)


def _newest_first(plan: Plan | PlanCursor) -> tuple[int, str]:
    return -plan.created_ms, plan.plan_id
