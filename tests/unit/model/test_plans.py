import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.model.errors import InvalidRequestError, PlanRefusedError, PlanWaitsError
from danube.model.limits.broker import (
    PLAN_APPROVAL_TTL_S,
    PLAN_BYTES_MARGIN,
    PLAN_CONSUMERS_MARGIN,
    PLAN_MESSAGES_MARGIN,
    PLAN_TTL_S,
)
from danube.model.plans.plan import (
    Approval,
    Caller,
    Decision,
    Effect,
    Face,
    Impact,
    Plan,
    PlanApplication,
    PlanRequest,
    PlanStatus,
    canonical,
    ceiling,
    check_applicable,
    check_decidable,
    counted,
    describe_call,
    fingerprint_of,
    new_plan,
)

NOW_MS = 1_750_000_000_000
PERSON = Caller(who="ada@desk", face=Face.CLI)
ASSISTANT = Caller(who="ada@desk", face=Face.MCP, client="host 1.0")
IMPACT = Impact(
    changes=("Delete topic /default/orders.",),
    producers=2,
    consumers=10,
    messages=5_000,
    bytes=100 * PLAN_BYTES_MARGIN,
    fingerprint=fingerprint_of([1, [2]]),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda values: st.lists(values) | st.dictionaries(st.text(), values),
    max_leaves=8,
)


REQUEST = PlanRequest(
    operation="delete_topic",
    arguments={"topic": "/default/orders"},
    effect=Effect.DESTROY,
    caller=ASSISTANT,
    needs_approval=False,
)


def planned(*, needs_approval: bool = False, impact: Impact = IMPACT, **changed: Any) -> Plan:
    request = replace(REQUEST, needs_approval=needs_approval)
    return replace(new_plan(request, impact, plan_id="plan-1", now_ms=NOW_MS), **changed)


def test_who_counts_everything_has_0_of_what_is_not_named() -> None:
    impact = Impact(changes=("Skip 3 messages.",), messages=3, fingerprint="f")
    assert (impact.producers, impact.bytes) == (None, None)
    assert counted(impact) == replace(impact, producers=0, consumers=0, bytes=0)
    assert counted(IMPACT) == IMPACT


def touching(**changed: Any) -> Impact:
    return replace(IMPACT, **changed)


def application(plan: Plan, **changed: Any) -> PlanApplication:
    same = PlanApplication(plan_id=plan.plan_id, operation=plan.operation, arguments=plan.arguments, caller=ASSISTANT)
    return replace(same, **changed)


def refusal(plan: Plan, *, impact: Impact | None = None, now_ms: int = NOW_MS, **changed: Any) -> str:
    """What applying the plan is refused with."""
    with pytest.raises(PlanRefusedError) as refused:
        check_applicable(plan, application(plan, **changed), impact or plan.impact, now_ms)
    return str(refused.value)


def test_a_plan_that_fits_is_applied() -> None:
    check_applicable(planned(), application(planned()), IMPACT, NOW_MS)


@pytest.mark.parametrize(
    "caller",
    [PERSON, replace(ASSISTANT, who="bob@desk"), replace(ASSISTANT, who=""), replace(ASSISTANT, face=Face.WEB)],
)
def test_a_plan_without_approval_is_for_who_made_it_on_the_face_that_made_it(caller: Caller) -> None:
    assert "made by ada@desk (mcp)" in refusal(planned(), caller=caller)


def test_a_plan_of_nobody_is_for_nobody() -> None:
    nobody = replace(ASSISTANT, who="")
    assert "ask for a plan of your own" in refusal(planned(asked_by=nobody), caller=nobody)
    with pytest.raises(InvalidRequestError, match="who asks"):
        new_plan(replace(REQUEST, caller=nobody), IMPACT, plan_id="plan-1", now_ms=NOW_MS)
    with pytest.raises(PlanRefusedError, match="nobody is named"):
        check_decidable(
            planned(needs_approval=True),
            Decision(plan_id="plan-1", approve=True, caller=replace(PERSON, who="")),
            NOW_MS,
        )


