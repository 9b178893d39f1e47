"""What must be refused, written by hand: effect by access level, approval and face. Each operation is held against it.

The cluster is digested before and after every call: a call that is refused, or answers a plan, changes nothing.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from typer.testing import CliRunner

from danube.admin.__main__ import app as command_line
from danube.admin.access import AccessLevel, ApprovalMode, Guard
from danube.admin.mcp.tool_catalogue import ALL_TOOLSETS
from danube.admin.operations import REGISTRY
from danube.admin.operations.operation import AnyOperation
from danube.admin.target import Target
from danube.admin.tui.app import AdminApp
from danube.admin.web.pages.catalog import api_method
from danube.model.errors import DanubeError
from danube.model.exit_codes import ExitCode
from danube.model.plans.plan import Caller, Face
from danube.runtime.clock import SystemClock
from tests.faces.faces import typed, without_notice
from tests.faces.memory_gateway import MemoryGateway, connect_to
from tests.faces.pilot import run_operation
from tests.faces.seeded import seeded_gateway
from tests.faces.skewed import skewed_preview
from tests.unit.admin.mcp.hosts import host
from tests.unit.admin.web.site import TOKEN, site

TABLE = """
effect    level    approval  face  outcome

read      *        *         *     runs

write     read     *         *     refused
write     write    *         *     runs
write     destroy  *         *     runs

move      read     *         *     refused
move      write    destroy   *     plans
move      write    none      *     plans
move      write    move      cli   plans
move      write    move      tui   plans
move      write    move      web   plans
move      write    move      mcp   waits
move      destroy  destroy   *     plans
move      destroy  none      *     plans
move      destroy  move      cli   plans
move      destroy  move      tui   plans
move      destroy  move      web   plans
move      destroy  move      mcp   waits

destroy   read     *         *     refused
destroy   write    *         *     refused
destroy   destroy  *         cli   plans
destroy   destroy  *         tui   plans
destroy   destroy  *         web   plans
destroy   destroy  destroy   mcp   waits
destroy   destroy  move      mcp   waits
destroy   destroy  none      mcp   plans

guarded   read     *         *     refused
guarded   write    *         *     refused
guarded   destroy  *         cli   runs
guarded   destroy  *         tui   runs
guarded   destroy  *         web   runs
guarded   destroy  *         mcp   refused

