"""Every operation of the registry through its form and the palette; none is named by the code."""

import pytest
from textual.widgets import Input

from danube.admin.access import AccessLevel
from danube.admin.operations import REGISTRY, operation_of
from danube.admin.operations.operation import AnyOperation
from danube.admin.tui.screens.form import FormScreen
from danube.admin.tui.screens.result import ResultScreen
from danube.admin.tui.widgets.field import FieldEditor
from danube.model.errors import InvalidRequestError, NamespaceNotFoundError
from danube.model.plans.plan import Effect, Face
from danube.model.records.audit import Outcome
from tests.faces.pilot import run_operation
from tests.unit.admin.tui.conftest import Open, Terminal

pytestmark = pytest.mark.slow  # together they take long


READING = [operation for operation in REGISTRY if operation.effect is Effect.READ]
CHANGING = [operation for operation in REGISTRY if operation not in READING]


FIELDS_OF_EACH_KIND = {
    "create_topic",
    "delete_topic",
    "set_topic_policies",
    "set_topic_durability",
    "seek_subscription",
    "trigger_rebalance",
    "create_role",
    "approve_plan",
}
"""One operation for each kind of field and of effect. The others are tried at night, and by their examples."""


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param(READING, id="reading", marks=pytest.mark.nightly),
        *(
            pytest.param([each], id=each.name, marks=[pytest.mark.nightly] * (each.name not in FIELDS_OF_EACH_KIND))
            for each in CHANGING
        ),
    ],
)
async def test_the_form_of_each_operation_answers_what_the_operation_answers(
    operations: list[AnyOperation], terminal: Terminal
) -> None:
    for operation in operations:
        result = await run_operation(terminal.pilot, operation, operation.examples[0].arguments)
        assert isinstance(result, operation.result)
    assert {record.entry.caller.face for record in terminal.gateway.audit_records} == {Face.TUI}


@pytest.mark.slow
async def test_a_form_shows_descriptions_and_defaults(terminal: Terminal) -> None:
    await terminal.app.push_screen(FormScreen(terminal.app.app_context, operation_of("create_topic")))
    await terminal.rest()
    assert "name (needed)  The topic to create: /namespace/name." in terminal.text
    assert "▌0" in terminal.text
    assert "non_reliable" in terminal.text


async def test_validation_errors_stand_beside_their_field_and_nothing_is_called(terminal: Terminal) -> None:
    await terminal.app.push_screen(FormScreen(terminal.app.app_context, operation_of("create_topic")))
    await terminal.press("enter")
    assert "! This is needed." in terminal.text
    assert terminal.gateway.audit_records == []


@pytest.mark.slow
async def test_what_the_form_refuses_raises_from_the_driver(terminal: Terminal) -> None:
    with pytest.raises(InvalidRequestError, match="partitions"):
        await run_operation(terminal.pilot, operation_of("create_topic"), {"name": "/default/a", "partitions": -1})


async def test_an_error_of_the_cluster_is_shown_with_its_sentence(terminal: Terminal) -> None:
    operation = operation_of("get_namespace_policies")
    await terminal.app.push_screen(FormScreen(terminal.app.app_context, operation, {"namespace": "nowhere"}))
    await terminal.press("ctrl+s")
    assert isinstance(terminal.app.screen, ResultScreen)
    assert isinstance(terminal.app.screen.answer, NamespaceNotFoundError)
    assert "NOT DONE (NAMESPACE_NOT_FOUND)" in terminal.text


async def test_a_change_goes_through_the_audit_log(terminal: Terminal) -> None:
    await run_operation(terminal.pilot, operation_of("create_namespace"), {"namespace": "payments"})
    outcomes = [record.entry.outcome for record in terminal.gateway.audit_records]
    assert outcomes == [Outcome.STARTED, Outcome.DONE]


@pytest.mark.slow
async def test_the_right_arrow_completes_the_name_of_a_topic(terminal: Terminal) -> None:
    form = FormScreen(terminal.app.app_context, operation_of("describe_topic"))
    await terminal.app.push_screen(form)
    await terminal.press(*"/def", "right")
    assert form.query_one("FieldEditor Input", Input).value == "/default/events-part-0"


@pytest.mark.slow
async def test_the_palette_opens_the_form_of_what_was_searched(terminal: Terminal) -> None:
    await terminal.press("colon", *"policies")
    await terminal.press("enter")
    assert isinstance(terminal.app.screen, FormScreen)
    assert terminal.app.screen.operation.name == "get_namespace_policies"


async def test_operations_for_a_row_come_with_it_filled_in(terminal: Terminal) -> None:
    await terminal.press("end", "o")
    await terminal.press("enter")
    assert isinstance(terminal.app.screen, FormScreen)
    assert "/default/ticks" in [editor.value for editor in terminal.app.screen.query(FieldEditor)]


@pytest.mark.slow
async def test_above_the_level_an_operation_is_disabled_with_the_reason(open_terminal: Open) -> None:
    async with open_terminal(level=AccessLevel.READ) as terminal:
        await terminal.press("colon", *"topics del")
        assert "topics delete  (disabled)" in terminal.text
        assert "needs access level destroy, this is read" in terminal.text
        await terminal.press("enter")
        await terminal.press("ctrl+s")
        assert "Disabled: topics delete needs access level destroy" in terminal.text
        assert "create_plan" not in terminal.gateway.calls


@pytest.mark.slow
async def test_the_next_page_of_a_listing_comes_by_a_key(terminal: Terminal) -> None:
    form = FormScreen(terminal.app.app_context, operation_of("list_topics"), {"limit": 2})
    await terminal.app.push_screen(form)
    await terminal.press("ctrl+s")
    assert "There are more of them, 5 in all" in terminal.text
    await terminal.press("n")
    await terminal.app.workers.wait_for_complete()
    await terminal.rest()
    assert "/default/events-part-2" in terminal.text


@pytest.mark.slow
async def test_wide_fields_are_shown_when_asked_for(terminal: Terminal) -> None:
    await terminal.app.push_screen(FormScreen(terminal.app.app_context, operation_of("audit")))
    await terminal.press("ctrl+s")
    assert "Hash" not in terminal.text
    await terminal.press("w")
    screen = terminal.app.screen
    assert isinstance(screen, ResultScreen)
    assert screen._is_wide


@pytest.mark.slow
async def test_long_work_says_how_far_it_is(terminal: Terminal) -> None:
    form = FormScreen(terminal.app.app_context, operation_of("audit"))
    await terminal.app.push_screen(form)
    await terminal.rest()
    await form._report(3, 7, "reading the audit log")
    await terminal.rest()
    assert "reading the audit log: 3 of 7" in terminal.text
