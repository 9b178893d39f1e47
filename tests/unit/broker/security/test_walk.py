"""Walk over the whole catalogue: call x way in x role x scope of the token x approval x two persons.

The verdict on each row follows from the effect of the call and from tables by hand: those of `test_matrix` and of
`tests/faces/test_refusals.py`, and the exceptions here. It is compared with what the broker answers, and with its audit
log: a call that changes something is on record before it begins, with its content, and so is its end, or its refusal.
"""

from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from difflib import unified_diff
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message

from danube.admin.access import Guard
from danube.admin.execution import Session, execute, parse_arguments
from danube.admin.gateway import AdminGateway
from danube.admin.operations import REGISTRY
from danube.admin.operations.operation import AnyOperation
from danube.admin.operations.plan_views import PlannedResult
from danube.broker.control.audit import AuditLog
from danube.broker.rates import claims
from danube.broker.services.catalogue import ADMIN_CALLS, CLIENT_CALLS
from danube.model.errors import (
    DanubeError,
    NotPermittedError,
    PlanRefusedError,
    PlanWaitsError,
    StorageUnavailableError,
    UnauthenticatedError,
    UnavailableError,
)
from danube.model.plans.plan import Caller, Face, PlanStatus
from danube.model.records.audit import AuditEntry, AuditRecord, Origin, Outcome
from danube.model.security.principal import TokenScope
from danube.runtime.clock import SystemClock
from tests.faces.test_refusals import EFFECTS
from tests.unit.broker.security.conftest import OWN, ROOT, Proven, SecureCell, secure_broker
from tests.unit.broker.security.scene import apply, audited, decide, gateway, operation_of, plan_of
from tests.unit.broker.security.test_matrix import TABLE, digest, expected, filled, first_answer, grant


class Verdict(StrEnum):
    """What becomes of a call at the gate and under the approval rules."""

    ALLOWED = "allowed"
    UNPROVEN = "no proof"
    BEYOND_SCOPE = "beyond the token's scope"
    NO_BINDING = "no binding"
    WAITS = "waits for somebody else"
    BY_FACE = "refused by the face"


@dataclass(frozen=True, slots=True)
class Rules:
    """Settings of a broker."""

    approval: str
    two_person: bool

    def wait(self, effect: str) -> bool:
        return effect in {"caller": set[str](), "destroy": {"destroy"}, "move": {"destroy", "move"}}[self.approval]

    @asynccontextmanager
    async def broker(self, folder: Path, authority: Path) -> AsyncIterator[SecureCell]:
        async with secure_broker(folder, authority, approval=self.approval, two_person=self.two_person) as secure:
            await grant(secure)
            yield secure


RULES = [Rules(approval, two_person) for approval in ("caller", "destroy", "move") for two_person in (False, True)]
ROLES = ["stranger", "observer", "operator", "owner", "admin"]
SCOPES = [TokenScope.OBSERVER, TokenScope.OPERATOR, TokenScope.ADMIN]
CALLERS: list[tuple[str, TokenScope | None]] = [
    ("nobody", None),
    *((role, scope) for role in ROLES for scope in SCOPES),
]
"""By rising rights."""
FEW: list[tuple[str, TokenScope | None]] = [
    *(("stranger", TokenScope.ADMIN), ("owner", TokenScope.ADMIN)),
    *(("admin", TokenScope.OPERATOR), ("admin", TokenScope.ADMIN)),
]
"""For all settings but the first: the approval rules come after the gate."""

