"""Messages of `danube.control` about plans, audit log, balance, schedules and connectors: ours alone."""

import base64
import math
from collections.abc import Mapping, Sequence
from functools import partial

from danube.model.calls.balance import (
    AutomaticBalance,
    BalanceRule,
    CancelRebalance,
    ClearRule,
    ClusterBalance,
    Rebalance,
    RebalancePreview,
    RebalanceWish,
    SetAutomatic,
)
from danube.model.errors import InvalidRequestError
from danube.model.limits.balance import (
    BALANCE_REASON_CHARS_MAX,
    EXTRA_BROKERS_MAX,
    RATE_FACTOR_MAX,
    REBALANCE_MOVES_DEFAULT,
    REBALANCE_MOVES_MAX,
)
from danube.model.limits.broker import (
    AUDIT_PAGE_MAX,
    AUDIT_TEXT_CHARS_MAX,
    CALLER_CHARS_MAX,
    NAME_BYTES_MAX,
    PLAN_ARGUMENTS_BYTES_MAX,
    PLAN_ARGUMENTS_DEPTH_MAX,
    PLANS_PAGE_MAX,
)
from danube.model.limits.faces import CONNECT_NAME_CHARS_MAX, CONNECT_REASON_CHARS_MAX, CONNECT_TASKS_TOLD_MAX
from danube.model.plans.plan import (
    Arguments,
    Caller,
    Decision,
    ListPlans,
    Plan,
    PlanApplication,
    PlanCursor,
    PlanRequest,
    PlansPage,
    canonical,
)
from danube.model.plans.policy_effects import PolicyEffect, PreviewPolicy
from danube.model.records.audit import (
    AuditEntry,
    AuditPage,
    AuditReceipt,
    AuditRecord,
    ReadAudit,
    StoredAuditPage,
    decode_record,
)
from danube.model.records.connectors import ChangeConnector, ConnectorBook, ConnectorTask, ConnectorWish, RunnerReport
from danube.model.records.schedules import BeginRun, RunnerClaim, RunnerLease, Schedule, ScheduleBook
from danube.model.topic import TopicName
from danube.model.untrusted_json import decode_json
from danube.wire.codec import Codec, Rule, Unread, listing, record, single
from danube.wire.control_messages import check_names
from danube.wire.gen import DanubeAnalytics_pb2 as analytics_pb
from danube.wire.gen import DanubeBalance_pb2 as balance_pb
from danube.wire.gen import DanubeControl_pb2 as pb

_AFTER_TIME = ":"
"""Between time and plan id in a page token."""


def _check_short(kind: str, chars_max: int, text: str) -> None:
    if len(text) > chars_max:
        raise InvalidRequestError(f"{kind} {text[:40]!r}... is longer than {chars_max} characters: cut it")


def _short(kind: str, chars_max: int) -> Rule:
    return Rule(check=partial(_check_short, kind, chars_max))


def _check_who(text: str) -> None:
    if not text:
        raise InvalidRequestError("the request does not say who asks: set the caller, with `who` and `face` in it")
    _check_short("caller", CALLER_CHARS_MAX, text)


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


def _cursor(page_token: str) -> PlanCursor:
    time, separator, plan_id = page_token.partition(_AFTER_TIME)
    if not (separator and plan_id and time.isascii() and time.isdigit() and len(page_token) <= NAME_BYTES_MAX):
        raise InvalidRequestError(f"{page_token[:40]!r} is no page token of this call: begin with the first page")
    return PlanCursor(created_ms=int(time), plan_id=plan_id)


def _page_token(cursor: PlanCursor) -> str:
    return f"{cursor.created_ms}{_AFTER_TIME}{cursor.plan_id}"


_OPERATION = _short("operation", NAME_BYTES_MAX)
_PLAN_ID = _short("plan id", NAME_BYTES_MAX)
_ARGUMENTS = Rule(decode=_arguments, encode=canonical)

# Balance of load


def _check_target(target_cv: float) -> None:
    if not (math.isfinite(target_cv) and 0 <= target_cv <= 10):
        raise InvalidRequestError(f"an imbalance of {target_cv} cannot be aimed at: use 0.01 to 10")


def _check_factor(factor: float) -> None:
    if not (math.isfinite(factor) and 0 <= factor <= RATE_FACTOR_MAX):
        raise InvalidRequestError(f"a topic cannot be imagined at {factor} times its rate: use 0 to {RATE_FACTOR_MAX}")


