"""Roles, bindings, tokens and API keys on a broker, and what becomes of streams whose proof is void."""

import asyncio
from contextlib import nullcontext
from pathlib import Path

import pytest

from danube.broker.control.audit import AuditLog
from danube.model.calls.admin import CreateTopic
from danube.model.calls.security import BindingKey, CreateApiKey, ExplainAccess, RevokeTokens
from danube.model.calls.stream import Fetch, FetchFrom
from danube.model.errors import (
    InvalidRequestError,
    NotFoundError,
    NotPermittedError,
    PlanRefusedError,
    PlanWaitsError,
    PreconditionFailedError,
    StorageUnavailableError,
    UnauthenticatedError,
    UnavailableError,
)
from danube.model.limits.security import FAILED_ATTEMPTS_MAX, TOKEN_LEEWAY_S
from danube.model.plans.plan import Caller, Decision, Effect, Face, PlanRequest
from danube.model.policies import FailurePolicy, SetFailurePolicy, SubscriptionName
from danube.model.records.audit import AuditEntry, Outcome, ReadAudit
from danube.model.security.grants import BindingScope, Permission
from danube.model.security.principal import PrincipalKind, TokenScope
from danube.model.topic import DispatchStrategy, TopicName
from danube.rpc.carrier import ClientStream
from danube.runtime.clock import SystemClock
from danube.testing.patience import PATIENCE_S
from danube.wire import admin_messages, client_messages, plan_messages
from danube.wire.security import messages
from tests.unit.broker.security.conftest import FOREIGN, OWN, ROOT, Proven, SecureCell, binding, role, secure_broker

SECURITY = "/danube_admin.SecurityAdmin"
OURS = "/danube.control.Security"


async def bind(root: Proven, *roles: str, principal: str = "ada", scope: BindingScope = BindingScope.CLUSTER) -> None:
    resource = {BindingScope.TOPIC: OWN, BindingScope.NAMESPACE: "default"}.get(scope, "")
    wanted = binding(principal, *roles, scope=scope, resource=resource)
    await root.call(f"{SECURITY}/CreateBinding", messages.CREATE_BINDING.encode(wanted))


@pytest.fixture
def root(secure: SecureCell) -> Proven:
    return secure.channel(secure.token(ROOT))


async def test_a_role_that_is_given_holds_at_once_and_ends_with_its_binding(root: Proven, secure: SecureCell) -> None:
    ada = secure.channel(secure.token("ada"))
    with pytest.raises(NotPermittedError, match="no binding grants ManageBroker on the cluster to user:ada"):
        await ada.call("/danube_admin.BrokerAdmin/ListBrokers")
    await bind(root, "observer")
    await ada.call("/danube_admin.BrokerAdmin/ListBrokers")
    key = BindingKey(scope=BindingScope.CLUSTER, binding_id="ada-cluster")
    await root.call(f"{SECURITY}/DeleteBinding", messages.DELETE_BINDING.encode(key))
    with pytest.raises(NotPermittedError):
        await ada.call("/danube_admin.BrokerAdmin/ListBrokers")


async def test_built_in_roles_stay_as_they_are_and_unknown_ones_are_not_given(root: Proven) -> None:
    evil = role("observer", Permission.MANAGE_CLUSTER)
    with pytest.raises(PreconditionFailedError, match="built in"):
        await root.call(f"{SECURITY}/CreateRole", messages.CREATE_ROLE.encode(evil))
    with pytest.raises(PreconditionFailedError, match="built in"):
        await root.call(f"{SECURITY}/DeleteRole", messages.DELETE_ROLE.encode("admin"))
    with pytest.raises(NotFoundError, match="no role auditor"):
        await bind(root, "auditor")


