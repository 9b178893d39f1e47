"""Calls: arguments, answers and errors, in both eras."""

import asyncio

import pytest

from danube.admin.access import AccessLevel
from danube.admin.mcp.untrusted_text import NOTICE
from danube.admin.operations import REGISTRY
from danube.model.errors import BrokerUnreachableError
from danube.model.limits.faces import MCP_CALLS_MAX
from danube.model.plans.plan import Caller, Face
from danube.model.records.audit import Outcome
from danube.testing.patience import PATIENCE_S
from tests.faces.memory_gateway import MemoryGateway
from tests.unit.admin.mcp.hosts import ERAS, host, text_of

pytestmark = pytest.mark.slow  # together they take long

READS = [
    (operation.name, example.arguments)
    for operation in REGISTRY
    if operation.is_tool and operation.effect == "read" and operation.toolset == "default"
    for example in operation.examples
]


@pytest.mark.parametrize("era", ERAS)
async def test_a_listing_answers_rows_and_a_table(gateway: MemoryGateway, era: str) -> None:
    async with host(gateway, era) as client:
        answer = await client.call_tool("list_namespaces", {})
    assert answer.structured_content == {
        "notice": NOTICE,
        "total": 3,
        "next_cursor": None,
        "namespaces": [{"name": "default"}, {"name": "staging"}, {"name": "system"}],
    }
    assert "Namespaces\nName\ndefault\nstaging\nsystem" in text_of(answer)


@pytest.mark.parametrize("era", ERAS)
async def test_every_example_that_reads_answers_what_its_schema_says(gateway: MemoryGateway, era: str) -> None:
    async with host(gateway, era) as client:
        await client.list_tools()  # from then on the client checks each answer against the schema
        for name, arguments in READS:
            answer = await client.call_tool(name, arguments)
            assert answer.is_error is False, f"{name}: {text_of(answer)}"
            assert answer.structured_content


async def test_a_call_is_recorded_with_who_asked_through_which_program(gateway: MemoryGateway) -> None:
    async with host(gateway) as client:
        await client.call_tool("list_brokers", {})
    entry = gateway.audit_records[-1].entry
    assert entry.caller == Caller(who="ann@desk", face=Face.MCP, client="test-host 7")
    assert (entry.operation, entry.outcome) == ("list_brokers", Outcome.DONE)


async def test_pages_follow_each_other_to_the_end(gateway: MemoryGateway) -> None:
    names: list[str] = []
    async with host(gateway) as client:
        cursor = None
        while True:
            arguments = {"limit": 2, **({"cursor": cursor} if cursor else {})}
            page = (await client.call_tool("list_topics", arguments)).structured_content
            names += [row["name"] for row in page["topics"]]
            if (cursor := page["next_cursor"]) is None:
                break
    assert names == sorted(gateway.cluster.topics)


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("list_topics", {"namespce": "x"}, ["'namespce'", "did you mean 'namespace'", '{"namespace":"default"}']),
        ("list_topics", {"limit": 0, "namespace": 5}, ["limit:", "namespace:", "A call that works"]),
        ("list_topics", {"plan_id": "x"}, ["no argument 'plan_id'"]),
        ("describe_topic", {}, ["topic: Field required", '{"topic":"/default/orders"}']),
        ("describe_topic", {"topic": "/default/nope"}, ["no topic /default/nope", "call list_topics"]),
        ("list_topics", {"namespace": "nope"}, ["no namespace", "call list_namespaces"]),
        ("unsubscribe", {"topic": "/default/orders", "subscription": "no"}, ["call describe_topic"]),
        ("delete_topic", {"topic": "/default/ticks", "plan_id": "nope"}, ["without plan_id"]),
        ("delete_topic", {"topic": "/default/ticks", "plan_id": 5}, ["plan_id is the text"]),
        ("approve_plan", {"plan_id": "plan-seeded"}, ["not offered", "danube-admin plans approve"]),
    ],
)
async def test_an_error_says_what_is_wrong_and_what_to_call(
    gateway: MemoryGateway, name: str, arguments: dict[str, object], words: list[str]
) -> None:
    before = gateway.digest()
    async with host(gateway) as client:
        answer = await client.call_tool(name, arguments)
    assert answer.is_error is True
    assert answer.structured_content is None
    assert [word for word in words if word not in text_of(answer)] == []
    assert gateway.digest() == before


async def test_a_tool_above_the_level_is_not_listed_and_its_call_is_refused_on_record(gateway: MemoryGateway) -> None:
    before = gateway.digest()
    async with host(gateway, access=AccessLevel.READ) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        answer = await client.call_tool("create_namespace", {"namespace": "mine"})
    assert "create_namespace" not in names
    assert answer.is_error is True
    assert "--access write" in text_of(answer)
    assert gateway.audit_records[-1].entry.outcome is Outcome.REFUSED
    assert gateway.digest() == before


async def test_a_broker_that_is_gone_is_told_and_used_again_when_it_is_back(gateway: MemoryGateway) -> None:
    gateway.failures["*"] = BrokerUnreachableError("nobody answers at http://127.0.0.1:50051")
    async with host(gateway) as client:
        gone = await client.call_tool("list_brokers", {})
        gateway.failures.clear()
        back = await client.call_tool("list_brokers", {})
    assert gone.is_error is True
    assert "nobody answers" in text_of(gone)
    assert "call again" in text_of(gone)
    assert back.is_error is False


async def test_a_broker_that_dies_in_the_middle_of_a_call_is_told(gateway: MemoryGateway) -> None:
    gateway.held = asyncio.Event()
    async with host(gateway) as client, asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        call = tasks.create_task(client.call_tool("list_topics", {}))
        await gateway.waiting.wait()
        gateway.failures["*"] = BrokerUnreachableError("the connection broke")
        gateway.held.set()
        answer = await call
    assert answer.is_error is True
    assert "the connection broke" in text_of(answer)


async def test_a_fault_of_ours_shows_neither_a_traceback_nor_its_text(
    gateway: MemoryGateway, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.failures["brokers"] = RuntimeError("token=hunter2")  # type: ignore[assignment]
    async with host(gateway) as client:
        answer = await client.call_tool("list_brokers", {})
    assert answer.is_error is True
    assert "hunter2" not in text_of(answer)
    assert "list_brokers failed" in caplog.text


@pytest.mark.parametrize("era", ERAS)
async def test_calls_run_beside_each_other_up_to_a_bound(gateway: MemoryGateway, era: str) -> None:
    gateway.held = asyncio.Event()
    async with host(gateway, era) as client, asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        calls = [tasks.create_task(client.call_tool("list_brokers", {})) for _ in range(MCP_CALLS_MAX + 1)]
        await gateway.waiting.wait()
        done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        gateway.held.set()
    assert [call.result().is_error for call in done] == [True]
    assert sum(call.result().is_error is True for call in calls) == 1


async def test_every_tool_of_the_table_of_advice_is_there() -> None:
    from danube.admin.mcp.failures import _LIST_OF  # noqa: PLC0415 - the one table that names operations

    assert set(_LIST_OF.values()) <= {operation.name for operation in REGISTRY if operation.is_tool}
