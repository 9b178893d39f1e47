"""Plans: read whole, applied, approved and rejected by a word that is typed; refusals are shown as sentences."""

import pytest

from danube.admin.access import AccessLevel
from danube.admin.execution import parse_arguments
from danube.admin.operations import operation_of
from danube.admin.operations.plan_views import PlannedResult
from danube.admin.tui.plan_actions import apply_act
from danube.admin.tui.screens.decide import DecideScreen
from danube.admin.tui.screens.form import FormScreen
from danube.admin.tui.widgets.lines import Lines
from danube.model.errors import DanubeError, PlanRefusedError
from danube.model.plans.plan import Approval, Face, PlanStatus
from danube.model.records.audit import Outcome
from tests.faces.pilot import answer_shown, confirm, run_operation
from tests.faces.seeded import PLAN_ID
from tests.unit.admin.tui.conftest import Open, Terminal

pytestmark = pytest.mark.slow  # together they take long

ORDERS = {"topic": "/default/orders"}


async def plan_to_delete_orders(terminal: Terminal) -> DecideScreen:
    """The plan on the screen, as the form made it."""
    operation = operation_of("delete_topic")
    await terminal.app.push_screen(FormScreen(terminal.app.app_context, operation, ORDERS))
    await terminal.press("ctrl+s")
    await terminal.app.workers.wait_for_complete()
    await terminal.rest()
    assert isinstance(terminal.app.screen, DecideScreen)
    return terminal.app.screen


async def test_what_destroys_answers_a_plan_and_touches_nothing(terminal: Terminal) -> None:
    before = terminal.gateway.digest()
    result = await run_operation(terminal.pilot, operation_of("delete_topic"), ORDERS)
    assert isinstance(result, PlannedResult)
    assert result.status is PlanStatus.READY
    assert terminal.gateway.digest() == before


async def test_applying_what_destroys_wants_the_name_of_what_goes(terminal: Terminal) -> None:
    screen = await plan_to_delete_orders(terminal)
    await terminal.press("pagedown", "pagedown")
    assert "To apply the plan type  /default/orders  and press Enter." in terminal.text
    screen.word.value = "/default/order"
    await terminal.press("enter")
    assert "Nothing was done: that is not /default/orders." in terminal.text
    assert "/default/orders" in terminal.gateway.cluster.topics


@pytest.mark.slow
@pytest.mark.parametrize(("name", "word"), [("seek_subscription", "audit"), ("skip_messages", "audit")])
def test_what_has_to_be_typed_is_a_name_and_not_a_number(name: str, word: str) -> None:
    operation = operation_of(name)
    params = parse_arguments(operation, operation.examples[0].arguments)
    assert apply_act(operation, params, PLAN_ID).word == word


async def test_a_plan_that_is_not_read_to_its_end_cannot_be_applied(terminal: Terminal) -> None:
    screen = await plan_to_delete_orders(terminal)
    assert screen.word.disabled
    assert "Read to the end first" in terminal.text


async def test_the_typed_name_applies_the_plan_and_the_log_says_who(terminal: Terminal) -> None:
    await plan_to_delete_orders(terminal)
    await confirm(terminal.pilot)
    assert "/default/orders" not in terminal.gateway.cluster.topics
    assert "applied" in terminal.text
    last = terminal.gateway.audit_records[-1].entry
    assert (last.operation, last.outcome, last.caller.face) == ("delete_topic", Outcome.DONE, Face.TUI)


async def test_a_plan_that_the_cluster_has_left_behind_is_refused_with_its_sentence(terminal: Terminal) -> None:
    await plan_to_delete_orders(terminal)
    del terminal.gateway.cluster.topics["/default/orders"].subscriptions["audit"]
    await confirm(terminal.pilot)
    assert isinstance(answer_shown(terminal.pilot), PlanRefusedError)
    assert "the cluster has changed" in terminal.text
    assert "/default/orders" in terminal.gateway.cluster.topics


@pytest.mark.slow
async def test_leaving_a_plan_applies_nothing(terminal: Terminal) -> None:
    await plan_to_delete_orders(terminal)
    await terminal.press("escape")
    assert isinstance(terminal.app.screen, FormScreen)
    assert "/default/orders" in terminal.gateway.cluster.topics


async def test_a_waiting_plan_is_approved_by_typing_its_id(terminal: Terminal) -> None:
    await terminal.press("3", "a")
    await confirm(terminal.pilot)
    plan = terminal.gateway.stored_plans[PLAN_ID]
    assert (plan.approval, plan.decided_by and plan.decided_by.face) == (Approval.APPROVED, Face.TUI)


@pytest.mark.slow
async def test_enter_alone_approves_nothing(terminal: Terminal) -> None:
    await terminal.press("3", "a", "end", "enter", "enter")
    assert terminal.gateway.stored_plans[PLAN_ID].approval is Approval.WAITING


@pytest.mark.slow
async def test_a_waiting_plan_is_rejected_with_a_yes(terminal: Terminal) -> None:
    await terminal.press("3", "enter", "x")
    await confirm(terminal.pilot)
    assert terminal.gateway.stored_plans[PLAN_ID].approval is Approval.REJECTED


@pytest.mark.slow
async def test_an_approved_plan_can_be_applied_from_the_list(terminal: Terminal) -> None:
    await terminal.press("3", "a")
    await confirm(terminal.pilot)
    await terminal.press("escape")
    await terminal.look()
    await terminal.press("enter", "y")
    await confirm(terminal.pilot)
    assert "staging" not in terminal.gateway.cluster.namespaces


async def test_who_may_not_approve_is_told_why(open_terminal: Open) -> None:
    async with open_terminal(level=AccessLevel.WRITE) as terminal:
        await terminal.press("3", "a")
        assert "needs access level destroy, this is write" in terminal.flat
        screen = terminal.app.screen
        assert isinstance(screen, DecideScreen)
        assert screen.word.disabled


@pytest.mark.slow
async def test_the_approve_form_shows_the_plan_and_asks_for_its_id(terminal: Terminal) -> None:
    result = await run_operation(terminal.pilot, operation_of("approve_plan"), {"plan_id": PLAN_ID})
    assert result.model_dump()["status"] == "ready"


@pytest.mark.slow
async def test_approving_a_plan_that_is_not_there_says_so(terminal: Terminal) -> None:
    with pytest.raises(DanubeError, match="there is no plan"):
        await run_operation(terminal.pilot, operation_of("approve_plan"), {"plan_id": "plan-of-nobody"})


@pytest.mark.slow
async def test_a_decision_is_in_the_audit_list_with_an_intact_chain(terminal: Terminal) -> None:
    await terminal.press("3", "x")
    await confirm(terminal.pilot)
    await terminal.press("escape", "4")
    assert "reject_plan plan-seeded" in terminal.text
    assert "chain intact: 2 of 2 records checked" in terminal.text
    await terminal.press("enter")
    assert 'Arguments    {"plan_id": "plan-seeded"}' in terminal.text


@pytest.mark.slow
async def test_a_plan_with_many_names_shows_all_that_it_knows(terminal: Terminal) -> None:
    await terminal.app.push_screen(
        FormScreen(terminal.app.app_context, operation_of("delete_topic"), {"topic": "/default/events"})
    )
    await terminal.press("ctrl+s")
    await terminal.app.workers.wait_for_complete()
    await terminal.rest()
    text = terminal.app.screen.query_one(Lines).text
    assert all(f"\n/default/events-part-{index}" in text for index in range(3))
