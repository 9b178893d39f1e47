"""The screens of the schema registry: subjects, versions, and what changed between two of them."""

import os
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from danube.admin.tui.schemas.screens import SchemasScreen, SubjectScreen, VersionScreen
from danube.admin.tui.screens.workspace import Workspace
from danube.model.calls.schemas import RegisterVersion, SetMode
from danube.model.errors import BrokerUnreachableError
from danube.model.schema import CompatibilityMode, SchemaType
from tests.faces.memory_gateway import ANY_CALL
from tests.faces.memory_schemas import ORDER_1, SUBJECT
from tests.unit.admin.tui.conftest import Open, Terminal

FOLDER = Path(__file__).parents[3] / "snapshots" / "tui"
Scene = Callable[[Terminal], Coroutine[None, None, None]]


async def subjects(terminal: Terminal) -> None:
    """The subjects; the one that is seeded has a third version, which breaks readers."""
    await terminal.gateway.schema_mode(SetMode(subject=SUBJECT, mode=CompatibilityMode.NONE))
    broken = ORDER_1.replace("integer", "string").encode()
    wanted = RegisterVersion(subject=SUBJECT, type=SchemaType.JSON_SCHEMA, definition=broken, created_by="ann")
    await terminal.gateway.register_version(wanted)
    await terminal.press("v")
    assert isinstance(terminal.framed, SchemasScreen)


async def versions(terminal: Terminal) -> None:
    await subjects(terminal)
    await terminal.press("enter")
    assert isinstance(terminal.framed, SubjectScreen)


async def change(terminal: Terminal) -> None:
    await versions(terminal)
    await terminal.press("enter")
    assert isinstance(terminal.framed, VersionScreen)


SCENES: dict[str, Scene] = {"schemas": subjects, "subject": versions, "schema-change": change}


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", SCENES)
async def test_the_screen_is_what_it_was(name: str, size: tuple[int, int], open_terminal: Open) -> None:
    async with open_terminal(size=size) as terminal:
        await SCENES[name](terminal)
        drawn = terminal.text + "\n"
    file = FOLDER / f"{name}-{size[0]}x{size[1]}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        file.write_text(drawn, encoding="utf-8")
    assert drawn == file.read_text(encoding="utf-8")


async def test_a_change_is_read_with_its_verdict_and_compared_with_other_versions(open_terminal: Open) -> None:
    async with open_terminal(size=(120, 60)) as terminal:
        await change(terminal)
        assert "orders-value version 3 against 2" in terminal.flat
        assert "Consumers with the new definition fail on messages of version 2." in terminal.flat
        assert '- "type": "integer"' in terminal.flat
        await terminal.press("left_square_bracket")
        assert "version 3 against 1" in terminal.flat
        await terminal.press("left_square_bracket")
        assert "version 3 against 1" in terminal.flat
        await terminal.press("comma")
        assert "version 2 against 1" in terminal.flat
        assert '+ "note": {' in terminal.flat
        await terminal.press("2")
        assert '"note": {' in terminal.flat
        await terminal.press("comma")
        assert "orders-value version 1 [" in terminal.flat.replace("1 Change", "").replace("  ", " ")


async def test_each_screen_leads_back_to_the_one_before(terminal: Terminal) -> None:
    await change(terminal)
    for expected in (SubjectScreen, SchemasScreen, Workspace):
        await terminal.press("escape")
        assert isinstance(terminal.framed, expected)


async def test_an_unreachable_broker_keeps_what_was_read(terminal: Terminal) -> None:
    await versions(terminal)
    terminal.gateway.failures[ANY_CALL] = BrokerUnreachableError("no route")
    await terminal.press("enter")
    assert isinstance(terminal.framed, VersionScreen)
    await terminal.press("escape")
    assert SUBJECT in terminal.flat
