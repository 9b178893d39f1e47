"""Plans: what an operation that moves or destroys would do, bound to the state that it was made for. Pure.

A plan is made, perhaps approved by a person, and applied once. Whoever applies it works out the impact anew and asks
`check_applicable`, which refuses a plan that is too old, of other arguments, not approved, applied already, made by
another caller, or made for another state than the one that stands now. What must not have changed at all is in the
fingerprint; what moves by itself (messages, bytes, consumers) has a ceiling, but not where a plan deletes nothing.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

from danube.model.calls.balance import RebalancePreview
from danube.model.errors import InvalidRequestError, LimitReachedError, PlanRefusedError, PlanWaitsError
from danube.model.limits.broker import (
    PLAN_APPROVAL_TTL_S,
    PLAN_BYTES_MARGIN,
    PLAN_CONSUMERS_MARGIN,
    PLAN_KEEP_S,
    PLAN_MESSAGES_MARGIN,
    PLAN_TTL_S,
    PLANS_MAX,
    PLANS_OPEN_PER_CALLER_MAX,
)

Arguments = Mapping[str, Any]
"""An operation's parameters as JSON values, defaults included."""


_KEEP_MS = round(PLAN_KEEP_S * 1_000)


class Effect(StrEnum):
    """Effect of an operation on the cluster."""

    READ = "read"
    WRITE = "write"
    """Changes something, and an opposite operation undoes it."""
    MOVE = "move"
    """Moves work between brokers."""
    DESTROY = "destroy"
    """Cannot be undone."""

    @property
    def is_planned(self) -> bool:
        """True if an operation with this effect acts by a plan alone."""
        return self in {Effect.MOVE, Effect.DESTROY}


class Face(StrEnum):
    """Through what somebody speaks to the cluster."""

    CLI = "cli"
    TUI = "tui"
    WEB = "web"
    MCP = "mcp"
    """An assistant."""
    MCP_HOST = "mcp_host"
    """The person before an assistant, asked by the program that runs it."""
    DIRECT = "direct"
    """A call of the admin port without a face of ours, as the original's tools make it."""


class Approval(StrEnum):
    """Approval of a plan."""

    NOT_NEEDED = "not_needed"
    WAITING = "waiting"
    APPROVED = "approved"
    REJECTED = "rejected"
    NEVER = "never"
    """A dry run, or a plan of nothing: it is shown, is kept nowhere, and can never be applied."""


