"""Lists beside the first ones, and screens of one topic: lag, members, messages, clients; what is not read yet."""

import asyncio

import pytest

from danube.admin.operations import operation_of
from danube.admin.operations.cluster.members import MemberRow
from danube.admin.tui.data.topic_rows import TopicRow, folded
from danube.admin.tui.palette import acts_for
from danube.admin.tui.screens.connections import ConnectionsScreen
from danube.admin.tui.screens.form import FormScreen
from danube.admin.tui.screens.messages import MessagesScreen
from danube.admin.tui.screens.panes import member_cells
from danube.model.topic import DispatchStrategy, TopicName
from tests.unit.admin.tui.conftest import Open, Terminal

pytestmark = pytest.mark.slow  # together they take long


async def test_the_lag_of_all_groups_comes_with_status_and_cause_and_opens_from_its_row(terminal: Terminal) -> None:
    await terminal.press("5")
    audit = next(line for line in terminal.text.splitlines() if " audit " in line)
    assert "UNKNOWN" in audit
    assert "nobody reads" in audit
    await terminal.press("enter", "end")
    assert "Evidence:" in terminal.text


async def test_the_lag_of_a_topic_opens_from_its_row(terminal: Terminal) -> None:
    await terminal.press("down", "l")
    assert terminal.framed.selection() == {"topic": "/default/orders", "subscription": "audit"}
    await terminal.press("1", "end", "l")
    assert "no group fits the filter" in terminal.text


async def test_messages_are_browsed_a_page_at_a_time_and_opened_whole(terminal: Terminal) -> None:
    terminal.gateway.cluster.topics["/default/orders"].messages = 70
    await terminal.press("down", "m")
    assert isinstance(terminal.app.screen, MessagesScreen)
    await terminal.app.workers.wait_for_complete()
    await terminal.rest()
    assert "20 to 69, the newest · offsets 0 to 70 are kept" in terminal.flat
    await terminal.press("b")
    await terminal.app.workers.wait_for_complete()
    await terminal.rest()
    assert "0 to 49 · offsets 0 to 70 are kept" in terminal.flat
    await terminal.press("enter")
    await terminal.app.workers.wait_for_complete()
    await terminal.rest()
    assert "an order of 20 bytes" in terminal.text
    assert "Producer name" in terminal.text


async def test_the_clients_of_a_topic_are_listed_and_one_can_be_disconnected(terminal: Terminal) -> None:
    await terminal.press("down", "c")
    assert isinstance(terminal.app.screen, ConnectionsScreen)
    assert "billing-1" in terminal.text
    assert "orders-1" in terminal.text
    await terminal.press("enter")
    assert isinstance(terminal.app.screen, FormScreen)
    assert terminal.app.screen.operation is operation_of("disconnect_client")
    await terminal.press("escape", "escape")
    assert terminal.app.app_context.watch.opened is None


async def test_members_of_a_broker_that_stands_alone_are_told_as_such(terminal: Terminal) -> None:
    await terminal.press("6")
    assert "this broker stands alone" in terminal.text


def test_a_member_that_is_not_connected_is_marked_in_a_word() -> None:
    row = MemberRow(node_id="7", broker_id="7", address="b:1", role="voter", connected=False, lag=3)
    assert (member_cells(row).texts, member_cells(row).tone) == (("7", "7", "voter", "no", "3", "b:1"), "error")


async def test_what_is_not_read_yet_is_not_none(open_terminal: Open) -> None:
    async with open_terminal() as terminal:
        terminal.gateway.held = asyncio.Event()
        for key in ("4", "5", "6"):
            await terminal.press(key)
            assert "reading ..." in terminal.text
            assert "no calls were recorded yet" not in terminal.text
            assert "stands alone" not in terminal.text
        terminal.gateway.held.set()


async def test_a_check_box_shows_without_colour_whether_it_is_ticked(terminal: Terminal) -> None:
    await terminal.app.push_screen(FormScreen(terminal.app.app_context, operation_of("set_topic_retention")))
    await terminal.rest()
    await terminal.press("end")
    boxes = terminal.app.screen.query("TickBox")
    before = [str(box.render()) for box in boxes]
    for box in boxes:
        box.value = True  # type: ignore[attr-defined]
    assert before
    assert all("[ ]" in text for text in before)
    assert all("[x]" in str(box.render()) for box in boxes)


def test_operations_of_a_subscription_come_first_and_what_destroys_last_of_them() -> None:
    found = acts_for({"topic": "/default/orders", "subscription": "billing"})
    of_both = [operation.name for operation, initial in found if len(initial) == 2]
    assert [operation.name for operation, _ in found][: len(of_both)] == of_both
    assert of_both.index("retry_blocked") < of_both.index("seek_subscription") < of_both.index("skip_messages")
    initial = next(initial for operation, initial in found if operation.name == "set_subscription_failure_policy")
    assert initial == {"topic": "/default/orders", "subscription": "billing"}


def test_partitions_of_a_topic_are_one_row_that_unfolds() -> None:
    base = TopicName("default", "events")
    lines = [row(base.partition(index), lag=index, broker_id=str(index)) for index in range(3)]
    (folded_row,) = folded([*lines], set())
    assert (folded_row[0].name, folded_row[0].partitions, folded_row[0].lag) == ("/default/events", 3, 3)
    assert folded_row[0].broker_id == "on 3 brokers"
    unfolded = folded([*lines], {"/default/events"})
    assert [(line.name, is_below) for line, is_below in unfolded[1:]] == [(line.name, True) for line in lines]


def row(topic: TopicName, *, lag: int, broker_id: str) -> TopicRow:
    reliable, base = DispatchStrategy.RELIABLE, topic.base_by_form
    return TopicRow(topic=topic, name=str(topic), strategy=reliable, broker_id=broker_id, lags={"s": lag}, base=base)
