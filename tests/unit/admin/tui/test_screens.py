"""The screens as they are, character by character: tests/snapshots/tui/. UPDATE_SNAPSHOTS=1 writes them anew."""

import os
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from danube.admin.operations import operation_of
from danube.admin.tui.screens.form import FormScreen
from danube.model.errors import BrokerUnreachableError
from tests.faces.memory_gateway import ANY_CALL
from tests.unit.admin.tui.conftest import Open, Terminal

pytestmark = pytest.mark.slow  # together they take long

FOLDER = Path(__file__).parents[3] / "snapshots" / "tui"
Scene = Callable[[Terminal], Coroutine[None, None, None]]


def keys(*pressed: str) -> Scene:
    """A scene that some keys lead to."""

    async def scene(terminal: Terminal) -> None:
        await terminal.press(*pressed)

    return scene


async def topic(terminal: Terminal) -> None:
    await terminal.press("down", "enter")
    for position in (3, 4, 2, 3):
        terminal.gateway.cluster.topics["/default/orders"].subscriptions["billing"].position = position
        await terminal.look()


async def audit(terminal: Terminal) -> None:
    for name in ("describe_topic", "delete_topic"):
        await terminal.app.push_screen(
            FormScreen(terminal.app.app_context, operation_of(name), {"topic": "/default/orders"})
        )
        await terminal.press("ctrl+s")
        await terminal.app.workers.wait_for_complete()
        await terminal.press("escape", "escape")
    await terminal.press("4")


async def form(terminal: Terminal) -> None:
    await terminal.app.push_screen(FormScreen(terminal.app.app_context, operation_of("create_topic")))
    await terminal.press("ctrl+s")


async def result(terminal: Terminal) -> None:
    await terminal.app.push_screen(FormScreen(terminal.app.app_context, operation_of("health_check")))
    await terminal.press("enter")


async def unreachable(terminal: Terminal) -> None:
    terminal.gateway.failures[ANY_CALL] = BrokerUnreachableError("nobody listens at broker-1:50051: start a broker")
    await terminal.look(passed_s=90)


SCENES: dict[str, Scene] = {
    "topics": keys(),
    "brokers": keys("2"),
    "plans": keys("3"),
    "audit": audit,
    "plan": keys("3", "a"),
    "topic": topic,
    "unfolded": keys("enter"),
    "lag": keys("5"),
    "lag-group": keys("down", "l", "enter"),
    "members": keys("6"),
    "messages": keys("down", "m"),
    "message": keys("down", "m", "enter"),
    "connections": keys("down", "c"),
    "acts": keys("down", "enter", "o"),
    "form": form,
    "result": result,
    "help": keys("question_mark"),
    "unreachable": unreachable,
}


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 36)], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", SCENES)
async def test_the_screen_is_what_it_was(name: str, size: tuple[int, int], open_terminal: Open) -> None:
    async with open_terminal(size=size) as terminal:
        await SCENES[name](terminal)
        drawn = terminal.text + "\n"
    file = FOLDER / f"{name}-{size[0]}x{size[1]}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        file.write_text(drawn, encoding="utf-8")
    assert drawn == file.read_text(encoding="utf-8")