async def test_the_last_administrator_cannot_be_locked_out(tmp_path: Path, authority: Path) -> None:
    async with secure_broker(tmp_path, authority) as first:
        await bind(first.channel(first.token(ROOT)), "admin")
    async with secure_broker(tmp_path, authority, super_admins=[]) as secure:
        ada = secure.channel(secure.token("ada"))
        key = BindingKey(scope=BindingScope.CLUSTER, binding_id="ada-cluster")
        with pytest.raises(PreconditionFailedError, match="nobody who may give roles"):
            await ada.call(f"{SECURITY}/DeleteBinding", messages.DELETE_BINDING.encode(key))
        with pytest.raises(PreconditionFailedError, match="nobody who may give roles"):
            await bind(ada, "observer")  # in place of its own binding
        await bind(ada, "admin", principal="bob")
        await ada.call(f"{SECURITY}/DeleteBinding", messages.DELETE_BINDING.encode(key))


async def test_a_decision_is_explained_with_its_binding_or_the_nearest(root: Proven) -> None:
    await bind(root, "consumer", scope=BindingScope.TOPIC)
    for resource, allowed in ((OWN, True), ("/default/other", False)):
        wanted = ExplainAccess(
            principal_type="user", principal_name="ada", permission=Permission.CONSUME, resource=resource
        )
        answer = await root.call(f"{OURS}/Explain", messages.EXPLAIN.encode(wanted))
        explained = messages.EXPLAINED.decode(answer)
        assert (explained.allowed, explained.binding_id) == (allowed, "ada-topic")


async def test_an_api_key_is_exchanged_for_a_token_until_it_is_deleted(root: Proven, secure: SecureCell) -> None:
    await bind(root, "observer")
    wanted = CreateApiKey(principal_type=PrincipalKind.USER, principal_name="ada", scope=TokenScope.OBSERVER)
    created = messages.API_KEY_CREATED.decode(
        await root.call(f"{OURS}/CreateApiKey", messages.CREATE_API_KEY.encode(wanted))
    )
    anybody = secure.channel(None, admin=False)
    answer = await anybody.call("/danube.AuthService/Authenticate", messages.AUTHENTICATE.encode(created.key))
    await secure.channel(messages.TOKEN.decode(answer)).call("/danube_admin.BrokerAdmin/ListBrokers")
    listed = await root.call(f"{OURS}/ListApiKeys")
    assert created.key.encode() not in listed
    await root.call(f"{OURS}/DeleteApiKey", messages.DELETE_API_KEY.encode(created.id))
    with pytest.raises(UnauthenticatedError, match="no API key"):
        await anybody.call("/danube.AuthService/Authenticate", messages.AUTHENTICATE.encode(created.key))


async def test_wrong_api_keys_of_one_address_are_no_more_checked(secure: SecureCell) -> None:
    anybody = secure.channel(None, admin=False)
    reasons = set()
    for _ in range(FAILED_ATTEMPTS_MAX + 1):
        with pytest.raises(UnauthenticatedError) as caught:
            await anybody.call("/danube.AuthService/Authenticate", messages.AUTHENTICATE.encode("dk_0"))
        reasons.add(str(caught.value)[:8])
    assert reasons == {"that is ", "too many"}


def _topic() -> CreateTopic:
    return CreateTopic(topic=TopicName("default", "mine"), strategy=DispatchStrategy.RELIABLE)


def _fetch(secure: SecureCell, token: str) -> ClientStream:
    proven = secure.channel(token, admin=False)
    wanted = Fetch(topic=_topic().topic, start=FetchFrom.LATEST, follow=True)
    request = client_messages.FETCH.encode(wanted)
    return proven.channel.server_stream("/danube.stream.StreamService/Fetch", request, metadata=proven.metadata)


@pytest.mark.parametrize("how", ["revoked", "unbound"])
async def test_a_stream_is_cut_when_its_token_is_revoked_or_its_binding_goes(
    how: str, root: Proven, secure: SecureCell
) -> None:
    create = admin_messages.CREATE_TOPIC.encode(_topic())
    await root.call("/danube_admin.TopicAdmin/CreateTopic", create)
    await bind(root, "consumer")
    stream = _fetch(secure, secure.token("ada"))
    await stream.opened()
    if how == "revoked":
        await root.call(f"{OURS}/RevokeTokens", messages.REVOKE.encode(RevokeTokens(token_id="id-ada", reason="lost")))
    else:
        key = BindingKey(scope=BindingScope.CLUSTER, binding_id="ada-cluster")
        await root.call(f"{SECURITY}/DeleteBinding", messages.DELETE_BINDING.encode(key))
    with pytest.raises(UnauthenticatedError if how == "revoked" else NotPermittedError):
        await stream.receive()


