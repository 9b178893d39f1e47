"""Planned tools: plan, approval by a person or none, and applying."""

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult, InputRequiredResult

from danube.admin.access import ApprovalMode
from danube.model.plans.plan import Approval, Face
from tests.faces.memory_gateway import MemoryGateway
from tests.unit.admin.mcp.hosts import ERAS, Person, host, text_of

pytestmark = pytest.mark.slow  # together they take long

TICKS = {"topic": "/default/ticks"}


@pytest.mark.parametrize("era", ERAS)
async def test_a_person_who_says_yes_lets_it_happen_at_once(gateway: MemoryGateway, era: str) -> None:
    person = Person("accept", approve=True)
    async with host(gateway, era, person=person) as client:
        answer = await client.call_tool("delete_topic", TICKS)
    assert answer.structured_content["status"] == "applied"
    assert "/default/ticks" not in gateway.cluster.topics
    plan = gateway.stored_plans[answer.structured_content["plan"]["plan_id"]]
    assert plan.decided_by is not None
    assert plan.decided_by.face is Face.MCP_HOST
    assert plan.asked_by.face is Face.MCP
    assert ["deletes /default/ticks" in question for question in person.questions] == [True]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    "person",
    [
        Person("decline"),
        Person("cancel"),
        Person("accept", approve=False),
        Person("accept"),
        Person("accept", approve="true"),
        None,
    ],
    ids=["declines", "cancels", "says no", "says nothing", "says it as a text", "cannot be asked"],
)
async def test_anything_but_a_clear_yes_changes_nothing_and_the_plan_keeps_waiting(
    gateway: MemoryGateway, era: str, person: Person | None
) -> None:
    before = gateway.digest()
    async with host(gateway, era, person=person) as client:
        answer = await client.call_tool("delete_topic", TICKS)
    assert answer.structured_content["status"] == "waiting"
    assert "danube-admin plans approve" in answer.structured_content["next_step"]
    plan = gateway.stored_plans[answer.structured_content["plan"]["plan_id"]]
    assert plan.approval is Approval.WAITING
    assert gateway.digest() == before


@pytest.mark.parametrize("era", ERAS)
async def test_a_plan_that_waits_cannot_be_applied_by_the_assistant(gateway: MemoryGateway, era: str) -> None:
    before = gateway.digest()
    async with host(gateway, era) as client:
        planned = await client.call_tool("delete_topic", TICKS)
        plan_id = planned.structured_content["plan"]["plan_id"]
        answer = await client.call_tool("delete_topic", {**TICKS, "plan_id": plan_id})
    assert answer.is_error is True
    assert "waits for a person" in text_of(answer)
    assert "same plan_id" in text_of(answer)
    assert gateway.digest() == before


async def test_a_question_is_the_same_for_the_same_plan_and_names_what_goes(gateway: MemoryGateway) -> None:
    person = Person("decline")
    async with host(gateway, person=person) as client:
        await client.call_tool("delete_topic", {"topic": "/default/orders"})
    (question,) = person.questions
    assert question.startswith("An assistant asks to carry out delete_topic.")
    assert "Cannot be undone" in question
    assert "/default/orders billing" in question
    assert "Messages: 5" in question


@pytest.mark.parametrize("era", ERAS)
async def test_for_automation_a_plan_is_applied_with_its_id_once(gateway: MemoryGateway, era: str) -> None:
    async with host(gateway, era, approval=ApprovalMode.NONE) as client:
        planned = await client.call_tool("delete_topic", TICKS)
        assert planned.structured_content["status"] == "ready"
        again = {**TICKS, "plan_id": planned.structured_content["plan"]["plan_id"]}
        applied = await client.call_tool("delete_topic", again)
        twice = await client.call_tool("delete_topic", again)
    assert applied.structured_content["status"] == "applied"
    assert twice.is_error is True
    assert "applied already" in text_of(twice)


async def test_an_approval_counts_for_the_call_that_was_shown_alone(gateway: MemoryGateway) -> None:
    """The state of a question is sealed and bound to its tool and arguments: another call cannot use it."""
    person = Person("accept", approve=True)
    before = gateway.digest()
    async with host(gateway, person=person) as client:
        question = await client.session.call_tool("delete_topic", TICKS, allow_input_required=True)
        assert isinstance(question, InputRequiredResult)
        yes = ElicitResult(action="accept", content={"approve": True})
        for name, arguments, state in [
            ("delete_topic", {"topic": "/default/orders"}, question.request_state),
            ("delete_namespace", {"namespace": "staging"}, question.request_state),
            ("delete_namespace", {"namespace": "staging"}, "plan-seeded"),
        ]:
            with pytest.raises(MCPError, match="requestState"):
                await client.session.call_tool(name, arguments, input_responses={"approval": yes}, request_state=state)
    assert gateway.digest() == before