_NAME = _short("name", NAME_BYTES_MAX)
_CALLER = _short("caller", CALLER_CHARS_MAX)
REBALANCE_PREVIEW = record(RebalancePreview, balance_pb.RebalancePreview)
AUTOMATIC = record(AutomaticBalance, balance_pb.AutomaticBalance)
SET_RULE = record(
    BalanceRule, balance_pb.BalanceRule, name=_NAME, reason=_short("reason", BALANCE_REASON_CHARS_MAX), set_by=_CALLER
)
CLEAR_RULE = record(ClearRule, balance_pb.ClearRuleRequest, name=_NAME)
RULES = listing(balance_pb.BalanceRules, "rules", BalanceRule)
SET_AUTOMATIC = record(SetAutomatic, balance_pb.SetAutomaticRequest, mode=_NAME, set_by=_CALLER)
BALANCE = Unread(balance_pb.BalanceRequest)
CLUSTER_BALANCE = record(ClusterBalance, balance_pb.BalanceResponse)
REBALANCE_WISH = record(
    RebalanceWish,
    balance_pb.RebalanceWish,
    target_cv=Rule(check=_check_target, decode=lambda target_cv: target_cv or RebalanceWish().target_cv),
    moves_max=Rule(decode=lambda count: min(count or REBALANCE_MOVES_DEFAULT, REBALANCE_MOVES_MAX)),
    strategy=_NAME,
    without_broker=_NAME,
    extra_brokers=Rule(decode=lambda count: min(count, EXTRA_BROKERS_MAX)),
    topic=_NAME,
    factor=Rule(check=_check_factor),
)
LIST_REBALANCES = single(balance_pb.RebalancesRequest, "plan_id", str, _NAME)
REBALANCES = listing(balance_pb.RebalancesResponse, "rebalances", Rebalance)
CANCEL_REBALANCE = record(CancelRebalance, balance_pb.CancelRebalanceRequest, rebalance_id=_NAME, cancelled_by=_CALLER)
REBALANCE_CANCELLED: Codec[Rebalance | None] = single(balance_pb.CancelRebalanceResponse, "rebalance", Rebalance | None)

# Schedules of analytics jobs

SCHEDULE = record(
    Schedule,
    analytics_pb.JobSchedule,
    name=_NAME,
    set_by=_CALLER,
)
LIST_SCHEDULES = Unread(analytics_pb.ListSchedulesRequest)
SCHEDULES = record(ScheduleBook, analytics_pb.ListSchedulesResponse)
SCHEDULE_NAME = single(analytics_pb.ScheduleRequest, "name", str, _NAME)
CLAIM_RUNNER = record(RunnerClaim, analytics_pb.ClaimRunnerRequest, runner=_NAME)
RUNNER_LEASE = record(RunnerLease, analytics_pb.ClaimRunnerResponse)
BEGIN_RUN = record(BeginRun, analytics_pb.BeginRunRequest, runner=_NAME, name=_NAME)

# Connectors


def _check_tasks(tasks: Sequence[object]) -> None:
    if len(tasks) > CONNECT_TASKS_TOLD_MAX:
        raise InvalidRequestError(f"a runner tells of {CONNECT_TASKS_TOLD_MAX} tasks at most")


def _check_connector(name: str) -> None:
    if not 0 < len(name) <= CONNECT_NAME_CHARS_MAX:
        raise InvalidRequestError(f"the name {name[:40]!r} has to have 1 to {CONNECT_NAME_CHARS_MAX} characters")


_CONNECTOR, _TOLD = Rule(check=_check_connector), _short("text", CONNECT_REASON_CHARS_MAX)
_TEXTS = ("kind", "direction", "delivery", "task", "topic", "subscription", "reason", "position")
record(ConnectorTask, analytics_pb.ConnectorTask, connector=_CONNECTOR, **dict.fromkeys(_TEXTS, _TOLD))
REPORT_CONNECTORS = record(
    RunnerReport, analytics_pb.RunnerReport, runner=_CONNECTOR, tasks=Rule(check=_check_tasks), principal=_CALLER
)
CONNECTOR_WISH = record(ConnectorWish, analytics_pb.ConnectorWish)
CONNECTOR_WISHES = listing(analytics_pb.ReportConnectorsResponse, "wishes", ConnectorWish)
LIST_CONNECTORS = Unread(analytics_pb.ListConnectorsRequest)
CONNECTORS = record(ConnectorBook, analytics_pb.ListConnectorsResponse)
CHANGE_CONNECTOR = record(ChangeConnector, analytics_pb.ChangeConnectorRequest, connector=_CONNECTOR, set_by=_CALLER)