READING = {
    *("ReceiveMessages", "TopicLookup", "TopicPartitions", "HealthCheck", "Fetch", "Bounds", "Peek", "ReadSegment"),
    *("PreviewPolicy", "PreviewSeek", "ListNamespaces", "ListSubjects", "Authenticate"),
}
"""Calls of which the table of `test_matrix` does not tell the effect; all others of them write."""
OF_BROKERS = {"Carry/Prepare": "move", "Partitions/Seek": "destroy"}
ROUTINE = {
    *("CreateProducer", "SendMessage", "Subscribe", "Ack", "Nack", "Publish", "Consume", "CloseProducer"),
    *("CloseConsumer", "RegisterSchema", "RegisterVersion", "ClaimRunner", "BeginRun", "CreateTopic"),
    *("CreatePartitionedTopic", "CreateSubscription", "Record", "ReportConnectors"),
}
"""Changes that applications, runners and faces make all day: the broker does not record them."""
OWN_CONSENT = {"CreatePlan", "ApplyPlan"}
"""Calls whose consent is that of the plan."""
GIVE_RIGHTS = {"CreateBinding", "CreateApiKey", "create_binding", "create_api_key"}
"""Here to a principal that is not the caller."""
RIGHTS = {"CreateRole", "CreateBinding", "CreateApiKey"}
"""Changes of who may what, for tokens of scope admin."""
BY_CLIENT = {"HealthCheck", "CloseProducer", "CloseConsumer", "ReceiveMessages"}
"""Calls by the id of a client: a scope is refused like a missing binding."""
WITHOUT_TEXT = {"PromoteNode", "RemoveNode", "SetAutomatic", "TransferLeadership", "TriggerRebalance"}
"""Their requests have numbers alone, here 0: a message of protobuf without content."""
USER = {"principal_type": "user", "principal_name": "somebody"}
VALID: dict[str, dict[str, Any]] = {
    "SecurityAdmin/CreateBinding": {
        "binding": {**USER, "id": "theirs", "scope": "cluster", "role_names": ["producer"]}
    },
    "Security/CreateApiKey": {**USER, "scope": "observer"},
}
"""Requests that are made up by hand."""
DROPS = {"poison_policy": "Drop", "ack_timeout_ms": 1_000, "dead_letter_topic": OWN}
VARIANTS: list[tuple[str, dict[str, Any], str]] = [
    ("TopicAdmin/SetSubscriptionFailurePolicy", {"failure_policy": DROPS}, "destroy"),
    ("Schemas/SetMode", {"subject": "some", "ask": True}, "read"),
    ("Plans/CreatePlan", {"dry_run": True}, "read"),
]
"""Requests with another effect than others for the same call. A message in one is as it stands here alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One request."""

    path: str
    effect: str
    message: Message
    is_admin_port: bool
    is_stream: bool
    texts: list[str]

    @property
    def method(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def word(self) -> str:
        service, method = self.path.rpartition(".")[2].split("/")
        return TABLE[service][method]

    @property
    def is_recorded(self) -> bool:
        return self.effect != "read" and self.method not in ROUTINE

    def verdict(self, role: str, scope: TokenScope | None, rules: Rules) -> Verdict:
        if self.method == "Authenticate":
            return Verdict.ALLOWED
        if scope is None:
            return Verdict.UNPROVEN
        if self.method not in {"Record", "ReportConnectors"} and self._is_beyond(scope):
            return Verdict.NO_BINDING if self.method in BY_CLIENT else Verdict.BEYOND_SCOPE
        is_reading = self.effect == "read" and self.method not in OWN_CONSENT
        word = self.word.replace(" write", " read") if is_reading else self.word
        if not expected(role, word, OWN):
            return Verdict.NO_BINDING
        if self.is_recorded and self.method not in OWN_CONSENT and rules.wait(self.effect):
            return Verdict.WAITS
        if rules.two_person and self.method in GIVE_RIGHTS:
            return Verdict.WAITS
        is_beyond = scope is TokenScope.OPERATOR and self.method in RIGHTS
        return Verdict.BEYOND_SCOPE if is_beyond else Verdict.ALLOWED

    def begins(self, verdict: Verdict, scope: TokenScope | None) -> bool:
        """True if the gate and the approval rules let it begin."""
        is_late = verdict is Verdict.BEYOND_SCOPE and scope is TokenScope.OPERATOR and self.method in RIGHTS
        return verdict is Verdict.ALLOWED or is_late

    def records(self, who: str, error: DanubeError | None, *, has_begun: bool) -> list[str]:
        """What the audit log has of it."""
        end, code = Outcome.PLANNED if self.method == "CreatePlan" else Outcome.DONE, None
        if error is not None:
            refused = (NotPermittedError, PlanRefusedError)
            end, code = Outcome.REFUSED if isinstance(error, refused) else Outcome.FAILED, error.code
        outcomes = [*([(Outcome.STARTED, None)] if has_begun else []), (end, code)]
        return [
            f"{who} {operation_of(self.method)} {self.effect} {each} {code} {self.texts}" for each, code in outcomes
        ]

    def _is_beyond(self, scope: TokenScope) -> bool:
        effect = "write" if self.method in OWN_CONSENT else self.effect
        if scope is TokenScope.OBSERVER:
            return effect != "read"
        return scope is TokenScope.OPERATOR and (effect == "destroy" or self.method == "DecidePlan")


@cache
def rows() -> list[Row]:
    """Each call of both ports, what destroys last."""
    found = []
    for calls, is_admin in ((CLIENT_CALLS, False), (ADMIN_CALLS, True)):
        for service, methods in calls.items():
            for method, call in methods.items():
                for message, effect in requests_of(service, method):
                    row = Row(
                        path=f"/{service}/{method}",
                        effect=effect,
                        message=message,
                        is_admin_port=is_admin,
                        is_stream=call.unary is None,
                        texts=sorted(set(leaves(MessageToDict(message)))),
                    )
                    found.append(row)
    return sorted(found, key=lambda row: row.effect == "destroy")


def requests_of(service: str, method: str) -> Iterator[tuple[Message, str]]:
    name = f"{service.rpartition('.')[2]}/{method}"
    message = filled(service, method, OWN)
    yield ParseDict(VALID[name], type(message)()) if name in VALID else message, effect_of(name)
    for of, changes, effect in VARIANTS:
        if of == name:
            kept = {} if "ask" in changes else MessageToDict(message, preserving_proto_field_name=True)
            yield ParseDict({**kept, **changes}, type(message)()), effect


def effect_of(name: str) -> str:
    service, method = name.split("/")
    word = TABLE[service][method].split()
    known = OF_BROKERS.get(name, word[2] if len(word) == 3 else "")
    return known or ("read" if method in READING else "write")


async def answer(channel: Proven, row: Row) -> DanubeError | None:
    request = row.message.SerializeToString()
    try:
        if row.is_stream:
            await first_answer(channel.channel.stream(row.path, metadata=channel.metadata), request)
        else:
            await channel.call(row.path, request)
    except DanubeError as error:
        return error
    return None


def verdict_of(error: DanubeError | None) -> Verdict:
    """What an answer says of rights and approval; other errors are about what was asked."""
    match error:
        case UnauthenticatedError():
            return Verdict.UNPROVEN
        case PlanWaitsError():
            return Verdict.WAITS
        case NotPermittedError() if str(error).startswith("a token of scope"):
            return Verdict.BEYOND_SCOPE
        case NotPermittedError() if str(error).startswith("no binding grants"):
            return Verdict.NO_BINDING
        case NotPermittedError() if "no assistant does that" in str(error):
            return Verdict.BY_FACE
    return Verdict.ALLOWED


@pytest.fixture(autouse=True)
def _many_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "AUDIT_CLAIMS_BURST", 1e6)


