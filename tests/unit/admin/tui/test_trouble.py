"""Brokers that are slow or dead, names that attack, terminals without colour: the screen stays calm and says so."""

import asyncio

import pytest
from textual.widgets import Input

from danube.admin.operations import operation_of
from danube.admin.tui.screens.form import FormScreen
from danube.admin.tui.screens.help import HelpScreen
from danube.admin.tui.screens.result import ResultScreen
from danube.admin.tui.screens.topic import TopicScreen
from danube.model.errors import BrokerUnreachableError
from danube.testing.patience import PATIENCE_S
from tests.faces.memory_gateway import ANY_CALL, HOSTILE, MemoryGateway
from tests.unit.admin.tui.conftest import Open, Terminal

pytestmark = pytest.mark.slow  # together they take long

DEAD = BrokerUnreachableError("nobody listens at broker-1:50051: start a broker")


async def lost(terminal: Terminal) -> None:
    """Wait until the broker counts as lost."""
    async with asyncio.timeout(PATIENCE_S):
        while terminal.app.app_context.watch.unreachable_since_ms is None:
            await terminal.pilot.pause()
    await terminal.pilot.pause()


async def test_keys_answer_while_a_broker_does_not(terminal: Terminal) -> None:
    terminal.gateway.held = asyncio.Event()
    terminal.app.action_refresh()
    await asyncio.wait_for(terminal.gateway.waiting.wait(), PATIENCE_S)
    await terminal.press("2")
    assert "[2 Brokers 1]" in terminal.text
    await terminal.press("question_mark")
    assert isinstance(terminal.app.screen, HelpScreen)
    terminal.gateway.held.set()


@pytest.mark.slow
async def test_a_broker_that_is_silent_at_the_start_does_not_hold_the_first_screen(
    open_terminal: Open, gateway: MemoryGateway
) -> None:
    gateway.held = asyncio.Event()
    async with open_terminal() as terminal:
        assert "connecting ..." in terminal.text
        await terminal.press("4")
        assert "[4 Audit]" in terminal.text
        gateway.held.set()


async def test_a_silent_broker_is_given_up_after_the_timeout_and_its_data_stays(terminal: Terminal) -> None:
    terminal.app.app_context.watch._timeout_s = 0.05
    terminal.gateway.held = asyncio.Event()
    terminal.app.action_refresh()
    await lost(terminal)
    assert "NOT REACHABLE since 15:06:40Z (0 s) · shown is 0 s old · trying again" in terminal.flat
    assert "it did not answer within 0.05 s" in terminal.flat
    assert "/default/orders" in terminal.text


async def test_a_round_that_outlives_the_last_screen_draws_nothing(open_terminal: Open) -> None:
    async with open_terminal() as terminal:
        await terminal.app._close_all()  # as at the end: screens go first, and what runs in the background after them
        await terminal.app._round()
        terminal.app.draw()
        terminal.app._tick()


async def test_a_dead_broker_is_said_with_the_age_of_what_is_shown(terminal: Terminal) -> None:
    terminal.gateway.failures[ANY_CALL] = DEAD
    await terminal.look(passed_s=30)
    terminal.clock.advance(45)
    terminal.app.draw()
    await terminal.rest()
    assert "NOT REACHABLE since 15:07:10Z (45 s) · shown is 1 m 15 s old · trying again" in terminal.flat
    assert "/default/orders" in terminal.text


@pytest.mark.slow
async def test_a_broker_that_is_dead_at_the_start_is_said_too(open_terminal: Open, gateway: MemoryGateway) -> None:
    gateway.failures[ANY_CALL] = DEAD
    async with open_terminal() as terminal:
        assert "NOT REACHABLE since 15:06:40Z (0 s) · nothing was read yet" in terminal.flat
        assert "nobody listens at broker-1:50051: start a broker" in terminal.flat


async def test_a_broker_that_comes_back_is_shown_without_a_key(terminal: Terminal) -> None:
    terminal.gateway.failures[ANY_CALL] = DEAD
    await terminal.look()
    terminal.gateway.failures.clear()
    terminal.clock.advance(2)
    terminal.app._tick()
    await terminal.rest()
    assert "health OK" in terminal.text


@pytest.mark.slow
async def test_a_call_to_a_dead_broker_ends_in_a_sentence(terminal: Terminal) -> None:
    terminal.gateway.failures[ANY_CALL] = DEAD
    form = FormScreen(terminal.app.app_context, operation_of("create_namespace"), {"namespace": "a"})
    await terminal.app.push_screen(form)
    await terminal.press("ctrl+s")
    assert isinstance(terminal.app.screen, ResultScreen)
    assert "nobody listens at broker-1:50051" in terminal.text
    assert "The same call may succeed later." in terminal.text


