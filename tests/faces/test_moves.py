"""Moves on a cluster of two brokers, through the command and through an assistant's client, until they have ended."""

import json
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from danube.model.exit_codes import ExitCode
from danube.testing.patience import PATIENCE_S
from tests.faces.faces import mcp_over_http, run, without_notice
from tests.faces.places import Place, seeded_place
from tests.unit.broker.network import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(4 * PATIENCE_S)]

ORDERS = "/default/orders"


async def test_an_assistant_moves_a_topic_and_sees_it_at_its_next_broker(tmp_path: Path) -> None:
    async with seeded_place(tmp_path / "one", is_cluster=True) as place, mcp_over_http(place) as client:
        ask = partial(tool, client)
        before = await ask("describe_topic", topic=ORDERS)
        assert (before["state"], before["broker_id"]) == ("served", place.broker_id)
        plan = (await ask("unload_topic", topic=ORDERS))["plan"]
        assert [each for each in plan["changes"] if each.startswith(f"{ORDERS}: broker {place.broker_id} to ")]
        applied = await ask("unload_topic", topic=ORDERS, plan_id=plan["plan_id"])
        assert applied["status"] == "applied"
        await until(partial(is_elsewhere, ask, place))
        moved = await ask("describe_topic", topic=ORDERS)
        assert (moved["end_offset"], moved["subscriptions"]) == (5, ["audit", "billing"])


async def test_a_broker_is_drained_and_activated_by_commands(tmp_path: Path) -> None:
    async with seeded_place(tmp_path / "one", is_cluster=True) as place:
        ask = partial(command, place)
        drained = ["brokers", "unload", "--broker-id", place.broker_id, "--max-parallel", "4"]
        shown = await ask(*drained, "--dry-run")
        assert shown["plan"]["topic_count"] == 5
        assert (await ask(*drained, "--yes"))["status"] == "applied"

        async def is_drained() -> bool:
            brokers = {each["broker_id"]: each["broker_status"] for each in await ask("brokers", "list")}
            return bool(brokers[place.broker_id] == "drained")

        await until(is_drained)
        status = await ask("cluster", "status")
        assert (status["storage_mode"], status["moves_under_way"], status["not_served"]) == ("local", 0, [])
        assert (await ask("brokers", "activate", "--broker-id", place.broker_id, "--yes"))["status"] == "applied"
        back = await ask("topics", "unload", ORDERS, "--broker-id", place.broker_id, "--yes")
        assert back["status"] == "applied"


async def is_elsewhere(ask: Callable[..., Awaitable[Any]], place: Place) -> bool:
    topic = await ask("describe_topic", topic=ORDERS)
    return bool(topic["state"] == "served" and topic["broker_id"] != place.broker_id)


async def tool(client: Client, name: str, **arguments: Any) -> Any:
    """The answer of a tool that must succeed."""
    said = await client.call_tool(name, arguments)
    assert not said.is_error, said.content
    return without_notice(said)


async def command(place: Place, *words: str) -> Any:
    """The answer of a command that must succeed."""
    code, out, err = await run([*words, *place.flags, "-o", "json"])
    assert code == ExitCode.OK, (code, out, err)
    return json.loads(out)