@pytest.mark.parametrize("rules", RULES, ids=str)
async def test_every_call_is_answered_and_recorded_by_its_effect(rules: Rules, tmp_path: Path, authority: Path) -> None:
    surprises, wanted = list[str](), list[str]()
    async with rules.broker(tmp_path, authority) as secure:
        start = len(await audited(secure))
        for role, scope in CALLERS if rules is RULES[0] else FEW:
            token = scope and secure.token(role, scope, token_id=f"{role}-{scope}")
            for row in rows() if rules is RULES[0] else (row for row in rows() if row.is_recorded):
                verdict = row.verdict(role, scope, rules)
                error = await answer(secure.channel(token, admin=row.is_admin_port), row)
                if verdict_of(error) is not verdict and row.method != "Authenticate":
                    surprises.append(f"{role} {scope} {row.path} {row.effect}: {verdict_of(error)}, not {verdict}")
                if row.is_recorded and scope is not None:
                    wanted += row.records(f"user:{role}", error, has_begun=row.begins(verdict, scope))
        records = [each for each in (await audited(secure))[start:] if each.origin is Origin.SEEN]
    assert "\n".join(surprises) == ""
    assert "\n".join(unified_diff(wanted, [told(each.entry) for each in records], n=0, lineterm="")) == ""


def told(entry: AuditEntry) -> str:
    texts = sorted(set(leaves(entry.arguments)))
    return f"{entry.caller.who} {entry.operation} {entry.effect} {entry.outcome} {entry.error} {texts}"


