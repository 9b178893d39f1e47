"""The lists: what they show, where Enter leads, and how they are filtered and sorted."""

import pytest

from danube.admin.access import AccessLevel
from danube.model.errors import UnsupportedError
from danube.model.topic import DispatchStrategy, TopicName
from tests.unit.admin.tui.conftest import Open, Terminal

pytestmark = pytest.mark.slow  # together they take long


async def test_the_first_screen_lists_topics_with_their_lag(terminal: Terminal) -> None:
    orders = next(line for line in terminal.text.splitlines() if "/default/orders" in line)
    assert orders.split()[1:-1] == ["/default/orders", "Reliable", "2", "5", "-"]


@pytest.mark.slow
async def test_context_endpoint_and_level_are_always_in_words(terminal: Terminal) -> None:
    for keys in ((), ("4",), ("question_mark",)):
        await terminal.press(*keys)
        assert "prod · https://broker-1:50051" in terminal.text
        assert "access destroy: may do everything, deletes too" in terminal.text


async def test_health_stands_on_top_with_the_age_of_what_is_shown(terminal: Terminal) -> None:
    assert "health OK · brokers 1 active · read 0 s ago, every 2 s" in terminal.text


@pytest.mark.slow
async def test_a_stopped_journal_is_told_in_the_health_line(terminal: Terminal) -> None:
    terminal.gateway.stopped_reason = "the disk is full"
    await terminal.look()
    assert "health CRITICAL" in terminal.text
    assert "the disk is full" in terminal.text


@pytest.mark.slow
async def test_the_lists_open_by_their_numbers(terminal: Terminal) -> None:
    await terminal.press("2")
    assert "http://127.0.0.1:6650" in terminal.text
    await terminal.press("3")
    assert "plan-seeded" in terminal.text
    await terminal.press("4")
    assert "chain intact: 0 of 0 records" in terminal.text


@pytest.mark.slow
async def test_plans_that_wait_are_counted_on_every_list(terminal: Terminal) -> None:
    assert "3 Plans (1 waiting)" in terminal.text


async def test_a_filter_shows_the_topics_that_have_all_its_words(terminal: Terminal) -> None:
    await terminal.press("slash", *"ev 2", "enter")
    assert "1 of 5 fit the filter" in terminal.text
    assert "/default/events-part-2" in terminal.text
    assert "/default/orders" not in terminal.text
    await terminal.press("escape")
    assert "/default/orders" in terminal.text


async def test_sorting_by_lag_puts_the_largest_first(terminal: Terminal) -> None:
    await terminal.press("s")
    rows = [line for line in terminal.text.splitlines() if "/default/" in line]
    assert "Lag▾" in terminal.text
    assert "/default/orders" in rows[0]


@pytest.mark.slow
async def test_enter_on_a_broker_shows_its_topics(terminal: Terminal) -> None:
    await terminal.press("2", "enter")
    assert "5 of 5 fit the filter" in terminal.text


async def test_a_topic_that_went_is_gone_after_the_next_look(terminal: Terminal) -> None:
    del terminal.gateway.cluster.topics["/default/ticks"]
    await terminal.look()
    assert "/default/ticks" not in terminal.text


@pytest.mark.slow
async def test_the_cursor_stays_on_its_topic_when_others_come(terminal: Terminal) -> None:
    await terminal.press("end")
    terminal.gateway.cluster.add_topic(TopicName("default", "aaa"), DispatchStrategy.RELIABLE)
    await terminal.look()
    assert terminal.framed.selection() == {"topic": "/default/ticks"}


@pytest.mark.slow
async def test_rates_come_with_the_second_look(terminal: Terminal) -> None:
    terminal.gateway.cluster.topics["/default/orders"].messages += 30
    await terminal.look(passed_s=2)
    orders = next(line for line in terminal.text.splitlines() if "/default/orders" in line)
    assert "15.0" in orders


async def test_paused_it_does_not_look_and_says_so(terminal: Terminal) -> None:
    await terminal.press("p")
    before = len(terminal.gateway.calls)
    terminal.clock.advance(60)
    terminal.app._tick()
    await terminal.rest()
    assert len(terminal.gateway.calls) == before
    assert "read 1 m ago, paused" in terminal.text


@pytest.mark.slow
async def test_it_looks_again_by_itself_after_the_set_time(terminal: Terminal) -> None:
    before = len(terminal.gateway.calls)
    terminal.clock.advance(2)
    terminal.app._tick()
    await terminal.rest()
    assert len(terminal.gateway.calls) > before


@pytest.mark.slow
async def test_the_pace_can_be_set_while_it_runs_within_bounds(terminal: Terminal) -> None:
    await terminal.press("minus")
    assert "every 4 s" in terminal.text
    for _ in range(9):
        terminal.app.action_pace(0.5)
    assert terminal.app.app_context.refresh_s == 0.5


async def test_the_original_broker_is_listed_without_lag_and_it_says_so(terminal: Terminal) -> None:
    terminal.gateway.is_original = True
    await terminal.look()
    assert "/default/orders" in terminal.text
    assert "this broker does not tell lag and rates" in terminal.text


@pytest.mark.slow
async def test_a_list_that_the_broker_refuses_says_why_and_the_others_go_on(terminal: Terminal) -> None:
    terminal.gateway.failures["audit"] = UnsupportedError("there is no audit log here")
    await terminal.press("4")
    assert "there is no audit log here" in terminal.text
    await terminal.press("2")
    assert "active" in terminal.text


async def test_looking_writes_nothing_into_the_audit_log(terminal: Terminal) -> None:
    await terminal.press("2", "3", "4")
    await terminal.look()
    assert terminal.gateway.audit_records == []


@pytest.mark.slow
async def test_every_level_has_a_border_of_its_own_and_words(open_terminal: Open) -> None:
    async with open_terminal(level=AccessLevel.READ) as terminal:
        assert "access read: looks, changes nothing" in terminal.text
        assert terminal.framed.query_one("#frame").has_class("level-read")
