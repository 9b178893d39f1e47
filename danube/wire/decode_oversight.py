"""Protobuf bytes -> model values, for plans and the audit log of `danube.control`. Rejects as `decode` does."""

from enum import StrEnum
from typing import TypeVar

from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import (
    AUDIT_PAGE_MAX,
    AUDIT_TEXT_CHARS_MAX,
    CALLER_CHARS_MAX,
    NAME_BYTES_MAX,
    PLAN_ARGUMENTS_BYTES_MAX,
    PLAN_ARGUMENTS_DEPTH_MAX,
    PLANS_PAGE_MAX,
)
from danube.model.plans.plan import (
    Approval,
    Arguments,
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
    canonical,
)
from danube.model.records.audit import (
    AuditEntry,
    AuditPage,
    AuditReceipt,
    AuditRecord,
    Outcome,
    ReadAudit,
    decode_record,
)
from danube.model.topic import TopicName
from danube.model.untrusted_json import decode_json
from danube.wire.encode_oversight import BETWEEN_TIME_AND_PLAN
from danube.wire.gen import DanubeControl_pb2
from danube.wire.interceptors import parse

E = TypeVar("E", bound=StrEnum)

# Requests


def create_plan(request: bytes) -> PlanRequest:
    """A CreatePlanRequest."""
    message = parse(DanubeControl_pb2.CreatePlanRequest, request)
    return PlanRequest(
        operation=_short("operation", message.operation, NAME_BYTES_MAX),
        arguments=_arguments(message.arguments),
        effect=_word(Effect, message.effect),
        caller=_caller(message.caller),
        needs_approval=message.needs_approval,
        dry_run=message.dry_run,
    )


def get_plan(request: bytes) -> str:
    """The plan's id in a GetPlanRequest."""
    return _plan_id(parse(DanubeControl_pb2.GetPlanRequest, request).plan_id)


def list_plans(request: bytes) -> ListPlans:
    """A ListPlansRequest; a page size beyond the bound becomes the bound."""
    message = parse(DanubeControl_pb2.ListPlansRequest, request)
    return ListPlans(
        page_size=min(message.page_size or PLANS_PAGE_MAX, PLANS_PAGE_MAX),
        open_only=message.open_only,
        after=_cursor(message.page_token),
    )


def decide_plan(request: bytes) -> Decision:
    """A DecidePlanRequest."""
    message = parse(DanubeControl_pb2.DecidePlanRequest, request)
    return Decision(plan_id=_plan_id(message.plan_id), approve=message.approve, caller=_caller(message.caller))


def apply_plan(request: bytes) -> PlanApplication:
    """An ApplyPlanRequest."""
    message = parse(DanubeControl_pb2.ApplyPlanRequest, request)
    return PlanApplication(
        plan_id=_plan_id(message.plan_id),
        operation=_short("operation", message.operation, NAME_BYTES_MAX),
        arguments=_arguments(message.arguments),
        caller=_caller(message.caller),
    )


def audit_entry(request: bytes) -> AuditEntry:
    """A RecordRequest; texts longer than the log takes are refused, see `danube.model.records.audit.bounded`."""
    message = parse(DanubeControl_pb2.RecordRequest, request)
    return AuditEntry(
        caller=_caller(message.caller),
        operation=_short("operation", message.operation, AUDIT_TEXT_CHARS_MAX),
        arguments=_arguments(message.arguments, any_text=True),
        effect=_word(Effect, message.effect),
        outcome=_word(Outcome, message.outcome),
        plan_id=_plan_id(message.plan_id) if message.HasField("plan_id") else None,
        error=_short("error", message.error, AUDIT_TEXT_CHARS_MAX) if message.HasField("error") else None,
        detail=_short("detail", message.detail, AUDIT_TEXT_CHARS_MAX),
    )


def read_audit(request: bytes) -> ReadAudit:
    """A ReadRequest; a limit beyond the bound becomes the bound."""
    message = parse(DanubeControl_pb2.ReadRequest, request)
    topic = TopicName.parse(message.topic) if message.HasField("topic") else None
    return ReadAudit(start=message.start, limit=min(message.limit or AUDIT_PAGE_MAX, AUDIT_PAGE_MAX), topic=topic)


def _caller(message: DanubeControl_pb2.Caller) -> Caller:
    if not message.who:
        raise InvalidRequestError("the request does not say who asks: set the caller, with `who` and `face` in it")
    return Caller(
        who=_short("caller", message.who, CALLER_CHARS_MAX),
        face=_word(Face, message.face),
        client=_short("client", message.client, CALLER_CHARS_MAX),
    )


