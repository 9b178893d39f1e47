"""Taking a role, a binding, a key or tokens away by a plan: who loses what, and once."""

from collections.abc import Mapping
from typing import Any

import pytest

from danube.model.calls.security import CreateApiKey
from danube.model.errors import InvalidRequestError, NotFoundError, PlanRefusedError, UnauthenticatedError
from danube.model.plans.plan import Caller, Effect, Face, Plan, PlanApplication, PlanRequest, PlanStatus
from danube.model.security.grants import Permission
from danube.model.security.principal import PrincipalKind, TokenScope
from danube.wire import plan_messages
from danube.wire.security import messages
from tests.unit.broker.security.conftest import ROOT, Proven, SecureCell, binding, role

GRANTS, PROOFS, PLANS = "/danube_admin.SecurityAdmin", "/danube.control.Security", "/danube.control.Plans"
ASSISTANT = Caller(who="root", face=Face.MCP)
BINDING = {"scope": "cluster", "resource": "", "id": "ada-cluster"}
REVOCATION = {"token_id": "", "subject": "ada", "issued_before_ms": 0, "reason": "lost"}
LIST = "/danube_admin.BrokerAdmin/ListBrokers"


@pytest.fixture
async def root(secure: SecureCell) -> Proven:
    """The first administrator, with a role and a binding of it to ada."""
    root = secure.channel(secure.token(ROOT))
    wanted = role("looker", Permission.MANAGE_BROKER, Permission.VIEW)
    await root.call(f"{GRANTS}/CreateRole", messages.CREATE_ROLE.encode(wanted))
    await root.call(f"{GRANTS}/CreateBinding", messages.CREATE_BINDING.encode(binding("ada", "looker")))
    return root


async def planned(channel: Proven, operation: str, arguments: Mapping[str, Any]) -> Plan:
    request = PlanRequest(
        operation=operation, arguments=arguments, effect=Effect.DESTROY, caller=ASSISTANT, needs_approval=False
    )
    answer = await channel.call(f"{PLANS}/CreatePlan", plan_messages.CREATE_PLAN.encode(request))
    return plan_messages.PLAN.decode(answer)


async def apply(channel: Proven, plan: Plan) -> Plan:
    wanted = PlanApplication(
        plan_id=plan.plan_id, operation=plan.operation, arguments=plan.arguments, caller=plan.asked_by
    )
    answer = await channel.call(f"{PLANS}/ApplyPlan", plan_messages.APPLY_PLAN.encode(wanted))
    return plan_messages.PLAN.decode(answer)


async def test_a_role_goes_by_a_plan_that_names_who_loses_it(root: Proven) -> None:
    plan = await planned(root, "delete_role", {"name": "looker"})
    assert plan.impact.changes == (
        "Delete role looker, which grants ManageBroker, View.",
        "user:ada has looker by binding ada-cluster (looker on the cluster).",
    )
    assert plan.impact.irreversible[0] == "1 principal in 1 binding no longer may ManageBroker, View by it."
    assert (await apply(root, plan)).status(plan.created_ms) is PlanStatus.APPLIED
    with pytest.raises(NotFoundError):
        await root.call(f"{GRANTS}/GetRole", messages.ROLE_NAME.encode("looker"))
    with pytest.raises(PlanRefusedError, match="applied already"):
        await apply(root, plan)


async def test_a_plan_for_a_role_that_somebody_else_got_meanwhile_is_refused(root: Proven) -> None:
    plan = await planned(root, "delete_role", {"name": "looker"})
    await root.call(f"{GRANTS}/CreateBinding", messages.CREATE_BINDING.encode(binding("bob", "looker")))
    with pytest.raises(PlanRefusedError):
        await apply(root, plan)
    await root.call(f"{GRANTS}/GetRole", messages.ROLE_NAME.encode("looker"))


async def test_a_binding_goes_by_a_plan_that_names_its_principal(root: Proven) -> None:
    plan = await planned(root, "delete_binding", BINDING)
    assert plan.impact.changes == ("Delete binding ada-cluster of user:ada.",)
    assert plan.impact.irreversible[0] == "user:ada no longer has looker on the cluster by it."
    await apply(root, plan)
    with pytest.raises(NotFoundError, match="there is no binding ada-cluster"):
        await planned(root, "delete_binding", BINDING)


async def test_a_key_goes_by_a_plan(root: Proven) -> None:
    wanted = CreateApiKey(principal_type=PrincipalKind.USER, principal_name="bob", scope=TokenScope.OBSERVER)
    answer = await root.call(f"{PROOFS}/CreateApiKey", messages.CREATE_API_KEY.encode(wanted))
    key = messages.API_KEY_CREATED.decode(answer)
    plan = await planned(root, "delete_api_key", {"id": key.id})
    assert plan.impact.changes[0] == f"Delete API key {key.id} of user:bob, of scope observer."
    await apply(root, plan)
    with pytest.raises(UnauthenticatedError):
        await root.call("/danube.AuthService/Authenticate", messages.AUTHENTICATE.encode(key.key))


async def test_a_plan_to_revoke_tells_how_many_known_tokens_it_voids(root: Proven, secure: SecureCell) -> None:
    ada = secure.channel(secure.token("ada"))
    await ada.call(LIST)
    plan = await planned(root, "revoke_tokens", REVOCATION)
    assert plan.impact.changes == (
        "Void all tokens and client certificates of ada.",
        "This broker knows 1 such token, of user:ada.",
    )
    await ada.call(LIST)  # a plan alone does nothing
    await apply(root, plan)
    with pytest.raises(UnauthenticatedError, match="lost"):
        await ada.call(LIST)


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("delete_role", {"name": "looker", "topic": "/default/orders"}),
        ("delete_binding", {**BINDING, "scope": "galaxy"}),
        ("delete_api_key", {"id": 5}),
        ("revoke_tokens", {**REVOCATION, "issued_before_ms": -1}),
        ("revoke_tokens", {**REVOCATION, "reason": "x" * 10_000}),
        ("revoke_tokens", {**REVOCATION, "token_id": "t"}),
    ],
)
async def test_arguments_that_cannot_be_are_refused(root: Proven, operation: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError):
        await planned(root, operation, arguments)
