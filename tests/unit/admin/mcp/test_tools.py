"""Tools as they are listed: schemas, hints, order and size."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # the SDK brings it, without types
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from danube.admin.access import AccessLevel, Guard
from danube.admin.mcp.answers import answer_of
from danube.admin.mcp.protocol.instructions import access_of, instructions_of
from danube.admin.mcp.protocol.prompts import prompt_of, prompts_of
from danube.admin.mcp.tool_catalogue import ALL_TOOLSETS, DEFAULT_TOOLSETS, ToolCatalogue, check_toolsets
from danube.admin.mcp.tools import tools_of
from danube.admin.operations import BY_NAME, REGISTRY
from danube.admin.operations.analytics.recommendations import Recommendations
from danube.admin.operations.analytics.troubles import Confidence, Recommendation
from danube.admin.operations.cluster.health import CheckStatus
from danube.model.errors import SettingsError
from danube.model.limits.faces import MCP_ANSWER_BYTES_MAX, MCP_FULL_LIST_BYTES_MAX, MCP_LIST_BYTES_MAX
from danube.model.plans.plan import Effect
from tests.faces.memory_gateway import MemoryGateway
from tests.faces.seeded import SEEDED_REQUEST, seeded_gateway
from tests.faces.skewed import skewed_balance
from tests.unit.admin.mcp.hosts import ERAS, host, text_of

GOLDEN = Path(__file__).parents[3] / "snapshots" / "mcp"
LEVELS = list(AccessLevel)


TOOLSETS = list(dict.fromkeys(each.toolset for each in REGISTRY if each.is_tool))


def listed(level: AccessLevel = AccessLevel.DESTROY, *toolsets: str) -> list[dict[str, Any]]:
    tools = tools_of(ToolCatalogue(guard=Guard(level), toolsets=toolsets or DEFAULT_TOOLSETS))
    return [tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in tools]


EVERY = [tool for toolset in TOOLSETS for tool in listed(AccessLevel.DESTROY, toolset)]
"""Each as it is listed with its own toolset alone."""


@pytest.mark.parametrize("level", LEVELS)
def test_the_tools_are_those_of_the_registry_that_the_level_allows(level: AccessLevel) -> None:
    wanted = [each.name for each in REGISTRY if each.is_tool and each.toolset == "default" and level.allows(each.level)]
    assert [tool["name"] for tool in listed(level)] == wanted


def size_of(tools: list[dict[str, Any]]) -> int:
    return len(json.dumps(tools, separators=(",", ":")))


def test_a_list_of_tools_is_small() -> None:
    assert size_of(listed()) < MCP_LIST_BYTES_MAX


def test_a_list_of_all_toolsets_is_small_too() -> None:
    tools = listed(AccessLevel.DESTROY, ALL_TOOLSETS)
    assert [tool["name"] for tool in tools] == [each.name for each in REGISTRY if each.is_tool]
    assert size_of(tools) < MCP_FULL_LIST_BYTES_MAX
    for tool in tools:
        assert tool["outputSchema"]["type"] == "object"
        assert all("description" in each for each in tool["inputSchema"]["properties"].values())


def test_a_list_of_twice_as_many_tools_says_less_of_each_and_stays_small() -> None:
    twins = [replace(each, name=f"{each.name}_twin") for each in REGISTRY]
    tools = tools_of(ToolCatalogue(guard=Guard(), registry=(*REGISTRY, *twins)))
    assert len(tools) == 2 * len(listed())
    assert (
        size_of([tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in tools]) < MCP_LIST_BYTES_MAX
    )
    for tool in tools:
        Draft202012Validator.check_schema(tool.output_schema or {})


def test_two_lists_are_the_same_bytes() -> None:
    assert json.dumps(listed()) == json.dumps(listed())


@pytest.mark.parametrize("tool", EVERY, ids=lambda tool: tool["name"])
def test_a_tool_is_as_its_golden_file_says(tool: dict[str, Any]) -> None:
    """`python -m tests.unit.admin.mcp.golden` writes them anew."""
    golden = GOLDEN / f"{tool['name']}.json"
    assert json.loads(golden.read_text()) == tool, (
        "run python -m tests.unit.admin.mcp.golden, and look at the difference"
    )


def test_every_golden_file_has_its_tool() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == {tool["name"] for tool in EVERY}


@pytest.mark.parametrize("tool", EVERY, ids=lambda tool: tool["name"])
def test_schemas_are_valid_objects_that_need_no_reference(tool: dict[str, Any]) -> None:
    for schema in (tool["inputSchema"], tool["outputSchema"]):
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert "$ref" not in json.dumps(schema)
        assert "anyOf" not in json.dumps(schema)


@pytest.mark.parametrize("tool", EVERY, ids=lambda tool: tool["name"])
def test_examples_and_arguments_fit_the_schema_and_others_do_not(tool: dict[str, Any]) -> None:
    operation = next(each for each in REGISTRY if each.name == tool["name"])
    schema = Draft202012Validator(tool["inputSchema"])
    for example in operation.examples:
        assert schema.is_valid(example.arguments)
        assert not schema.is_valid({**example.arguments, "surprise": 1})
    assert ("plan_id" in tool["inputSchema"]["properties"]) == operation.is_planned


@pytest.mark.parametrize("tool", EVERY, ids=lambda tool: tool["name"])
def test_hints_follow_from_the_effect(tool: dict[str, Any]) -> None:
    operation = next(each for each in REGISTRY if each.name == tool["name"])
    assert tool["annotations"] == {
        "readOnlyHint": operation.effect is Effect.READ,
        "destructiveHint": operation.effect is Effect.DESTROY,
        "idempotentHint": operation.is_idempotent,
        "openWorldHint": False,
    }


@pytest.mark.parametrize("tool", EVERY, ids=lambda tool: tool["name"])
def test_a_description_begins_with_what_the_tool_does(tool: dict[str, Any]) -> None:
    operation = next(each for each in REGISTRY if each.name == tool["name"])
    assert tool["description"].startswith(operation.summary)
    assert ("applies that plan" in tool["description"]) == operation.is_planned


def test_what_is_missing_is_told_with_its_reason() -> None:
    catalogue = ToolCatalogue(guard=Guard(AccessLevel.READ))
    missing = access_of(catalogue)["missing"]
    assert "--access destroy" in missing["delete_topic"]
    assert "plans approve" in missing["approve_plan"]
    assert "danube://access" in instructions_of(catalogue)


def test_a_toolset_that_is_off_is_told_with_the_flag_that_switches_it_on() -> None:
    catalogue = ToolCatalogue(guard=Guard())
    assert "--toolsets default,messages" in access_of(catalogue)["missing"]["peek_messages"]
    off = instructions_of(catalogue).partition("that are off: ")[2].partition("; ")[0].split(", ")
    assert {"raft", "policies", "messages", "schemas"} <= {*off}
    assert f"`danube-admin mcp --toolsets default,{off[0]}`" in instructions_of(catalogue)
    assert "that are off" not in instructions_of(ToolCatalogue(guard=Guard(), toolsets=(ALL_TOOLSETS,)))


def test_a_toolset_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(SettingsError, match=r"no toolset 'defualt'.*default"):
        check_toolsets(["defualt"])
    assert check_toolsets([]) == ("default",)


DEFAULT_32 = """
list_brokers cluster_status get_cluster_balance trigger_rebalance cancel_rebalance unload_broker activate_broker
list_namespaces create_namespace delete_namespace list_topics describe_topic create_topic delete_topic
unload_topic unsubscribe retry_blocked configure_topic_schema list_subjects get_schema list_schema_versions
check_schema_compatibility register_schema set_schema_compatibility_mode health_check get_recommendations
analyze_consumer_lag analyze_cluster_balance run_analytics get_analytics_result get_metrics get_broker_logs
"""


async def test_a_host_sees_exactly_the_32_tools_of_the_default_set() -> None:
    async with host(seeded_gateway()) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
    assert sorted(names) == sorted(DEFAULT_32.split())
    assert len(names) == 32


NAMES = re.compile(rf"(?<![\w/.-])({'|'.join(each.name for each in REGISTRY if '_' in each.name)})(?![\w/-])")


def named_and_missing(text: str, names: list[str]) -> set[str]:
    """Tools that a text names and that are not offered."""
    return {*NAMES.findall(text)} - {*names}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("toolset", ["default", ALL_TOOLSETS])
def test_no_description_names_a_tool_that_is_not_offered(level: AccessLevel, toolset: str) -> None:
    catalogue = ToolCatalogue(guard=Guard(level), toolsets=(toolset,))
    texts = [json.dumps(listed(level, toolset)), instructions_of(catalogue)]
    for prompt in prompts_of(catalogue):
        given = {each.name: "/default/orders" for each in prompt.arguments or () if each.required}
        texts.append(prompt_of(catalogue, prompt.name, given).model_dump_json())
    assert [named_and_missing(text, catalogue.names) for text in texts] == [set()] * len(texts)


@pytest.mark.parametrize("level", [AccessLevel.READ, AccessLevel.DESTROY])
async def test_no_answer_and_no_error_names_a_tool_that_is_not_offered(level: AccessLevel) -> None:
    gateway = seeded_gateway()
    gateway.cluster.balance = replace(skewed_balance(), brokers=skewed_balance().brokers[:3])
    async with host(gateway, access=level) as client:
        tools = (await client.list_tools()).tools
        names = [tool.name for tool in tools]
        for tool in tools:
            operation = next(each for each in REGISTRY if each.name == tool.name)
            known = {"topic": "/default/none", "subscription": "none", "subject": "none", "namespace": "none"}
            wrong = {name: known[name] for name in operation.params.model_fields if name in known}
            for arguments in (*(each.arguments for each in operation.examples), wrong, {"surprise": 1}):
                answer = await client.call_tool(tool.name, arguments)
                assert named_and_missing(answer.model_dump_json(), names) == set(), (tool.name, arguments)


def test_a_next_call_that_is_not_offered_is_a_command_for_a_person() -> None:
    told = [
        Recommendation(
            severity=CheckStatus.WARNING,
            subject="/default/call list_plans",
            since_ms=None,
            confidence=Confidence.HIGH,
            meaning="Call list_plans.",
            next_tool=name,
            next_arguments={"topic": "/default/t"},
            seen="",
        )
        for name in ("list_connections", "describe_topic")
    ]
    found = Recommendations(total=2, not_judged=[], recommendations=told)
    answer = answer_of(BY_NAME["get_recommendations"], found, ToolCatalogue(guard=Guard()))
    assert answer.structured_content is not None
    rows = answer.structured_content["recommendations"]
    assert [row["next_tool"] for row in rows] == ["`danube-admin topics connections`", "describe_topic"]
    assert (rows[0]["meaning"], rows[0]["subject"]) == ("Call `danube-admin plans list`.", "/default/call list_plans")
    assert "danube-admin topics connections" in text_of(answer)


@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_that_does_not_exist_is_an_error_of_the_protocol(era: str) -> None:
    async with host(seeded_gateway(), era) as client:
        with pytest.raises(MCPError, match="there is no tool 'list_broker': did you mean 'list_brokers'") as error:
            await client.call_tool("list_broker", {})
        assert error.value.error.code == INVALID_PARAMS
        off = await client.call_tool("peek_messages", {})
        assert off.is_error
        assert "--toolsets default,messages" in text_of(off)


async def test_what_a_person_scripts_after_the_original_is_described(gateway: MemoryGateway) -> None:
    async with host(gateway) as client:
        tools = {tool.name: tool.description or "" for tool in (await client.list_tools()).tools}
    assert "Returns broker IDs, status" in tools["list_brokers"]
    assert "Use this first to discover" in tools["list_brokers"]


def test_the_sizes_in_the_documentation_are_those_of_the_code() -> None:
    page = (Path(__file__).parents[4] / "docs" / "mcp" / "README.md").read_text()
    said = re.search(
        r"default list of tools takes (\d+) KiB, and never more than (\d+); an answer is below (\d+) KiB", page
    )
    assert said is not None
    measured, most, answer = map(int, said.groups())
    assert abs(size_of(listed()) / 1_024 - measured) < 2
    assert (1_024 * most, 1_024 * answer) == (MCP_LIST_BYTES_MAX, MCP_ANSWER_BYTES_MAX)


async def test_no_tool_of_any_toolset_approves_rejects_or_reads_the_audit_log() -> None:
    gateway = seeded_gateway()
    plan = await gateway.create_plan(SEEDED_REQUEST)
    async with host(gateway, toolsets=(ALL_TOOLSETS,)) as client:
        tools = (await client.list_tools()).tools
        assert {"list_plans", "peek_messages", "retry_blocked"} <= {tool.name for tool in tools}
        for name in ("approve_plan", "reject_plan", "audit"):
            assert name not in {tool.name for tool in tools}
            answer = await client.call_tool(name, {"plan_id": plan.plan_id} if name != "audit" else {})
            assert answer.is_error
    assert (await gateway.plan(plan.plan_id)).decided_by is None