async def test_a_call_that_hangs_can_be_given_up_and_says_what_that_means(terminal: Terminal) -> None:
    form = FormScreen(terminal.app.app_context, operation_of("create_namespace"), {"namespace": "a"})
    await terminal.app.push_screen(form)
    await terminal.rest()
    terminal.gateway.held = asyncio.Event()
    await terminal.press("ctrl+s")
    assert "Working ... Esc gives up." in terminal.text
    await terminal.press("escape")
    assert "Given up: whether it was carried out is not known here." in terminal.text
    terminal.gateway.held.set()


@pytest.mark.slow
async def test_a_form_is_sent_off_once_however_often_enter_is_pressed(terminal: Terminal) -> None:
    form = FormScreen(terminal.app.app_context, operation_of("create_namespace"), {"namespace": "a"})
    await terminal.app.push_screen(form)
    await terminal.rest()
    held = terminal.gateway.held = asyncio.Event()
    await terminal.press("ctrl+s", "ctrl+s", "ctrl+s")
    held.set()
    terminal.gateway.held = None
    await terminal.app.workers.wait_for_complete()
    assert [record.sequence for record in terminal.gateway.audit_records] == [0, 1]


def obeyed(text: str) -> list[str]:
    """What of the hostile name reached the screen as it is."""
    return [repr(each) for each in ("\x1b", "\u202e", "\x00", "\r") if each in text]


async def test_hostile_names_are_shown_and_obeyed_on_no_list(terminal: Terminal) -> None:
    terminal.gateway.serve_hostile_names()
    await terminal.look()
    for key in ("1", "2", "3", "4"):
        await terminal.press(key)
        assert obeyed(terminal.text) == []
    await terminal.press("1")
    assert "/default/\\x1b[31mred" in terminal.text


@pytest.mark.slow
async def test_a_topic_with_a_hostile_name_can_be_opened_and_obeys_nothing(terminal: Terminal) -> None:
    terminal.gateway.serve_hostile_names()
    await terminal.look()
    names = sorted(line.name for line in terminal.app.app_context.watch.topics.lines)
    assert names[0] == f"/default/{HOSTILE}"  # so partitions that are folded do not count
    await terminal.press("home", "enter")
    assert isinstance(terminal.app.screen, TopicScreen)
    assert "[bold]<script>" in terminal.text
    assert obeyed(terminal.text) == []


@pytest.mark.slow
async def test_markup_in_an_error_is_text(terminal: Terminal) -> None:
    terminal.gateway.failures["audit"] = BrokerUnreachableError(f"[red]{HOSTILE}[/red] [@click=app.quit]quit[/]")
    await terminal.press("4")
    assert "[red]\\x1b[31mred" in terminal.text
    assert obeyed(terminal.text) == []


@pytest.mark.slow
async def test_a_hostile_name_in_a_field_obeys_nothing(terminal: Terminal) -> None:
    form = FormScreen(terminal.app.app_context, operation_of("describe_topic"), {"topic": f"/default/{HOSTILE}"})
    await terminal.app.push_screen(form)
    await terminal.rest()
    assert "\\x1b[31mred" in terminal.text
    assert obeyed(terminal.text) == []


@pytest.mark.slow
async def test_names_that_do_not_print_are_not_offered_for_completion(terminal: Terminal) -> None:
    terminal.gateway.serve_hostile_names()
    await terminal.look()
    form = FormScreen(terminal.app.app_context, operation_of("describe_topic"))
    await terminal.app.push_screen(form)
    form.query_one("FieldEditor Input", Input).value = "/default/\x1b"
    await terminal.rest()
    assert obeyed(terminal.text) == []


@pytest.mark.slow
async def test_without_colour_the_same_words_stand_on_the_screen(
    open_terminal: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_terminal() as coloured:
        expected = coloured.text
    monkeypatch.setenv("NO_COLOR", "1")
    async with open_terminal() as terminal:
        assert terminal.app.no_color
        assert terminal.text == expected
        svg = terminal.app.export_screenshot()
        colours = {each for each in svg.split('"') if each.startswith("#") and len(each) == 7}
        assert all(each[1:3] == each[3:5] == each[5:7] for each in colours if each not in CHROME)


CHROME = {"#ff5f57", "#febc2e", "#28c840", "#292929", "#c5c8c6"}
"""Of the window that the picture is drawn in."""
