"""What can lose a message or a right for good is never `write`: neither by its effect nor by its arguments."""

from typing import Any

import pytest

from danube.admin.access import AccessLevel, Guard
from danube.admin.execution import Session, execute, parse_arguments
from danube.admin.operations import BY_NAME, REGISTRY
from danube.admin.operations.operation import AnyOperation
from danube.model.errors import AccessLevelError, NotPermittedError
from danube.model.plans.plan import Caller, Effect, Face
from danube.runtime.clock import SystemClock
from tests.faces.seeded import seeded_gateway

LOSING: dict[str, list[object]] = {
    "ttl_s": [1, 3_600],
    "time_s": [1],
    "bytes": [1],
    "drops_unread": [True],
}
"""By parameter, whatever operation has it: values that pass over or delete messages."""
SKIPPING = {"seek_subscription", "skip_messages", "unsubscribe", "delete_topic", "delete_namespace"} | {
    "set_subscription_drop_policy"
}
"""Lose messages with any arguments."""
HARMLESS = [
    ("set_topic_policies", {"topic": "/default/orders", "max_consumers_per_topic": 5}),
]


def losing_calls() -> list[tuple[AnyOperation, dict[str, Any]]]:
    found = []
    for operation in REGISTRY:
        arguments = dict(operation.examples[0].arguments)
        if operation.effect is Effect.READ:
            continue
        changed = ({**arguments, name: value} for name, values in LOSING.items() for value in values)
        found += [(operation, each) for each in changed if each.keys() <= operation.params.model_fields.keys()]
        if operation.toolset == "security" or operation.name in SKIPPING:
            found.append((operation, arguments))
    return found


@pytest.mark.parametrize(("operation", "arguments"), [pytest.param(*each, id=each[0].name) for each in losing_calls()])
async def test_what_loses_a_message_or_a_right_is_destroying_and_no_assistant_does_it_alone(
    operation: AnyOperation, arguments: dict[str, Any]
) -> None:
    params, gateway = parse_arguments(operation, arguments), seeded_gateway(SystemClock())
    assert (operation.effect_of(params), operation.level_of(params)) == (Effect.DESTROY, AccessLevel.DESTROY)

    def session(face: Face, level: AccessLevel = AccessLevel.DESTROY) -> Session:
        caller = Caller(who="ann@test", face=face)
        return Session(gateway=gateway, caller=caller, clock=SystemClock(), guard=Guard(level))

    before = gateway.digest()
    with pytest.raises(AccessLevelError):
        await execute(session(Face.CLI, AccessLevel.WRITE), operation, params)
    if operation.is_planned:
        await execute(session(Face.MCP), operation, params)
    else:
        with pytest.raises(NotPermittedError, match="a person calls `danube-admin"):
            await execute(session(Face.MCP), operation, params)
    assert gateway.digest() == before


def test_the_walk_has_the_calls_that_lost_something() -> None:
    names = {operation.name for operation, _ in losing_calls()}
    assert names >= SKIPPING | {"set_topic_message_ttl", "set_namespace_message_ttl"}
    assert names >= {"set_topic_retention", "delete_api_key", "revoke_tokens", "create_binding", "delete_role"}


@pytest.mark.parametrize(("name", "arguments"), HARMLESS)
def test_what_loses_nothing_is_write(name: str, arguments: dict[str, Any]) -> None:
    assert BY_NAME[name].effect_of(parse_arguments(BY_NAME[name], arguments)) is Effect.WRITE
