"""Ten thousand topics: read in bounded pages, drawn a screen at a time."""

import asyncio

import pytest

from danube.admin.tui.screens.workspace import Workspace
from danube.model.limits.faces import TUI_PAGE_TOPICS, TUI_PAGES_A_ROUND
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.patience import PATIENCE_S
from tests.faces.memory_gateway import MemoryGateway
from tests.unit.admin.tui.conftest import Open

pytestmark = pytest.mark.slow  # together they take long

TOPICS = 10_000


@pytest.fixture
def large(gateway: MemoryGateway) -> MemoryGateway:
    for index in range(TOPICS):
        gateway.cluster.add_topic(TopicName("default", f"t{index:05}"), DispatchStrategy.RELIABLE)
    return gateway


@pytest.mark.slow
async def test_the_first_page_is_on_the_screen_before_the_others_are_read(
    open_terminal: Open, large: MemoryGateway
) -> None:
    async with open_terminal() as terminal:
        assert large.calls.count("describe_topics") <= TUI_PAGES_A_ROUND
        assert "/default/t00000" in terminal.text
        assert "4,000 read so far, reading on ..." in terminal.text


@pytest.mark.slow
async def test_all_are_read_in_a_few_rounds_and_can_be_filtered(open_terminal: Open, large: MemoryGateway) -> None:
    async with open_terminal(size=(100, 30)) as terminal, asyncio.timeout(PATIENCE_S):
        while not terminal.app.app_context.watch.topics.is_complete:
            await terminal.look()
        assert large.calls.count("describe_topics") == -(-len(large.cluster.topics) // TUI_PAGE_TOPICS)
        await terminal.press("slash", *"t0777", "enter")
        assert "10 of 10,005 fit the filter" in terminal.text
        await terminal.press("escape", "end")
        assert isinstance(terminal.app.screen, Workspace)
        assert terminal.framed.selection() == {"topic": "/default/ticks"}