consent   read     *         *     refused
consent   write    *         *     refused
consent   destroy  *         cli   refused
consent   destroy  *         web   refused
consent   destroy  *         mcp   refused
consent   destroy  *         tui   runs
"""
"""`consent` gives a person's yes: the command wants a terminal, and here it has none; the page wants a login and the
API has none; an assistant has no such tool. `plans` is a plan that can be applied, `waits` one that cannot yet.
"""

EFFECTS = {
    "list_brokers": "read",
    "storage_cost": "read",
    "unload_broker": "move",
    "activate_broker": "move",
    "cluster_status": "read",
    "get_metrics": "read",
    "get_broker_logs": "read",
    "add_cluster_node": "write",
    "promote_cluster_node": "move",
    "remove_cluster_node": "destroy",
    "transfer_leadership": "write",
    "list_namespaces": "read",
    "get_namespace_policies": "read",
    "create_namespace": "write",
    "delete_namespace": "destroy",
    "list_topics": "read",
    "describe_topic": "read",
    "create_topic": "write",
    "unload_topic": "move",
    "get_cluster_balance": "read",
    "trigger_rebalance": "move",
    "analyze_cluster_balance": "read",
    "list_rebalances": "read",
    "cancel_rebalance": "write",
    "list_balance_rules": "read",
    "set_balance_rule": "write",
    "clear_balance_rule": "write",
    "get_automatic_balance": "read",
    "set_automatic_balance": "write",
    "delete_topic": "destroy",
    "list_subscriptions": "read",
    "unsubscribe": "destroy",
    "get_subscription_failure_policy": "read",
    "set_subscription_failure_policy": "write",
    "set_subscription_drop_policy": "destroy",
    "get_subscription_dispatch_config": "read",
    "set_subscription_dispatch_config": "write",
    "set_namespace_policies": "write",
    "get_topic_policies": "read",
    "set_topic_policies": "write",
    "set_namespace_retention": "destroy",
    "set_topic_retention": "destroy",
    "set_namespace_message_ttl": "destroy",
    "set_topic_message_ttl": "destroy",
    "set_namespace_durability": "destroy",
    "set_topic_durability": "destroy",
    "peek_messages": "read",
    "create_subscription": "write",
    "seek_subscription": "destroy",
    "skip_messages": "destroy",
    "retry_blocked": "write",
    "add_partitions": "write",
    "list_connections": "read",
    "disconnect_client": "write",
    "health_check": "read",
    "analyze_consumer_lag": "read",
    "run_analytics": "write",
    "get_analytics_result": "read",
    "list_connectors": "read",
    "describe_connector": "read",
    "pause_connector": "write",
    "resume_connector": "write",
    "restart_connector": "write",
    "replay_connector": "write",
    "list_schedules": "read",
    "add_schedule": "write",
    "remove_schedule": "write",
    "run_schedule": "write",
    "report_analytics": "read",
    "get_recommendations": "read",
    "list_subjects": "read",
    "get_schema": "read",
    "list_schema_versions": "read",
    "check_schema_compatibility": "read",
    "explain_schema_change": "read",
    "register_schema": "write",
    "set_schema_compatibility_mode": "write",
    "delete_schema_version": "destroy",
    "configure_topic_schema": "write",
    "get_topic_schema": "read",
    "set_validation_policy": "write",
    "create_role": "guarded",
    "get_role": "read",
    "list_roles": "read",
    "delete_role": "destroy",
    "create_binding": "guarded",
    "get_binding": "read",
    "list_bindings": "read",
    "list_all_bindings": "read",
    "delete_binding": "destroy",
    "revoke_tokens": "destroy",
    "list_revocations": "read",
    "create_api_key": "guarded",
    "list_api_keys": "read",
    "delete_api_key": "destroy",
    "can_i": "read",
    "explain_access": "read",
    "list_plans": "read",
    "approve_plan": "consent",
    "reject_plan": "write",
    "audit": "read",
}
"""By hand, not from the registry: an entry that is wrong there is found here."""

NO_TOOLS = {"approve_plan", "reject_plan", "audit", "create_api_key"}
"""Not offered to assistants at any level."""


@dataclass(frozen=True, slots=True)
class Said:
    """How a face answered one call."""

    is_refused: bool
    answer: Any = None


Call = Callable[[MemoryGateway, Guard, AnyOperation, dict[str, Any]], Awaitable[Said]]


def expected(effect: str, guard: Guard, face: str) -> str:
    """The one line of the table that speaks of this case."""
    lines = [line.split() for line in TABLE.strip().splitlines()[1:] if line.strip()]
    case = (effect, guard.level.value, guard.approval.value, face)
    found = [line[4] for line in lines if all(want in {"*", have} for want, have in zip(line[:4], case, strict=True))]
    assert len(found) == 1, (case, found)
    return found[0]


async def by_cli(gateway: MemoryGateway, guard: Guard, operation: AnyOperation, arguments: dict[str, Any]) -> Said:
    flags = ["--access", guard.level.value, "-o", "json"]
    words = [*operation.words, *typed(operation, arguments), *flags]

    def invoke() -> Said:
        ended = CliRunner().invoke(command_line(connect_to(gateway)), words, prog_name="danube-admin")
        if ended.exit_code in {ExitCode.OK, ExitCode.NEEDS_YES}:
            return Said(is_refused=False, answer=json.loads(ended.stdout))
        assert ended.exit_code == ExitCode.REFUSED, (words, ended.exit_code, ended.stderr)
        return Said(is_refused=True)

    return await asyncio.to_thread(invoke)


async def by_mcp(gateway: MemoryGateway, guard: Guard, operation: AnyOperation, arguments: dict[str, Any]) -> Said:
    async with host(gateway, access=guard.level, approval=guard.approval, toolsets=(ALL_TOOLSETS,)) as client:
        said = await client.call_tool(operation.name, arguments)
        plan = (said.structured_content or {}).get("plan", {})
        if plan.get("status") == "waiting":
            too_early = await client.call_tool(operation.name, {**arguments, "plan_id": plan["plan_id"]})
            assert too_early.is_error
    return Said(is_refused=said.is_error, answer=without_notice(said))


async def by_web(gateway: MemoryGateway, guard: Guard, operation: AnyOperation, arguments: dict[str, Any]) -> Said:
    async with site(guard.level, token=TOKEN, gateway=gateway) as place:
        path = "/" + "/".join(operation.words)
        if api_method(operation) == "GET":
            query = "&".join(f"{name}={value}" for name, value in arguments.items())
            reply = await place.api(f"{path}?{query}")
        else:
            reply = await place.api(path, arguments)
    assert reply.status_code in {200, 403}, (reply.status_code, reply.text)
    return Said(is_refused=reply.status_code == 403, answer=reply.json())


@asynccontextmanager
async def terminal(gateway: MemoryGateway, guard: Guard) -> AsyncIterator[Call]:
    """The terminal UI, opened once for many calls."""
    caller = Caller(who="ann@test", face=Face.TUI)
    app = AdminApp(gateway, Target(guard=guard), clock=gateway.clock, caller=caller)

    async def by_tui(_: MemoryGateway, __: Guard, operation: AnyOperation, arguments: dict[str, Any]) -> Said:
        try:
            result = await run_operation(pilot, operation, arguments)
        except DanubeError:
            return Said(is_refused=True)
        return Said(is_refused=False, answer=result.model_dump(mode="json"))

    async with app.run_test() as pilot:
        yield by_tui


FACES: dict[str, Call] = {"cli": by_cli, "mcp": by_mcp, "web": by_web}
GUARDS = [Guard(level, approval) for level in AccessLevel for approval in ApprovalMode]


def guards_of(operation: AnyOperation, face: str) -> list[Guard]:
    """Only an assistant's plans depend on the approval mode; who may do least may read, and so may all others."""
    effect = EFFECTS[operation.name]
    if effect == "read":
        return [Guard(AccessLevel.READ)]
    return GUARDS if face == "mcp" and effect in {"move", "destroy"} else [Guard(level) for level in AccessLevel]