def test_a_plan_approved_by_nobody_is_not_approved_for_others() -> None:
    assert "ask for a plan of your own" in refusal(planned(approval=Approval.APPROVED), caller=PERSON)


def test_another_version_of_the_same_program_applies_its_plan() -> None:
    plan = planned()
    check_applicable(plan, application(plan, caller=replace(ASSISTANT, client="host 2.0")), IMPACT, NOW_MS)


def test_a_dry_run_is_never_applied() -> None:
    shown = new_plan(replace(REQUEST, dry_run=True, needs_approval=True), IMPACT, plan_id="plan-1", now_ms=NOW_MS)
    assert (shown.plan_id, shown.status(NOW_MS), shown.status(NOW_MS).is_over) == ("", PlanStatus.SHOWN, True)
    assert "dry run" in refusal(shown)


def test_an_approved_plan_is_applied() -> None:
    plan = planned(needs_approval=True, approval=Approval.APPROVED)
    check_applicable(plan, application(plan), IMPACT, NOW_MS)


@pytest.mark.parametrize(("needs_approval", "ttl_s"), [(False, PLAN_TTL_S), (True, PLAN_APPROVAL_TTL_S)])
def test_a_plan_is_good_until_its_time_is_over_and_no_longer(needs_approval: bool, ttl_s: float) -> None:
    plan = planned(needs_approval=needs_approval)
    end_ms = NOW_MS + round(ttl_s * 1_000)
    assert not plan.status(end_ms - 1).is_over
    assert plan.status(end_ms) is PlanStatus.EXPIRED
    assert "too old" in refusal(plan, now_ms=end_ms)


def test_an_approval_makes_no_plan_younger() -> None:
    plan = planned(needs_approval=True, approval=Approval.APPROVED, decided_ms=NOW_MS + 1)
    assert "too old" in refusal(plan, now_ms=plan.expires_ms)


def test_a_plan_applied_already_is_refused_however_old_it_is() -> None:
    plan = planned(applied_ms=NOW_MS, applied_by=PERSON)
    assert "acts once" in refusal(plan)
    assert "acts once" in refusal(plan, now_ms=plan.expires_ms)


def test_a_rejected_plan_is_refused() -> None:
    assert "was rejected" in refusal(planned(approval=Approval.REJECTED, decided_ms=NOW_MS))


def test_a_plan_that_waits_says_how_to_approve_it() -> None:
    plan = planned(needs_approval=True)
    with pytest.raises(PlanWaitsError, match="danube-admin plans approve plan-1"):
        check_applicable(plan, application(plan), IMPACT, NOW_MS)


@pytest.mark.parametrize(
    "changed", [{"operation": "unsubscribe"}, {"arguments": {"topic": "/default/other"}}, {"arguments": {}}]
)
def test_a_plan_is_for_its_own_operation_and_arguments(changed: dict[str, Any]) -> None:
    assert 'made for delete_topic(topic="/default/orders"), not for' in refusal(planned(), **changed)


def test_arguments_in_another_order_are_the_same_arguments() -> None:
    plan = planned(arguments={"topic": "/a/b", "subscription": "s"})
    check_applicable(plan, application(plan, arguments={"subscription": "s", "topic": "/a/b"}), IMPACT, NOW_MS)


def test_a_plan_for_another_state_is_refused() -> None:
    assert "has changed" in refusal(planned(), impact=replace(IMPACT, fingerprint=fingerprint_of([1, [3]])))


@pytest.mark.parametrize("counter", ["messages", "bytes", "producers", "consumers"])
def test_a_counter_may_grow_to_its_ceiling_and_not_above(counter: str) -> None:
    margins = {"messages": PLAN_MESSAGES_MARGIN, "bytes": PLAN_BYTES_MARGIN}
    top = ceiling(getattr(IMPACT, counter), margins.get(counter, PLAN_CONSUMERS_MARGIN))
    plan = planned()
    for fits in (0, top):
        check_applicable(plan, application(plan), touching(**{counter: fits}), NOW_MS)
    assert f"now there are {top + 1}, above its ceiling" in refusal(plan, impact=touching(**{counter: top + 1}))


