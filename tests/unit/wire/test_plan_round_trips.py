import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import (
    AUDIT_PAGE_MAX,
    AUDIT_TEXT_CHARS_MAX,
    CALLER_CHARS_MAX,
    NAME_BYTES_MAX,
    PLAN_ARGUMENTS_BYTES_MAX,
    PLANS_PAGE_MAX,
)
from danube.model.plans.plan import (
    Approval,
    Caller,
    Decision,
    Effect,
    Face,
    Impact,
    ListPlans,
    Plan,
    PlanApplication,
    PlanCursor,
    PlanRequest,
    PlansPage,
)
from danube.model.records.audit import (
    AUDIT_TOPIC,
    GENESIS,
    AuditEntry,
    AuditPage,
    AuditReceipt,
    Outcome,
    ReadAudit,
    StoredAuditPage,
    encode_record,
    next_record,
)
from danube.wire import plan_messages
from danube.wire.codec import Codec
from danube.wire.gen import DanubeControl_pb2

UINT64 = st.integers(0, 2**64 - 1)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
INTEGERS = st.integers(-(2**63), 2**64 - 1)
VALUES = st.none() | st.booleans() | INTEGERS | st.text(max_size=5) | st.lists(INTEGERS, max_size=2)
ARGUMENTS = st.dictionaries(st.text(max_size=5), VALUES, max_size=3)
CALLERS = st.builds(
    Caller,
    who=st.text(st.characters(codec="utf-8"), min_size=1, max_size=CALLER_CHARS_MAX),
    face=st.sampled_from(Face),
    client=TEXTS,
)
NAMES = st.lists(TEXTS, max_size=2).map(tuple)
IMPACTS = st.builds(
    Impact,
    **dict.fromkeys(("changes", "irreversible", "topics", "subscriptions"), NAMES),
    **dict.fromkeys(("topic_count", "subscription_count"), UINT64),
    **dict.fromkeys(("producers", "consumers", "messages", "bytes"), st.none() | UINT64),
    fingerprint=TEXTS,
)
PLANS = st.builds(
    Plan,
    plan_id=TEXTS,
    operation=TEXTS,
    arguments=ARGUMENTS,
    effect=st.sampled_from(Effect),
    impact=IMPACTS,
    asked_by=CALLERS,
    approval=st.sampled_from(Approval),
    created_ms=UINT64,
    expires_ms=UINT64,
    **dict.fromkeys(("decided_by", "applied_by"), st.none() | CALLERS),
    **dict.fromkeys(("decided_ms", "applied_ms"), st.none() | UINT64),
)
CURSORS = st.builds(PlanCursor, created_ms=UINT64, plan_id=st.text("plan-0123456789abcdef", min_size=1, max_size=20))


CALLS: dict[Codec[Any], st.SearchStrategy[Any]] = {
    plan_messages.CREATE_PLAN: st.builds(
        PlanRequest,
        operation=TEXTS,
        arguments=ARGUMENTS,
        effect=st.sampled_from(Effect),
        caller=CALLERS,
        needs_approval=st.booleans(),
        dry_run=st.booleans(),
    ),
    plan_messages.GET_PLAN: TEXTS,
    plan_messages.LIST_PLANS: st.builds(
        ListPlans, page_size=st.integers(1, PLANS_PAGE_MAX), open_only=st.booleans(), after=st.none() | CURSORS
    ),
    plan_messages.DECIDE_PLAN: st.builds(Decision, plan_id=TEXTS, approve=st.booleans(), caller=CALLERS),
    plan_messages.APPLY_PLAN: st.builds(
        PlanApplication, plan_id=TEXTS, operation=TEXTS, arguments=ARGUMENTS, caller=CALLERS
    ),
    plan_messages.AUDIT_ENTRY: st.builds(
        AuditEntry,
        caller=CALLERS,
        operation=TEXTS,
        arguments=ARGUMENTS,
        effect=st.sampled_from(Effect),
        outcome=st.sampled_from(Outcome),
        plan_id=st.none() | TEXTS,
        error=st.none() | TEXTS,
        detail=TEXTS,
    ),
    plan_messages.READ_AUDIT: st.builds(
        ReadAudit,
        start=UINT64,
        limit=st.integers(1, AUDIT_PAGE_MAX),
        topic=st.sampled_from([None, AUDIT_TOPIC, AUDIT_TOPIC.partition(3)]),
    ),
    plan_messages.PLAN: PLANS,
    plan_messages.PLANS_PAGE: st.builds(
        PlansPage, plans=st.lists(PLANS, max_size=2).map(tuple), now_ms=UINT64, next=st.none() | CURSORS
    ),
    plan_messages.AUDIT_RECEIPT: st.builds(AuditReceipt, sequence=UINT64, hash=TEXTS),
}
CALLER = DanubeControl_pb2.Caller(who="ada@desk", face="cli")
ENTRY = AuditEntry(
    caller=Caller(who="ada@desk", face=Face.CLI),
    operation="list_topics",
    arguments={},
    effect=Effect.READ,
    outcome=Outcome.DONE,
)
RECORD = next_record(ENTRY, sequence=0, at_ms=5, keeper="7", previous=GENESIS)


@pytest.mark.parametrize("codec", CALLS, ids=lambda codec: codec.kind.DESCRIPTOR.name)
@given(data=st.data())
def test_what_one_side_encodes_the_other_decodes(codec: Codec[Any], data: st.DataObject) -> None:
    value = data.draw(CALLS[codec])
    assert codec.decode(codec.encode(value)) == value