def _arguments(text: str, *, any_text: bool = False) -> Arguments:
    size = len(text)
    try:
        arguments = (
            decode_json(text, depth_max=PLAN_ARGUMENTS_DEPTH_MAX, any_text=any_text)
            if size <= PLAN_ARGUMENTS_BYTES_MAX
            else {}
        )
        size = max(size, len(canonical(arguments)))
    except ValueError:  # also for NaN, infinity and what is nested too deeply
        arguments = None
    if size > PLAN_ARGUMENTS_BYTES_MAX:
        raise InvalidRequestError(f"the arguments are longer than {PLAN_ARGUMENTS_BYTES_MAX} bytes of JSON: cut them")
    if not isinstance(arguments, dict):
        raise InvalidRequestError("the arguments are no JSON object: send all parameters as one, by their names")
    return arguments


def _plan_id(text: str) -> str:
    return _short("plan id", text, NAME_BYTES_MAX)


def _short(kind: str, text: str, chars_max: int) -> str:
    if len(text) > chars_max:
        raise InvalidRequestError(f"{kind} {text[:40]!r}... is longer than {chars_max} characters: cut it")
    return text


def _word(kind: type[E], text: str) -> E:
    try:
        return kind(text)
    except ValueError:
        known = ", ".join(kind)
        raise InvalidRequestError(f"{text[:40]!r} is not a word for {kind.__name__.lower()}: use {known}") from None


def _cursor(page_token: str) -> PlanCursor | None:
    if not page_token:
        return None
    time, separator, plan_id = page_token.partition(BETWEEN_TIME_AND_PLAN)
    if not (separator and plan_id and time.isascii() and time.isdigit() and len(page_token) <= NAME_BYTES_MAX):
        raise InvalidRequestError(f"{page_token[:40]!r} is no page token of this call: begin with the first page")
    return PlanCursor(created_ms=int(time), plan_id=plan_id)


# Answers


def plan(response: bytes) -> Plan:
    """A Plan."""
    return _plan(parse(DanubeControl_pb2.Plan, response))


def plans_page(response: bytes) -> PlansPage:
    """A ListPlansResponse."""
    message = parse(DanubeControl_pb2.ListPlansResponse, response)
    return PlansPage(
        plans=tuple(_plan(one) for one in message.plans), now_ms=message.now_ms, next=_cursor(message.next_page_token)
    )


def audit_receipt(response: bytes) -> AuditReceipt:
    """A RecordResponse."""
    message = parse(DanubeControl_pb2.RecordResponse, response)
    return AuditReceipt(sequence=message.sequence, hash=message.hash)


def audit_page(response: bytes) -> AuditPage:
    """A ReadResponse. Raises InvalidRequestError that names the first record that is none."""
    message = parse(DanubeControl_pb2.ReadResponse, response)
    records = tuple(_audit_record(sequence, data) for sequence, data in enumerate(message.records, message.first))
    return AuditPage(records=records, start=message.start, end=message.end)


def _audit_record(sequence: int, data: bytes) -> AuditRecord:
    try:
        return decode_record(data)
    except InvalidRequestError:
        raise InvalidRequestError(
            f"record {sequence} of the audit log is damaged, or another program wrote it: read up to it, and on from"
            f" {sequence + 1}"
        ) from None


def _plan(message: DanubeControl_pb2.Plan) -> Plan:
    return Plan(
        plan_id=message.plan_id,
        operation=message.operation,
        arguments=_arguments(message.arguments),
        effect=_word(Effect, message.effect),
        impact=_impact(message.impact),
        asked_by=_caller(message.asked_by),
        approval=_word(Approval, message.approval),
        created_ms=message.created_ms,
        expires_ms=message.expires_ms,
        decided_by=_caller(message.decided_by) if message.HasField("decided_by") else None,
        decided_ms=message.decided_ms if message.HasField("decided_ms") else None,
        applied_by=_caller(message.applied_by) if message.HasField("applied_by") else None,
        applied_ms=message.applied_ms if message.HasField("applied_ms") else None,
    )


def _impact(message: DanubeControl_pb2.Impact) -> Impact:
    return Impact(
        changes=tuple(message.changes),
        irreversible=tuple(message.irreversible),
        topics=tuple(message.topics),
        topic_count=message.topic_count,
        subscriptions=tuple(message.subscriptions),
        subscription_count=message.subscription_count,
        producers=message.producers if message.HasField("producers") else None,
        consumers=message.consumers if message.HasField("consumers") else None,
        messages=message.messages if message.HasField("messages") else None,
        bytes=message.bytes if message.HasField("bytes") else None,
        fingerprint=message.fingerprint,
    )