# Plans

CALLER = record(Caller, pb.Caller, who=Rule(check=_check_who), client=_short("client", CALLER_CHARS_MAX))
CREATE_PLAN = record(PlanRequest, pb.CreatePlanRequest, operation=_OPERATION, arguments=_ARGUMENTS)
PREVIEW_POLICY = record(
    PreviewPolicy, pb.PreviewPolicyRequest, operation=_OPERATION, arguments=_ARGUMENTS, topics=Rule(check=check_names)
)
record(PolicyEffect, pb.PolicyEffect)
POLICY_EFFECTS = listing(pb.PreviewPolicyResponse, "effects", PolicyEffect)
GET_PLAN = single(pb.GetPlanRequest, "plan_id", str, _PLAN_ID)
LIST_PLANS = record(
    ListPlans,
    pb.ListPlansRequest,
    page_size=Rule(decode=lambda size: min(size or PLANS_PAGE_MAX, PLANS_PAGE_MAX)),
    after=Rule(name="page_token", decode=_cursor, encode=_page_token),
)
DECIDE_PLAN = record(Decision, pb.DecidePlanRequest, plan_id=_PLAN_ID)
APPLY_PLAN = record(PlanApplication, pb.ApplyPlanRequest, plan_id=_PLAN_ID, operation=_OPERATION, arguments=_ARGUMENTS)
PLAN = record(Plan, pb.Plan, arguments=_ARGUMENTS)
PLANS_PAGE = record(
    PlansPage, pb.ListPlansResponse, next=Rule(name="next_page_token", decode=_cursor, encode=_page_token)
)

# The audit log


def _audit_record(sequence: int, data: bytes) -> AuditRecord:
    try:
        return decode_record(data)
    except InvalidRequestError:
        raise InvalidRequestError(
            f"record {sequence} of the audit log is damaged, or another program wrote it: read up to it, and on from"
            f" {sequence + 1}"
        ) from None


AUDIT_ENTRY = record(
    AuditEntry,
    pb.RecordRequest,
    operation=_short("operation", AUDIT_TEXT_CHARS_MAX),
    arguments=Rule(decode=partial(_arguments, any_text=True), encode=canonical),
    plan_id=_PLAN_ID,
    error=_short("error", AUDIT_TEXT_CHARS_MAX),
    detail=_short("detail", AUDIT_TEXT_CHARS_MAX),
)
"""Longer texts are refused; `danube.model.records.audit.bounded` cuts them."""
AUDIT_RECEIPT = record(AuditReceipt, pb.RecordResponse)
READ_AUDIT = record(
    ReadAudit,
    pb.ReadRequest,
    limit=Rule(decode=lambda limit: min(limit or AUDIT_PAGE_MAX, AUDIT_PAGE_MAX)),
    topic=Rule(decode=TopicName.parse),
)
STORED_AUDIT_PAGE = record(StoredAuditPage, pb.ReadResponse)


def decode_audit_page(response: bytes) -> AuditPage:
    """A ReadResponse, its records decoded. Raises InvalidRequestError that names the first record that is none."""
    page = STORED_AUDIT_PAGE.decode(response)
    records = tuple(_audit_record(sequence, data) for sequence, data in enumerate(page.records, page.first))
    return AuditPage(records=records, start=page.start, end=page.end)


CALLER_HEADER = "danube-caller"
"""Metadata of a call: who calls through a face, as that tells it."""


def caller_header(caller: Caller) -> tuple[str, str]:
    """The metadata that tells the caller."""
    return CALLER_HEADER, base64.urlsafe_b64encode(CALLER.encode(caller)).decode()


def claimed_caller(metadata: Mapping[str, str]) -> Caller | None:
    """The caller that metadata tells; None where it tells none that can be read."""
    try:
        return CALLER.decode(base64.urlsafe_b64decode(metadata[CALLER_HEADER]))
    except (KeyError, ValueError, InvalidRequestError):
        return None