@pytest.mark.parametrize("counter", ["messages", "bytes", "producers", "consumers"])
def test_a_plan_made_for_nothing_destroys_nothing(counter: str) -> None:
    empty = touching(**{counter: 0})
    assert counter in refusal(planned(impact=empty), impact=touching(**{counter: 1}))


def test_a_counter_that_was_not_known_has_no_ceiling_and_messages_that_are_known_no_more_are_refused() -> None:
    unknown = replace(IMPACT, messages=None, bytes=None, producers=None, consumers=None)
    for now in (IMPACT, unknown):
        plan = planned(impact=unknown)
        check_applicable(plan, application(plan), now, NOW_MS)
    assert "does not answer: ask for a new plan" in refusal(planned(impact=IMPACT), impact=unknown)


def test_a_ceiling_is_a_tenth_or_the_margin_and_nothing_above_nothing() -> None:
    assert [ceiling(0, 100), ceiling(1, 100), ceiling(1_000, 100), ceiling(5_000, 100)] == [0, 101, 1_100, 5_500]


@pytest.mark.parametrize("face", [face for face in Face if face is not Face.MCP])
def test_a_person_decides_on_every_face(face: Face) -> None:
    decision = Decision(plan_id="plan-1", approve=True, caller=replace(PERSON, face=face))
    check_decidable(planned(needs_approval=True), decision, NOW_MS)


@pytest.mark.parametrize("approve", [True, False])
def test_an_assistant_does_not_decide(approve: bool) -> None:
    with pytest.raises(PlanRefusedError, match="a person does"):
        check_decidable(
            planned(needs_approval=True), Decision(plan_id="plan-1", approve=approve, caller=ASSISTANT), NOW_MS
        )


@pytest.mark.parametrize(
    ("plan", "status"),
    [
        (planned(), "ready"),
        (planned(needs_approval=True, approval=Approval.APPROVED), "ready"),
        (planned(approval=Approval.REJECTED, decided_ms=NOW_MS), "rejected"),
        (planned(needs_approval=True, expires_ms=NOW_MS), "expired"),
        (planned(applied_ms=NOW_MS), "applied"),
    ],
)
def test_nobody_decides_about_a_plan_that_does_not_wait(plan: Plan, status: str) -> None:
    with pytest.raises(PlanRefusedError, match=f"is {status} and waits for no decision"):
        check_decidable(plan, Decision(plan_id="plan-1", approve=True, caller=PERSON), NOW_MS)


def test_a_plan_is_over_when_it_was_applied_rejected_or_too_old() -> None:
    assert planned().over_ms == planned().expires_ms
    assert planned(applied_ms=7).over_ms == 7
    assert planned(approval=Approval.REJECTED, decided_ms=8).over_ms == 8
    assert planned(approval=Approval.APPROVED, decided_ms=8).over_ms == planned().expires_ms


@pytest.mark.parametrize(
    ("effect", "is_planned"),
    [(Effect.READ, False), (Effect.WRITE, False), (Effect.MOVE, True), (Effect.DESTROY, True)],
)
def test_what_moves_or_destroys_is_planned(effect: Effect, is_planned: bool) -> None:
    assert effect.is_planned is is_planned


def test_a_call_is_described_without_what_is_not_set() -> None:
    assert describe_call("f", {"b": "x\ny", "a": 1, "c": None}) == 'f(a=1, b="x\\ny")'


@given(JSON)
def test_values_are_written_in_one_way_without_control_characters(value: object) -> None:
    text = canonical(value)
    assert text.isascii()
    assert text.isprintable()
    assert canonical(json.loads(text)) == text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": [float("-inf")]}])
def test_what_json_cannot_say_is_not_written(value: object) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical(value)


def test_fingerprints_tell_states_apart_and_not_orders_of_keys() -> None:
    assert fingerprint_of({"a": 1, "b": 2}) == fingerprint_of({"b": 2, "a": 1})
    assert fingerprint_of([1, 2]) != fingerprint_of([2, 1])
    assert len(fingerprint_of([])) == 32