@pytest.mark.slow
@pytest.mark.parametrize("operation", REGISTRY, ids=[operation.name for operation in REGISTRY])
@pytest.mark.parametrize("face", ["cli", "mcp", "web"])
async def test_a_face_refuses_what_the_table_says(face: str, operation: AnyOperation) -> None:
    for guard in guards_of(operation, face):
        await hold_against_the_table(face, FACES[face], seeded_gateway(SystemClock()), guard, operation)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: f"{guard.level}-{guard.approval}")
@pytest.mark.parametrize("face", FACES)
async def test_a_face_refuses_what_the_table_says_in_all_cases(face: str, guard: Guard) -> None:
    for operation in REGISTRY:
        if guard not in guards_of(operation, face):
            await hold_against_the_table(face, FACES[face], seeded_gateway(SystemClock()), guard, operation)


@pytest.mark.nightly
@pytest.mark.timeout(600)
async def test_the_terminal_ui_reads_at_the_lowest_level() -> None:
    guard, gateway = Guard(AccessLevel.READ), seeded_gateway(SystemClock())
    async with terminal(gateway, guard) as call:
        for operation in REGISTRY:
            if EFFECTS[operation.name] == "read":
                await hold_against_the_table("tui", call, gateway, guard, operation)


@pytest.mark.slow
@pytest.mark.parametrize("level", AccessLevel)
async def test_the_terminal_ui_refuses_what_the_table_says(level: AccessLevel) -> None:
    guard, gateway = Guard(level), seeded_gateway(SystemClock())
    async with terminal(gateway, guard) as call:
        for operation in REGISTRY:
            if expected(EFFECTS[operation.name], guard, "tui") != "runs":  # the examples show that the others run
                await hold_against_the_table("tui", call, gateway, guard, operation)


async def hold_against_the_table(
    face: str, call: Call, gateway: MemoryGateway, guard: Guard, operation: AnyOperation
) -> None:
    gateway.cluster.preview = skewed_preview()  # a rebalance has moves
    before = gateway.digest()
    wanted = expected(EFFECTS[operation.name], guard, face)
    if face == "mcp" and operation.name in NO_TOOLS:
        wanted = "refused"
    said = await call(gateway, guard, operation, dict(operation.examples[0].arguments))
    assert said.is_refused == (wanted == "refused"), (face, guard, operation.name, wanted, said)
    if wanted != "runs":
        assert gateway.digest() == before
    if wanted in {"plans", "waits"}:
        assert said.answer["status"] == {"plans": "ready", "waits": "waiting"}[wanted]


def test_the_table_speaks_of_every_operation_and_every_case_once() -> None:
    assert set(EFFECTS) == {operation.name for operation in REGISTRY}
    for effect in ("read", "write", "move", "destroy", "guarded", "consent"):
        for guard in GUARDS:
            for face in (*FACES, "tui"):
                expected(effect, guard, face)