def plan_request(**fields: Any) -> bytes:
    right: dict[str, Any] = {"operation": "delete_topic", "arguments": "{}", "effect": "destroy", "caller": CALLER}
    return DanubeControl_pb2.CreatePlanRequest(**(right | fields)).SerializeToString()


def test_arguments_travel_in_the_one_way_to_write_them() -> None:
    request = PlanRequest(
        operation="f", arguments={"b": "ü", "a": None}, effect=Effect.MOVE, caller=ENTRY.caller, needs_approval=False
    )
    sent = DanubeControl_pb2.CreatePlanRequest.FromString(plan_messages.CREATE_PLAN.encode(request))
    assert sent.arguments == '{"a":null,"b":"\\u00fc"}'


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"arguments": ""}, "no JSON object"),
        ({"arguments": "[]"}, "no JSON object"),
        ({"arguments": '{"a":NaN}'}, "no JSON object"),
        ({"arguments": '{"a":1e999}'}, "no JSON object"),
        ({"arguments": '{"a":' + "[" * 16_000}, "no JSON object"),
        ({"arguments": '{"a":' + "9" * 10_000 + "}"}, "no JSON object"),
        ({"arguments": json.dumps({"a": "x" * PLAN_ARGUMENTS_BYTES_MAX})}, "longer than"),
        ({"arguments": json.dumps({"a": "ü" * (PLAN_ARGUMENTS_BYTES_MAX // 4)}, ensure_ascii=False)}, "longer than"),
        ({"effect": "explode"}, "use read, write, move, destroy"),
        ({"caller": None}, "does not say who asks"),
        ({"caller": DanubeControl_pb2.Caller(who="a", face="phone")}, "use cli, tui, web, mcp, mcp_host"),
        ({"caller": DanubeControl_pb2.Caller(who="a" * (CALLER_CHARS_MAX + 1), face="cli")}, "longer than 200"),
        (
            {"caller": DanubeControl_pb2.Caller(who="a", face="cli", client="c" * (CALLER_CHARS_MAX + 1))},
            "longer than 200",
        ),
        ({"operation": "o" * (NAME_BYTES_MAX + 1)}, "longer than"),
    ],
)
def test_requests_for_a_plan_that_make_no_sense_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequestError, match=said):
        plan_messages.CREATE_PLAN.decode(plan_request(**fields))


@pytest.mark.parametrize("field", ["operation", "detail", "error", "plan_id"])
def test_texts_longer_than_the_audit_log_takes_are_refused(field: str) -> None:
    message = DanubeControl_pb2.RecordRequest(caller=CALLER, arguments="{}", effect="read", outcome="done")
    setattr(message, field, "x" * (AUDIT_TEXT_CHARS_MAX + 1))
    with pytest.raises(InvalidRequestError, match="longer than"):
        plan_messages.AUDIT_ENTRY.decode(message.SerializeToString())


def test_unknown_outcome_is_refused() -> None:
    message = DanubeControl_pb2.RecordRequest(caller=CALLER, arguments="{}", effect="read", outcome="maybe")
    with pytest.raises(InvalidRequestError, match="use started, done"):
        plan_messages.AUDIT_ENTRY.decode(message.SerializeToString())


@pytest.mark.parametrize(("asked", "given"), [(0, PLANS_PAGE_MAX), (2**32 - 1, PLANS_PAGE_MAX), (7, 7)])
def test_page_of_plans_is_bounded(asked: int, given: int) -> None:
    request = DanubeControl_pb2.ListPlansRequest(page_size=asked).SerializeToString()
    assert plan_messages.LIST_PLANS.decode(request).page_size == given


@pytest.mark.parametrize(("asked", "given"), [(0, AUDIT_PAGE_MAX), (2**32 - 1, AUDIT_PAGE_MAX), (7, 7)])
def test_page_of_the_audit_log_is_bounded(asked: int, given: int) -> None:
    request = DanubeControl_pb2.ReadRequest(limit=asked).SerializeToString()
    assert plan_messages.READ_AUDIT.decode(request).limit == given


@pytest.mark.parametrize("token", ["x", ":", "5:", ":plan-1", "-5:plan-1", "²:plan-1", "9" * 5_000 + ":plan-1"])
def test_page_token_that_was_never_given_out_is_refused(token: str) -> None:
    request = DanubeControl_pb2.ListPlansRequest(page_token=token).SerializeToString()
    with pytest.raises(InvalidRequestError, match="no page token"):
        plan_messages.LIST_PLANS.decode(request)


def test_page_of_the_audit_log_comes_as_its_records() -> None:
    stored = StoredAuditPage(records=(encode_record(RECORD),), first=0, start=0, end=9)
    page = plan_messages.decode_audit_page(plan_messages.STORED_AUDIT_PAGE.encode(stored))
    assert page == AuditPage(records=(RECORD,), start=0, end=9)


def test_bytes_in_the_audit_log_that_are_no_record_are_named() -> None:
    stored = StoredAuditPage(records=(encode_record(RECORD), b"\xff"), first=4, start=0, end=9)
    with pytest.raises(InvalidRequestError, match="record 5 of the audit log is damaged"):
        plan_messages.decode_audit_page(plan_messages.STORED_AUDIT_PAGE.encode(stored))