def leaves(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for each in value.values():
            yield from leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from leaves(each)
    elif isinstance(value, str):
        yield value


ON_FACES = [Face.CLI, Face.WEB, Face.MCP]
FACE_CALLERS: list[tuple[str, TokenScope | None]] = [
    *(("nobody", None), ("stranger", TokenScope.ADMIN), ("observer", TokenScope.ADMIN)),
    *(("admin", scope) for scope in SCOPES),
]
FACE_FEW = [each for each in FACE_CALLERS if each[0] == "observer" or (each[1] in SCOPES[1:] and each[0] == "admin")]
OF_SCOPE_ADMIN = {
    *("approve_plan", "reject_plan", "create_role", "create_binding", "create_api_key"),
    *("delete_role", "delete_binding", "delete_api_key", "revoke_tokens"),
}
"""Consent, and rights: given, or taken away by a plan."""
BY_GATE = {"approve_plan", "reject_plan"}
"""Refused by the gate for a scope; the others by their handler, once they have begun."""
CLAIMED = {"create_topic", "create_subscription", "register_schema"}
"""Everyday changes, which only faces tell."""
ELSEWHERE = {"run_analytics", "disconnect_client"}
"""Starts a program of its own on this machine; finds no client here, and so disconnects none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaceRow:
    """One operation through one face."""

    operation: AnyOperation
    face: Face
    role: str
    scope: TokenScope | None

    @property
    def effect(self) -> str:
        return EFFECTS[self.operation.name]

    def verdict(self, rules: Rules) -> Verdict:
        if self.face is Face.MCP and self.effect in {"guarded", "consent"}:
            return Verdict.BY_FACE
        if self.scope is None:
            return Verdict.UNPROVEN
        is_operator = self.scope is TokenScope.OPERATOR
        if rules.two_person and is_operator and self.operation.name in GIVE_RIGHTS:
            return Verdict.WAITS
        if self.scope is TokenScope.OBSERVER or (is_operator and self.operation.name in OF_SCOPE_ADMIN):
            return Verdict.BEYOND_SCOPE
        if self.role != "admin":
            return Verdict.NO_BINDING
        return Verdict.WAITS if rules.two_person and self.operation.name in GIVE_RIGHTS else Verdict.ALLOWED

    def records(self, verdict: Verdict, result: object) -> list[str]:
        """What the audit log has of it."""
        name, is_claimed = self.operation.name, self.operation.name in CLAIMED
        by_handler = self.scope is TokenScope.OPERATOR and name not in BY_GATE
        begins = verdict is Verdict.ALLOWED or (verdict is Verdict.BEYOND_SCOPE and by_handler) or is_claimed
        if self.scope is None or (self.role == "stranger" and (is_claimed or verdict is Verdict.BY_FACE)):
            return []  # no proof, or nothing that a principal without a binding may claim
        end = Outcome.DONE
        if isinstance(result, PlannedResult):
            end = Outcome.PLANNED
        elif isinstance(result, DanubeError):
            is_refused = isinstance(result, (NotPermittedError, PlanRefusedError))
            end = Outcome.REFUSED if is_refused else Outcome.FAILED
        origin = Origin.CLAIMED if is_claimed or verdict is Verdict.BY_FACE else Origin.SEEN
        outcomes = [Outcome.STARTED, end] if begins else [end]
        return [f"user:{self.role} {self.face} {name} {outcome} {origin}" for outcome in outcomes]


@pytest.mark.parametrize("rules", RULES, ids=str)
async def test_every_operation_of_a_face_is_allowed_and_recorded_by_its_effect(
    rules: Rules, tmp_path: Path, authority: Path
) -> None:
    surprises, wanted = list[str](), list[str]()
    async with rules.broker(tmp_path, authority) as secure, AsyncExitStack() as stack:
        for name in ("/default/orders", "/default/events", "/default/ticks"):
            await secure.create_topic(name)
        start = len(await audited(secure))
        for number, (role, scope) in enumerate(FACE_CALLERS if rules is RULES[0] else FACE_FEW):
            token = scope and secure.token(role, scope, token_id=f"{role}-{scope}")
            reached = await stack.enter_async_context(gateway(secure, token, tmp_path / "state"))
            for at, operation in enumerate(changing()):
                face = ON_FACES[(at + number + RULES.index(rules)) % len(ON_FACES)]  # each in two of the settings
                row = FaceRow(operation=operation, face=face, role=role, scope=scope)
                result, verdict = await done(reached, row), row.verdict(rules)
                wanted += row.records(verdict, result)
                found = verdict_of(result if isinstance(result, DanubeError) else None)
                if found is not verdict:
                    surprises.append(f"{role} {scope} {operation.name} {face}: {found}, not {verdict}: {result}")
                if isinstance(result, PlannedResult) and result.plan.plan_id:
                    waits = rules.wait(row.effect) or (row.effect == "destroy" and is_watched(row))
                    if result.status is not (PlanStatus.WAITING if waits else PlanStatus.READY):
                        surprises.append(f"{role} {scope} {operation.name} {face}: the plan is {result.status}")
        records = (await audited(secure))[start:]
    assert "\n".join(surprises) == ""
    assert "\n".join(unified_diff(wanted, list(map(told_of_a_face, records)), n=0, lineterm="")) == ""


def changing() -> list[AnyOperation]:
    return [each for each in REGISTRY if EFFECTS[each.name] != "read" and each.name not in ELSEWHERE]


def is_watched(row: FaceRow) -> bool:
    """Destruction by who may not do it alone: an assistant, and a token of scope operator."""
    return row.face is Face.MCP or row.scope is TokenScope.OPERATOR


def told_of_a_face(record: AuditRecord) -> str:
    entry = record.entry
    return f"{entry.caller.who} {entry.caller.face} {entry.operation} {entry.outcome} {record.origin}"


async def done(gateway: AdminGateway, row: FaceRow) -> object:
    caller = Caller(who="somebody", face=row.face)
    session = Session(gateway=gateway, caller=caller, clock=SystemClock(), guard=Guard())
    arguments = parse_arguments(row.operation, dict(row.operation.examples[0].arguments))
    try:
        return await execute(session, row.operation, arguments)
    except DanubeError as error:
        return error


@pytest.mark.parametrize("rules", RULES, ids=str)
async def test_a_plan_is_applied_with_the_consent_that_its_effect_takes(
    rules: Rules, tmp_path: Path, authority: Path
) -> None:
    """By an administrator with either scope, approved by nobody, by the same one, or by another."""
    surprises, wanted = list[str](), list[str]()
    async with rules.broker(tmp_path, authority) as secure:
        start = len(await audited(secure))
        for scope in (TokenScope.OPERATOR, TokenScope.ADMIN):
            for by in ("nobody", "admin", ROOT):
                topic = f"/default/{scope}-{by}"
                await secure.create_topic(topic)
                asker = secure.channel(secure.token("admin", scope, token_id=f"admin-{scope}"))
                plan = await plan_of(asker, topic)
                waits = rules.wait("destroy") or scope is TokenScope.OPERATOR
                may_decide = by == ROOT or not rules.two_person
                steps = [f"user:admin delete_topic {Outcome.PLANNED}"]
                if waits and by != "nobody":
                    is_decided = await succeeds(decide(secure.channel(secure.token(by)), plan.plan_id))
                    steps.append(f"user:{by} approve_plan {Outcome.DONE if may_decide else Outcome.REFUSED}")
                    if is_decided is not may_decide:
                        surprises.append(f"{scope} by {by}: decided {is_decided}")
                is_enough = by == ROOT or (by == "admin" and may_decide and scope is TokenScope.ADMIN)
                may_apply = is_enough or not waits
                steps.append(f"user:admin delete_topic {Outcome.DONE if may_apply else Outcome.REFUSED}")
                if await succeeds(apply(asker, plan)) is not may_apply:
                    surprises.append(f"{scope} by {by}: applied {not may_apply}")
                wanted += [f"{step} {plan.plan_id}" for step in steps]
        ends = [each.entry for each in (await audited(secure))[start:] if each.entry.outcome is not Outcome.STARTED]
    assert "\n".join(surprises) == ""
    told_ends = [f"{each.caller.who} {each.operation} {each.outcome} {each.plan_id}" for each in ends]
    assert "\n".join(unified_diff(wanted, told_ends, n=0, lineterm="")) == ""


async def succeeds(call: Awaitable[object]) -> bool:
    try:
        await call
    except PlanRefusedError:
        return False
    return True


async def test_nothing_that_is_recorded_begins_before_its_record(
    tmp_path: Path, authority: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def record(*_: object) -> None:
        raise StorageUnavailableError("the disk is full")

    begun = list[str]()
    async with RULES[0].broker(tmp_path, authority) as secure:
        before, token = await digest(secure), secure.token("admin")
        monkeypatch.setattr(AuditLog, "record", record)
        for row in (row for row in rows() if row.is_recorded):
            error = await answer(secure.channel(token, admin=row.is_admin_port), row)
            if not isinstance(error, UnavailableError) or "the audit log cannot be written" not in str(error):
                begun.append(f"{row.path}: {error}")
        assert "\n".join(begun) == ""
        assert await digest(secure) == before
