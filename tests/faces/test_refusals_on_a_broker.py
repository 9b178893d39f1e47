"""The same table before a real broker and through each face as it is started: a refusal leaves no trace but its record.

`test_refusals.py` has every case, on a cluster in memory; here each face is held at one guard that refuses much.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from danube.admin.access import AccessLevel, Guard
from danube.admin.operations import REGISTRY
from danube.admin.operations.operation import AnyOperation
from danube.admin.tui.app import AdminApp
from danube.model.errors import DanubeError
from danube.model.exit_codes import ExitCode
from danube.model.plans.plan import Caller, Face
from danube.model.records.audit import Outcome
from danube.runtime.clock import SystemClock
from tests.faces.faces import ask_web, mcp_over_http, run, typed, web_client
from tests.faces.pilot import run_operation
from tests.faces.places import Place, seeded_place
from tests.faces.test_refusals import EFFECTS, NO_TOOLS, expected

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(180)]

READ_ONLY = Guard(AccessLevel.READ)
CHANGING = [operation for operation in REGISTRY if EFFECTS[operation.name] != "read"]


def arguments_of(place: Place, operation: AnyOperation) -> dict[str, Any]:
    return place.arguments(operation.examples[0])


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param([*{EFFECTS[each.name]: each for each in CHANGING}.values()], id="one of each effect"),
        pytest.param(CHANGING, id="all", marks=pytest.mark.nightly),
    ],
)
async def test_commands_that_may_only_read_change_nothing(operations: list[AnyOperation], tmp_path: Path) -> None:
    async with seeded_place(tmp_path, is_cluster=True) as place:
        before = await place.digest()
        for operation in operations:
            assert expected(EFFECTS[operation.name], READ_ONLY, "cli") == "refused"
            words = [*operation.words, *typed(operation, arguments_of(place, operation)), "--yes"]
            code, out, err = await run([*words, "--access", "read", *place.flags])
            assert (code, out) == (ExitCode.REFUSED, ""), (operation.name, out, err)
            assert await place.digest() == before


async def test_an_api_that_may_only_read_changes_nothing(tmp_path: Path) -> None:
    async with seeded_place(tmp_path, is_cluster=True) as place, web_client(place, AccessLevel.READ) as client:
        before = await place.digest()
        for operation in CHANGING:
            reply = await ask_web(client, operation, arguments_of(place, operation))
            assert reply.status_code == 403, (operation.name, reply.text)
            assert await place.digest() == before


async def test_a_terminal_that_may_only_read_changes_nothing(tmp_path: Path) -> None:
    async with seeded_place(tmp_path, is_cluster=True) as place:
        before = await place.digest()
        caller = Caller(who="person@test", face=Face.TUI)
        target = replace(place.target, guard=READ_ONLY)
        app = AdminApp(place.gateway, target, clock=SystemClock(), caller=caller)
        async with app.run_test() as pilot:
            for operation in CHANGING:
                with pytest.raises(DanubeError):
                    await run_operation(pilot, operation, arguments_of(place, operation), apply=True)
                assert await place.digest() == before


async def test_an_assistant_whose_plans_wait_changes_nothing(tmp_path: Path) -> None:
    async with seeded_place(tmp_path, is_cluster=True) as place, mcp_over_http(place) as client:
        before = await place.digest()
        for operation in CHANGING:
            if EFFECTS[operation.name] not in {"destroy", "consent"} and operation.name not in NO_TOOLS:
                continue
            arguments = arguments_of(place, operation)
            said = await client.call_tool(operation.name, arguments)
            assert said.is_error == (operation.name in NO_TOOLS), operation.name
            if not said.is_error:
                plan_id = (said.structured_content or {})["plan"]["plan_id"]
                assert (await client.call_tool(operation.name, {**arguments, "plan_id": plan_id})).is_error
            assert await place.digest() == before
        page = await place.gateway.audit(0, 100)
        assert Outcome.REFUSED in {record.entry.outcome for record in page.records}