async def test_a_stream_is_cut_when_its_token_expires(root: Proven, secure: SecureCell) -> None:
    await root.call("/danube_admin.TopicAdmin/CreateTopic", admin_messages.CREATE_TOPIC.encode(_topic()))
    await bind(root, "consumer")
    now_s = SystemClock().now_ms() / 1_000
    stream = _fetch(secure, secure.token("ada", expires_s=now_s - TOKEN_LEEWAY_S + 2))
    with pytest.raises(UnauthenticatedError, match="expired"):
        await stream.receive()


async def test_a_subject_whose_tokens_are_revoked_gets_new_ones(root: Proven, secure: SecureCell) -> None:
    await bind(root, "observer")
    old = secure.channel(secure.token("ada", issued_s=1_000.0))
    await old.call("/danube_admin.BrokerAdmin/ListBrokers")
    await root.call(
        f"{OURS}/RevokeTokens", messages.REVOKE.encode(RevokeTokens(subject="ada", issued_before_ms=2_000_000))
    )
    with pytest.raises(UnauthenticatedError, match="revoked"):
        await old.call("/danube_admin.BrokerAdmin/ListBrokers")
    await secure.channel(secure.token("ada")).call("/danube_admin.BrokerAdmin/ListBrokers")
    with pytest.raises(InvalidRequestError):
        await root.call(f"{OURS}/RevokeTokens", messages.REVOKE.encode(RevokeTokens()))


def plan_of(topic: str) -> PlanRequest:
    return PlanRequest(
        operation="delete_topic",
        arguments={"topic": topic},
        effect=Effect.DESTROY,
        caller=Caller(who="the queen", face=Face.CLI),
        needs_approval=False,
    )


async def test_the_broker_says_who_asked_and_that_somebody_else_approves(tmp_path: Path, authority: Path) -> None:
    admins = [ROOT, "ada", "bob"]
    async with secure_broker(tmp_path, authority, approval="destroy", two_person=True, super_admins=admins) as secure:
        root = secure.channel(secure.token(ROOT))
        await root.call("/danube_admin.TopicAdmin/CreateTopic", admin_messages.CREATE_TOPIC.encode(_topic()))
        ada, bob = (secure.channel(secure.token(name)) for name in ("ada", "bob"))
        answer = await ada.call("/danube.control.Plans/CreatePlan", plan_messages.CREATE_PLAN.encode(plan_of(OWN)))
        plan = plan_messages.PLAN.decode(answer)
        assert plan.asked_by.who == "user:ada"
        decision = Decision(plan_id=plan.plan_id, approve=True, caller=Caller(who="bob", face=Face.CLI))
        with pytest.raises(PlanRefusedError, match="somebody else"):
            await ada.call("/danube.control.Plans/DecidePlan", plan_messages.DECIDE_PLAN.encode(decision))
        answer = await bob.call("/danube.control.Plans/DecidePlan", plan_messages.DECIDE_PLAN.encode(decision))
        decided = plan_messages.PLAN.decode(answer)
        assert decided.decided_by is not None
        assert decided.decided_by.who == "user:bob"


async def test_direct_calls_that_destroy_are_under_the_same_rule_and_in_the_log(
    tmp_path: Path, authority: Path
) -> None:
    async with secure_broker(tmp_path, authority, approval="destroy") as secure:
        root = secure.channel(secure.token(ROOT))
        await root.call("/danube_admin.TopicAdmin/CreateTopic", admin_messages.CREATE_TOPIC.encode(_topic()))
        with pytest.raises(PlanWaitsError, match="danube-admin"):
            await root.call("/danube_admin.TopicAdmin/DeleteTopic", admin_messages.TOPIC.encode(_topic().topic))
        async with asyncio.timeout(PATIENCE_S):
            found: list[AuditEntry] = []
            while not found:  # each call lets the broker take a step
                found = await _direct_deletions(root)
        assert (found[0].caller.who, found[0].outcome) == ("user:root", Outcome.REFUSED)
        assert found[0].arguments == {"name": OWN}


