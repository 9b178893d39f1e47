"""One topic: its subscriptions, and their lag over time."""

import pytest

from danube.admin.tui.screens.topic import TopicScreen
from danube.model.calls.admin import TopicState
from danube.model.ownership import OwnershipState
from tests.unit.admin.tui.conftest import Terminal

pytestmark = pytest.mark.slow  # together they take long


async def open_orders(terminal: Terminal) -> None:
    await terminal.press("down", "enter")
    assert isinstance(terminal.app.screen, TopicScreen)


async def test_a_topic_shows_its_numbers_and_subscriptions(terminal: Terminal) -> None:
    await open_orders(terminal)
    assert "Reliable · broker 1 · offsets 0 to 5 · 100 B · producers 1" in terminal.text
    billing = next(line for line in terminal.text.splitlines() if "billing" in line).split()
    assert billing[1:4] == ["billing", "Exclusive", "3"]


async def test_blocked_subscription_is_called_so(terminal: Terminal) -> None:
    await open_orders(terminal)
    terminal.gateway.cluster.topics["/default/orders"].subscriptions["billing"].is_blocked = True
    await terminal.look()
    billing = next(line for line in terminal.text.splitlines() if "billing" in line)
    assert "blocked" in billing


async def test_the_lag_of_a_subscription_is_kept_over_looks(terminal: Terminal) -> None:
    await open_orders(terminal)
    subscription = terminal.gateway.cluster.topics["/default/orders"].subscriptions["billing"]
    for position in (3, 4, 5):
        subscription.position = position
        await terminal.look()
    assert terminal.app.app_context.watch.lags.points("/default/orders", "billing")[-4:] == (3, 2, 1, 0)
    billing = next(line for line in terminal.text.splitlines() if "billing" in line)
    assert "█▆▃▁" in billing
    assert "shrinking" in billing


@pytest.mark.slow
async def test_escape_leads_back_to_the_same_row_and_the_topic_is_asked_for_no_more(terminal: Terminal) -> None:
    await open_orders(terminal)
    await terminal.press("escape")
    assert terminal.framed.selection() == {"topic": "/default/orders"}
    assert terminal.app.app_context.watch.opened is None


@pytest.mark.slow
async def test_what_the_cursor_is_on_fills_topic_and_subscription(terminal: Terminal) -> None:
    await open_orders(terminal)
    await terminal.press("end")
    assert terminal.framed.selection() == {"topic": "/default/orders", "subscription": "billing"}


@pytest.mark.slow
async def test_the_original_broker_tells_the_names_alone(terminal: Terminal) -> None:
    terminal.gateway.is_original = True
    await terminal.look()
    await open_orders(terminal)
    assert "This broker tells the names of subscriptions, and not their lag." in terminal.text
    assert "billing" in terminal.text


@pytest.mark.slow
async def test_a_topic_that_goes_while_it_is_open_says_so(terminal: Terminal) -> None:
    await open_orders(terminal)
    del terminal.gateway.cluster.topics["/default/orders"]
    await terminal.look()
    assert "there is no topic" in terminal.text


async def test_a_topic_that_nobody_serves_says_why(terminal: Terminal) -> None:
    await open_orders(terminal)
    reason = "waits for broker 7: start that broker"
    terminal.gateway.cluster.topics["/default/orders"].state = TopicState(state=OwnershipState.WAITING, reason=reason)
    await terminal.look()
    assert f"Reliable · nobody serves it: it {reason}" in terminal.flat


async def test_a_topic_on_the_move_says_where_to_and_how_far(terminal: Terminal) -> None:
    await open_orders(terminal)
    terminal.gateway.cluster.topics["/default/orders"].state = TopicState(
        state=OwnershipState.MOVING, target_broker_id="8", copied_bytes=10, log_bytes=40
    )
    await terminal.look()
    assert "broker 1 · moves to broker 8, 10 B of 40 B copied · offsets 0 to 5" in terminal.flat
