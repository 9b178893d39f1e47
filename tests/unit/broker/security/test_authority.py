"""Authority by effect, on every way in: what is recorded, what waits for somebody else, what a scope never does.

The walk over the whole catalogue is `test_walk.py`; here are single stories.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from danube.admin.operations import BY_NAME
from danube.broker.rates import claims
from danube.broker.services.call import Action, Audit, Call, Resource
from danube.broker.services.catalogue import ADMIN_CALLS, CLIENT_CALLS
from danube.broker.services.interceptors import services_of
from danube.model.calls.security import CreateApiKey
from danube.model.errors import (
    LimitReachedError,
    NotPermittedError,
    OverloadedError,
    PlanRefusedError,
    PlanWaitsError,
    TopicNotFoundError,
)
from danube.model.plans import plan as plan_model
from danube.model.plans.plan import Caller, Effect, Face
from danube.model.records.audit import AuditEntry, Origin, Outcome
from danube.model.security.grants import Permission
from danube.model.security.principal import PrincipalKind, TokenScope
from danube.model.topic import TopicName
from danube.wire import admin_messages, plan_messages
from danube.wire.security import messages
from tests.unit.broker.security.conftest import OWN, ROOT, SecureCell, binding, role, secure_broker
from tests.unit.broker.security.scene import apply, audited, begun, decide, operation_of, plan_of

SECURITY, OURS = "/danube_admin.SecurityAdmin", "/danube.control.Security"


def test_every_recorded_call_is_recorded_as_an_operation_of_administrators() -> None:
    calls = {**CLIENT_CALLS, **ADMIN_CALLS}
    recorded = {
        operation_of(method)
        for methods in calls.values()
        for method, call in methods.items()
        if call.rule is Audit.RECORDED and call.action is not Action.REPLICATE
    }
    assert recorded - set(BY_NAME) == set()


def whole() -> Call:
    return Call(resource=Resource.TOPIC, action=Action.PRODUCE, effect=Effect.WRITE, unary=lambda _: lambda *_: b"")


@pytest.mark.parametrize(
    ("lacking", "named"),
    [
        ({"effect": None}, "effect"),
        ({"resource": None}, "resource"),
        ({"action": Action.ANY_CALLER}, "audit rule"),
        ({"audit": Audit.RECORDED}, "nothing reads its request"),
    ],
)
def test_a_catalogue_with_a_call_that_lacks_something_does_not_start(lacking: dict[str, object], named: str) -> None:
    assert whole().problem() == ""
    call = replace(whole(), **lacking)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=f"Service/Call: .*{named}"):
        services_of({"Service": {"Call": call}}, None, is_admin=True)  # type: ignore[arg-type]


def test_every_call_of_both_ports_is_whole() -> None:
    calls = {**CLIENT_CALLS, **ADMIN_CALLS}
    assert {
        method: call.problem() for methods in calls.values() for method, call in methods.items() if call.problem()
    } == {}


async def describe(secure: SecureCell) -> None:
    named = admin_messages.TOPIC.encode(TopicName.parse(OWN))
    await secure.channel(secure.token(ROOT)).call("/danube_admin.TopicAdmin/DescribeTopic", named)


KEY = CreateApiKey(principal_type=PrincipalKind.USER, principal_name="bob", scope=TokenScope.ADMIN)


@pytest.mark.parametrize("two_person", [True, False])
async def test_an_admin_alone_does_not_approve_by_a_key_of_another_and_all_of_it_is_on_record(
    two_person: bool, tmp_path: Path, authority: Path
) -> None:
    admins = [ROOT, "ada", "bob"]
    async with secure_broker(
        tmp_path, authority, approval="destroy", two_person=two_person, super_admins=admins
    ) as secure:
        await secure.create_topic(OWN)
        ada = secure.channel(secure.token("ada"))
        start, plan = len(await audited(secure)), await plan_of(ada)
        made = ada.call(f"{OURS}/CreateApiKey", messages.CREATE_API_KEY.encode(KEY))
        if two_person:
            with pytest.raises(PlanWaitsError, match="CreateApiKey needs the approval of somebody else"):
                await made
            await describe(secure)
        else:
            key = messages.API_KEY_CREATED.decode(await made)
            token = messages.TOKEN.decode(
                await secure.channel(None).call(
                    "/danube.AuthService/Authenticate", messages.AUTHENTICATE.encode(key.key)
                )
            )
            await decide(secure.channel(token), plan.plan_id)
            await apply(ada, plan)
            with pytest.raises(TopicNotFoundError):
                await describe(secure)
        found = begun((await audited(secure))[start:])
        assert found[1].entry.arguments["principal_name"] == "bob"
        acts = [each.entry.operation for each in found]
        assert acts == ["delete_topic", "create_api_key", *([] if two_person else ["approve_plan", "delete_topic"])]
        assert {each.origin for each in found} == {Origin.SEEN}


async def test_a_second_person_lets_a_key_a_binding_and_a_wider_role_pass_once(tmp_path: Path, authority: Path) -> None:
    async with secure_broker(
        tmp_path, authority, two_person=True, super_admins=[ROOT, "ada", "service_account:ada"]
    ) as secure:
        root, ada = secure.channel(secure.token(ROOT)), secure.channel(secure.token("ada"))
        twin = secure.channel(secure.token("ada", kind=PrincipalKind.SERVICE_ACCOUNT))
        await root.call(f"{SECURITY}/CreateRole", messages.CREATE_ROLE.encode(role("small", Permission.LOOKUP)))
        for path, request in {
            f"{SECURITY}/CreateBinding": messages.CREATE_BINDING.encode(binding("bob", "small")),
            f"{SECURITY}/CreateRole": messages.CREATE_ROLE.encode(role("small", Permission.APPROVE)),
            f"{OURS}/CreateApiKey": messages.CREATE_API_KEY.encode(KEY),
        }.items():
            with pytest.raises(PlanWaitsError) as waiting:
                await ada.call(path, request)
            plan_id = str(waiting.value).split("plan ")[1].split(" ")[0]
            with pytest.raises(PlanWaitsError, match=plan_id):
                await ada.call(path, request)
            for oneself in (ada, twin):
                with pytest.raises(PlanRefusedError, match="somebody else"):
                    await decide(oneself, plan_id)
            await decide(root, plan_id)
            await ada.call(path, request)
        with pytest.raises(PlanWaitsError):
            await ada.call(f"{OURS}/CreateApiKey", messages.CREATE_API_KEY.encode(KEY))
        own = messages.CREATE_API_KEY.encode(replace(KEY, principal_name="ada"))
        await ada.call(f"{OURS}/CreateApiKey", own)


async def test_the_first_administrator_is_bound_by_who_has_nobody_to_ask(tmp_path: Path, authority: Path) -> None:
    async with secure_broker(tmp_path, authority, two_person=True) as secure:
        root = secure.channel(secure.token(ROOT))
        await root.call(f"{SECURITY}/CreateBinding", messages.CREATE_BINDING.encode(binding("ada", "admin")))
        with pytest.raises(PlanWaitsError):
            await root.call(f"{SECURITY}/CreateBinding", messages.CREATE_BINDING.encode(binding("bob", "admin")))


async def test_a_token_of_scope_operator_destroys_by_a_plan_of_which_another_principal_approved(
    tmp_path: Path, authority: Path
) -> None:
    async with secure_broker(tmp_path, authority, super_admins=[ROOT, "ada"]) as secure:
        await secure.create_topic(OWN)
        assistant = secure.channel(secure.token("ada", TokenScope.OPERATOR))
        named = admin_messages.TOPIC.encode(TopicName.parse(OWN))
        with pytest.raises(NotPermittedError, match="a token of scope operator destroys nothing by itself"):
            await assistant.call("/danube_admin.TopicAdmin/DeleteTopic", named)
        plan = await plan_of(assistant)
        with pytest.raises(PlanWaitsError):
            await apply(assistant, plan)
        await decide(secure.channel(secure.token("ada")), plan.plan_id)
        with pytest.raises(PlanRefusedError, match="another principal"):
            await apply(assistant, plan)
        await describe(secure)
        plan = await plan_of(assistant)
        await decide(secure.channel(secure.token(ROOT)), plan.plan_id)
        await apply(assistant, plan)
        with pytest.raises(TopicNotFoundError):
            await describe(secure)


CLAIM = AuditEntry(
    caller=Caller(who="the queen", face=Face.DIRECT),
    operation="delete_topic",
    arguments={},
    effect=Effect.DESTROY,
    outcome=Outcome.DONE,
)


async def test_what_a_client_claims_is_marked_needs_a_binding_and_has_a_rate(
    secure: SecureCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "AUDIT_CLAIMS_BURST", 20.0)
    entry = plan_messages.AUDIT_ENTRY.encode(CLAIM)
    with pytest.raises(NotPermittedError, match="no binding grants anything to user:stranger"):
        await secure.channel(secure.token("stranger")).call("/danube.control.Audit/Record", entry)
    root, written = secure.channel(secure.token(ROOT)), 0
    with pytest.raises(OverloadedError, match="root wrote too many audit records"):
        while written < 1_000:
            await root.call("/danube.control.Audit/Record", entry)
            written += 1
    assert written >= 20
    newest = (await audited(secure))[-1]
    assert (newest.origin, newest.entry.caller.who) == (Origin.CLAIMED, "user:root")


async def test_a_call_that_cannot_wait_since_too_many_plans_do_is_on_record(
    tmp_path: Path, authority: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_model, "PLANS_OPEN_PER_CALLER_MAX", 0)
    async with secure_broker(tmp_path, authority, two_person=True, super_admins=[ROOT, "ada"]) as secure:
        with pytest.raises(LimitReachedError):
            key = messages.CREATE_API_KEY.encode(KEY)
            await secure.channel(secure.token("ada")).call(f"{OURS}/CreateApiKey", key)
        entry = (await audited(secure))[-1].entry
    assert (entry.operation, entry.outcome, entry.error) == ("create_api_key", Outcome.FAILED, LimitReachedError.code)


async def test_refused_calls_fill_the_log_no_faster_than_claims(
    secure: SecureCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "AUDIT_CLAIMS_BURST", 5.0)
    monkeypatch.setattr(claims, "AUDIT_CLAIMS_PER_S", 0.001)
    stranger, named = secure.channel(secure.token("stranger")), admin_messages.TOPIC.encode(TopicName.parse(OWN))
    for _ in range(50):
        with pytest.raises(NotPermittedError):
            await stranger.call("/danube_admin.TopicAdmin/DeleteTopic", named)
    refused = [(each.entry.operation, each.entry.outcome, each.origin) for each in await audited(secure)]
    assert refused == [("delete_topic", Outcome.REFUSED, Origin.SEEN)] * 5