async def _direct_deletions(root: Proven) -> list[AuditEntry]:
    wanted = plan_messages.READ_AUDIT.encode(ReadAudit(start=0, limit=10))
    page = plan_messages.decode_audit_page(await root.call("/danube.control.Audit/Read", wanted))
    return [record.entry for record in page.records if record.entry.operation == "delete_topic"]


async def test_a_caller_is_shown_the_namespaces_that_a_binding_of_its_reaches(root: Proven, secure: SecureCell) -> None:
    seen = {}
    await bind(root, "producer", scope=BindingScope.TOPIC)
    await bind(root, "observer", principal="eve")
    for name in ("ada", "eve", "stranger"):
        answer = await secure.channel(secure.token(name)).call("/danube_admin.BrokerAdmin/ListNamespaces")
        seen[name] = admin_messages.NAMESPACES.decode(answer)
    assert seen == {"ada": ("default",), "eve": ("default", "other", "system"), "stranger": ()}


async def test_nothing_is_destroyed_that_cannot_be_recorded(
    root: Proven, secure: SecureCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise StorageUnavailableError("the disk is gone")

    await secure.create_topic(OWN)
    named = admin_messages.TOPIC.encode(TopicName.parse(OWN))
    with monkeypatch.context() as broken:
        broken.setattr(AuditLog, "record", fail)
        with pytest.raises(UnavailableError, match="not carried out"):
            await root.call("/danube_admin.TopicAdmin/DeleteTopic", named)
    await root.call("/danube_admin.TopicAdmin/DescribeTopic", named)
    await root.call("/danube_admin.TopicAdmin/DeleteTopic", named)
    with pytest.raises(NotFoundError):
        await root.call("/danube_admin.TopicAdmin/DescribeTopic", named)


async def test_dead_letters_go_to_no_topic_that_its_owner_has_no_grant_for(root: Proven, secure: SecureCell) -> None:
    for name in (OWN, FOREIGN):
        await secure.create_topic(name)
    await bind(root, "operator", scope=BindingScope.TOPIC)
    ada, path = secure.channel(secure.token("ada")), "/danube_admin.TopicAdmin/SetSubscriptionFailurePolicy"
    named = SubscriptionName(topic=TopicName.parse(OWN), subscription="s")
    for dead, is_allowed in ((FOREIGN, False), (None, True)):
        policy = FailurePolicy(dead_letter_topic=TopicName.parse(dead) if dead else None)
        request = admin_messages.SET_FAILURE_POLICY.encode(SetFailurePolicy(name=named, policy=policy))
        with nullcontext() if is_allowed else pytest.raises(NotPermittedError, match=FOREIGN):
            await ada.call(path, request)


@pytest.mark.parametrize("scope", [TokenScope.OBSERVER, TokenScope.OPERATOR])
async def test_a_token_of_a_smaller_scope_cannot_give_itself_a_larger_one(
    scope: TokenScope, root: Proven, secure: SecureCell
) -> None:
    assistant = secure.channel(secure.token(ROOT, scope))
    key = CreateApiKey(principal_type=PrincipalKind.USER, principal_name=ROOT, scope=TokenScope.ADMIN)
    for path, request in {
        f"{OURS}/CreateApiKey": messages.CREATE_API_KEY.encode(key),
        f"{OURS}/RevokeTokens": messages.REVOKE.encode(RevokeTokens(subject="ada")),
        f"{SECURITY}/CreateRole": messages.CREATE_ROLE.encode(role("mine", Permission.APPROVE)),
        f"{SECURITY}/CreateBinding": messages.CREATE_BINDING.encode(binding("ada", "admin")),
    }.items():
        with pytest.raises(NotPermittedError, match=f"a token of scope {scope}"):
            await assistant.call(path, request)
    assert messages.BINDINGS.decode(await root.call(f"{SECURITY}/ListAllBindings")) == ()
