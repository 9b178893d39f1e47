"""Model values -> protobuf bytes, for plans and the audit log of `danube.control`."""

from danube.model.plans.plan import (
    Caller,
    Decision,
    Impact,
    ListPlans,
    Plan,
    PlanApplication,
    PlanCursor,
    PlanRequest,
    PlansPage,
    canonical,
)
from danube.model.records.audit import AuditEntry, AuditReceipt, ReadAudit, StoredAuditPage
from danube.wire.gen import DanubeControl_pb2

BETWEEN_TIME_AND_PLAN = ":"
"""In a page token."""

# Requests


def create_plan(request: PlanRequest) -> bytes:
    """A CreatePlanRequest."""
    message = DanubeControl_pb2.CreatePlanRequest(
        operation=request.operation,
        arguments=canonical(request.arguments),
        effect=request.effect,
        caller=_caller(request.caller),
        needs_approval=request.needs_approval,
        dry_run=request.dry_run,
    )
    return message.SerializeToString()


def get_plan(plan_id: str) -> bytes:
    """A GetPlanRequest."""
    return DanubeControl_pb2.GetPlanRequest(plan_id=plan_id).SerializeToString()


def list_plans(wanted: ListPlans) -> bytes:
    """A ListPlansRequest."""
    message = DanubeControl_pb2.ListPlansRequest(
        page_size=wanted.page_size, page_token=_page_token(wanted.after), open_only=wanted.open_only
    )
    return message.SerializeToString()


def decide_plan(decision: Decision) -> bytes:
    """A DecidePlanRequest."""
    message = DanubeControl_pb2.DecidePlanRequest(
        plan_id=decision.plan_id, approve=decision.approve, caller=_caller(decision.caller)
    )
    return message.SerializeToString()


def apply_plan(application: PlanApplication) -> bytes:
    """An ApplyPlanRequest."""
    message = DanubeControl_pb2.ApplyPlanRequest(
        plan_id=application.plan_id,
        operation=application.operation,
        arguments=canonical(application.arguments),
        caller=_caller(application.caller),
    )
    return message.SerializeToString()


def audit_entry(entry: AuditEntry) -> bytes:
    """A RecordRequest."""
    message = DanubeControl_pb2.RecordRequest(
        caller=_caller(entry.caller),
        operation=entry.operation,
        arguments=canonical(entry.arguments),
        effect=entry.effect,
        outcome=entry.outcome,
        plan_id=entry.plan_id,
        error=entry.error,
        detail=entry.detail,
    )
    return message.SerializeToString()


def read_audit(wanted: ReadAudit) -> bytes:
    """A ReadRequest."""
    topic = None if wanted.topic is None else str(wanted.topic)
    return DanubeControl_pb2.ReadRequest(start=wanted.start, limit=wanted.limit, topic=topic).SerializeToString()


def _caller(caller: Caller) -> DanubeControl_pb2.Caller:
    return DanubeControl_pb2.Caller(who=caller.who, face=caller.face, client=caller.client)


def _page_token(cursor: PlanCursor | None) -> str:
    return f"{cursor.created_ms}{BETWEEN_TIME_AND_PLAN}{cursor.plan_id}" if cursor else ""


# Answers


def plan(value: Plan) -> bytes:
    """A Plan."""
    return _plan(value).SerializeToString()


def plans_page(page: PlansPage) -> bytes:
    """A ListPlansResponse."""
    message = DanubeControl_pb2.ListPlansResponse(
        plans=[_plan(one) for one in page.plans], next_page_token=_page_token(page.next), now_ms=page.now_ms
    )
    return message.SerializeToString()


def audit_receipt(receipt: AuditReceipt) -> bytes:
    """A RecordResponse."""
    return DanubeControl_pb2.RecordResponse(sequence=receipt.sequence, hash=receipt.hash).SerializeToString()


def audit_page(page: StoredAuditPage) -> bytes:
    """A ReadResponse."""
    message = DanubeControl_pb2.ReadResponse(records=page.records, start=page.start, end=page.end, first=page.first)
    return message.SerializeToString()


def _plan(plan: Plan) -> DanubeControl_pb2.Plan:
    return DanubeControl_pb2.Plan(
        plan_id=plan.plan_id,
        operation=plan.operation,
        arguments=canonical(plan.arguments),
        effect=plan.effect,
        impact=_impact(plan.impact),
        asked_by=_caller(plan.asked_by),
        approval=plan.approval,
        created_ms=plan.created_ms,
        expires_ms=plan.expires_ms,
        decided_by=_caller(plan.decided_by) if plan.decided_by else None,
        decided_ms=plan.decided_ms,
        applied_by=_caller(plan.applied_by) if plan.applied_by else None,
        applied_ms=plan.applied_ms,
    )


def _impact(impact: Impact) -> DanubeControl_pb2.Impact:
    return DanubeControl_pb2.Impact(
        changes=impact.changes,
        irreversible=impact.irreversible,
        topics=impact.topics,
        topic_count=impact.topic_count,
        subscriptions=impact.subscriptions,
        subscription_count=impact.subscription_count,
        producers=impact.producers,
        consumers=impact.consumers,
        messages=impact.messages,
        bytes=impact.bytes,
        fingerprint=impact.fingerprint,
    )