class PlanStatus(StrEnum):
    """Status of a plan."""

    WAITING = "waiting"
    """For a person to approve or reject it."""
    READY = "ready"
    """Can be applied."""
    REJECTED = "rejected"
    EXPIRED = "expired"
    APPLIED = "applied"
    SHOWN = "shown"
    """A dry run, or a plan of nothing, which can never be applied."""

    @property
    def is_over(self) -> bool:
        """True if it can neither be decided about nor applied any more."""
        return self not in {PlanStatus.WAITING, PlanStatus.READY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Identity of the caller, as far as the face knows it."""

    who: str
    """`user@host`, or the subject of a token."""
    face: Face
    client: str = ""
    """The program, where that is another than ours: an MCP host and its version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """Everything that an operation would touch, at this moment."""

    changes: tuple[str, ...]
    """What is done, a sentence each."""
    irreversible: tuple[str, ...] = ()
    """What cannot be undone, a sentence each."""
    topics: tuple[str, ...] = ()
    """At most PLAN_NAMES_MAX names; `topic_count` says how many there are."""
    topic_count: int = 0
    subscriptions: tuple[str, ...] = ()
    """`topic subscription`, at most PLAN_NAMES_MAX."""
    subscription_count: int = 0
    producers: int | None = None
    """Attached now; None where the broker does not tell."""
    consumers: int | None = None
    messages: int | None = None
    """That are deleted, or moved, with it."""
    bytes: int | None = None
    fingerprint: str
    """Of the state that must not change until the plan is applied: `fingerprint_of`."""
    rebalance: RebalancePreview | None = None
    """Of a plan that rebalances: exactly what is carried out."""

    @property
    def is_nothing(self) -> bool:
        """True for a rebalance without moves: there is nothing to apply."""
        return self.rebalance is not None and not self.rebalance.moves


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialImpact(Impact):
    """Impact that is partly at other brokers: its None is unknown, and not nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """Ask for a plan."""

    operation: str
    arguments: Arguments
    effect: Effect
    caller: Caller
    needs_approval: bool
    dry_run: bool = False
    """Only show the plan: it is kept nowhere and has no id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A person's word on a plan."""

    plan_id: str
    approve: bool
    caller: Caller


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanApplication:
    """Ask for a plan to be carried out: the operation and arguments say what the caller believes it to be."""

    plan_id: str
    operation: str
    arguments: Arguments
    caller: Caller


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """An operation that would be carried out, or was."""

    plan_id: str
    operation: str
    arguments: Arguments
    effect: Effect
    impact: Impact
    asked_by: Caller
    approval: Approval
    created_ms: int
    """By the clock of whoever keeps the plan, as all times here."""
    expires_ms: int
    decided_by: Caller | None = None
    decided_ms: int | None = None
    applied_by: Caller | None = None
    applied_ms: int | None = None

    def status(self, now_ms: int) -> PlanStatus:
        """The status at this time."""
        if self.applied_ms is not None:
            return PlanStatus.APPLIED
        if self.approval is Approval.NEVER:
            return PlanStatus.SHOWN
        if self.approval is Approval.REJECTED:
            return PlanStatus.REJECTED
        if now_ms >= self.expires_ms:
            return PlanStatus.EXPIRED
        return PlanStatus.WAITING if self.approval is Approval.WAITING else PlanStatus.READY

    @property
    def over_ms(self) -> int:
        """When it was over, or will be: applied, rejected or too old."""
        if self.applied_ms is not None:
            return self.applied_ms
        if self.approval is Approval.REJECTED and self.decided_ms is not None:
            return self.decided_ms
        return self.expires_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCursor:
    """The place where the next page of plans begins: after this one."""

    created_ms: int
    plan_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPlans:
    """Ask for plans, the newest first."""

    page_size: int
    """The most of one page; it may hold fewer."""
    open_only: bool = False
    """Only those that wait or are ready."""
    after: PlanCursor | None = None
    """Where the page before this one ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlansPage:
    """The answer to ListPlans."""

    plans: tuple[Plan, ...]
    now_ms: int
    """By the clock of whoever keeps the plans: what their status is asked with."""
    next: PlanCursor | None
    """None on the last page."""


def new_plan(request: PlanRequest, impact: Impact, *, plan_id: str, now_ms: int) -> Plan:
    """A plan for what was asked, with the impact of this moment; without the id where it is only shown.

    Raises InvalidRequestError where the request does not say who asks: nobody could apply the plan.
    """
    if not request.caller.who:
        raise InvalidRequestError("the request for a plan does not say who asks: name the caller")
    approval, is_shown = Approval.NOT_NEEDED, request.dry_run or impact.is_nothing
    if is_shown or request.needs_approval:
        approval = Approval.NEVER if is_shown else Approval.WAITING
    ttl_s = PLAN_APPROVAL_TTL_S if request.needs_approval else PLAN_TTL_S
    return Plan(
        plan_id="" if is_shown else plan_id,
        operation=request.operation,
        arguments=request.arguments,
        effect=request.effect,
        impact=impact,
        asked_by=request.caller,
        approval=approval,
        created_ms=now_ms,
        expires_ms=now_ms + round(ttl_s * 1_000),
    )


def counted(impact: Impact) -> Impact:
    """The impact where everything is counted: what it does not name is 0, and not unknown; but of a partial one."""
    if isinstance(impact, PartialImpact):
        return Impact(**{each.name: getattr(impact, each.name) for each in fields(Impact)})
    return replace(
        impact,
        producers=impact.producers or 0,
        consumers=impact.consumers or 0,
        messages=impact.messages or 0,
        bytes=impact.bytes or 0,
    )


def decided(plan: Plan, decision: Decision, now_ms: int) -> Plan:
    """The plan after a person's word. Raises PlanRefusedError where `check_decidable` does."""
    check_decidable(plan, decision, now_ms)
    approval = Approval.APPROVED if decision.approve else Approval.REJECTED
    return replace(plan, approval=approval, decided_by=decision.caller, decided_ms=now_ms)


def applied(plan: Plan, application: PlanApplication, now_ms: int) -> Plan:
    """The plan once it is carried out; whether it may be is for `check_applicable` to say."""
    return replace(plan, applied_by=application.caller, applied_ms=now_ms)


def plans_to_drop(plans: Sequence[Plan], new: Plan, plans_max: int = PLANS_MAX) -> list[str]:
    """The ids of the plans that go when the new one is kept: what is over, the oldest first.

    Raises LimitReachedError when too many are not over, of all callers or of this one: none takes the place of all.
    """
    now_ms = new.created_ms
    own = [plan for plan in plans if _is_same_caller(plan.asked_by, new.asked_by) and not plan.status(now_ms).is_over]
    if len(own) >= PLANS_OPEN_PER_CALLER_MAX:
        raise LimitReachedError(
            f"{len(own)} plans of {new.asked_by.who} ({new.asked_by.face}) wait to be decided about or applied, the"
            " most that one caller may have: apply or reject some, or wait until they are too old"
        )
    over = sorted((plan for plan in plans if plan.status(now_ms).is_over), key=lambda plan: plan.over_ms)
    too_old = sum(plan.over_ms + _KEEP_MS <= now_ms for plan in over)
    too_many = len(plans) + 1 - plans_max
    if too_many > len(over):
        raise LimitReachedError(
            f"{plans_max} plans wait to be decided about or applied, the most there may be: apply or reject some, or"
            " wait until they are too old"
        )
    return [plan.plan_id for plan in over[: max(too_old, too_many)]]


def check_decidable(plan: Plan, decision: Decision, now_ms: int) -> None:
    """Raise PlanRefusedError unless this caller may approve or reject the plan now."""
    if not decision.caller.who:
        raise PlanRefusedError(f"nobody is named who decides about plan {plan.plan_id}: name the caller")
    if decision.caller.face is Face.MCP:
        raise PlanRefusedError(
            f"an assistant cannot decide about plan {plan.plan_id}: a person does, with"
            f" `danube-admin plans approve {plan.plan_id}` in a terminal, in the TUI or on the web page"
        )
    status = plan.status(now_ms)
    if status is not PlanStatus.WAITING:
        raise PlanRefusedError(f"plan {plan.plan_id} is {status} and waits for no decision: ask for a new plan")


def check_applicable(plan: Plan, application: PlanApplication, impact: Impact, now_ms: int) -> None:
    """Raise PlanRefusedError, or PlanWaitsError, unless the plan may be carried out now.

    `impact` is what the operation would touch at this moment.
    """
    if plan.operation != application.operation or canonical(plan.arguments) != canonical(application.arguments):
        raise PlanRefusedError(
            f"plan {plan.plan_id} was made for {describe_call(plan.operation, plan.arguments)}, not for"
            f" {describe_call(application.operation, application.arguments)}: call the operation as it was planned, or"
            " without a plan_id to get a plan for these arguments"
        )
    _check_status(plan, now_ms)
    _check_caller(plan, application.caller)
    if plan.impact.fingerprint != impact.fingerprint:
        raise PlanRefusedError(
            f"the cluster has changed since plan {plan.plan_id} was made (topics or subscriptions came, went, moved or"
            " were made anew): ask for a new plan and look at it again"
        )
    if plan.effect is not Effect.MOVE:  # which deletes nothing, however much has come
        _check_counters(plan, impact)


def canonical(value: object) -> str:
    """The one way to write a JSON value: keys sorted, no spaces, ASCII. Raises ValueError for NaN and infinity."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def fingerprint_of(state: object) -> str:
    """A digest of a JSON value, 32 hex digits."""
    return hashlib.sha256(canonical(state).encode()).hexdigest()[:32]


def describe_call(operation: str, arguments: Arguments) -> str:
    """An operation with its arguments on one line, without those that are not set."""
    given = (f"{name}={canonical(value)}" for name, value in sorted(arguments.items()) if value is not None)
    return f"{operation}({', '.join(given)})"


def ceiling(planned: int, margin: int) -> int:
    """The bound of a counter when the plan is applied: a tenth, at least `margin`, and not at all from 0."""
    return planned + max(planned // 10, margin) if planned else 0


def _check_status(plan: Plan, now_ms: int) -> None:
    match plan.status(now_ms):
        case PlanStatus.APPLIED:
            raise PlanRefusedError(f"plan {plan.plan_id} was applied already and acts once: ask for a new plan")
        case PlanStatus.REJECTED:
            raise PlanRefusedError(f"plan {plan.plan_id} was rejected: leave it, or talk to who rejected it")
        case PlanStatus.SHOWN:
            raise PlanRefusedError("this plan was a dry run, which is only shown: ask for a plan without dry_run")
        case PlanStatus.EXPIRED:
            raise PlanRefusedError(f"plan {plan.plan_id} is too old: ask for a new plan")
        case PlanStatus.WAITING:
            raise PlanWaitsError(
                f"plan {plan.plan_id} waits for a person's approval: `danube-admin plans approve {plan.plan_id}` in a"
                " terminal, the TUI or the web page; then call again with the same plan_id"
            )
        case PlanStatus.READY:
            return


def _check_caller(plan: Plan, caller: Caller) -> None:
    """An approved plan is for everybody; one that nobody has approved is for who made it, on the face that made it."""
    if plan.approval is Approval.APPROVED and plan.decided_by is not None:
        return
    if not caller.who or not _is_same_caller(plan.asked_by, caller):
        raise PlanRefusedError(
            f"plan {plan.plan_id} was made by {plan.asked_by.who} ({plan.asked_by.face}), and no approval makes it one"
            " for others: ask for a plan of your own"
        )


def _is_same_caller(one: Caller, other: Caller) -> bool:
    """The program is left out: it is told by itself, and may be another version."""
    return (one.who, one.face) == (other.who, other.face)


def _check_counters(plan: Plan, now: Impact) -> None:
    if plan.impact.messages is not None and now.messages is None:
        raise PlanRefusedError(
            f"plan {plan.plan_id} was made for {plan.impact.messages} messages, and a broker that knows how many"
            " there are by now does not answer: ask for a new plan and look at it again"
        )
    for word, before, current, margin in (
        ("messages", plan.impact.messages, now.messages, PLAN_MESSAGES_MARGIN),
        ("bytes", plan.impact.bytes, now.bytes, PLAN_BYTES_MARGIN),
        ("producers", plan.impact.producers, now.producers, PLAN_CONSUMERS_MARGIN),
        ("consumers", plan.impact.consumers, now.consumers, PLAN_CONSUMERS_MARGIN),
    ):
        if before is not None and current is not None and current > ceiling(before, margin):
            raise PlanRefusedError(
                f"plan {plan.plan_id} was made for {before} {word} and now there are {current}, above its ceiling of"
                f" {ceiling(before, margin)}: ask for a new plan and look at it again"
            )
