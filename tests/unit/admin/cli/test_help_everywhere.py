"""`-h` of every command of every program: it shows help, as `--help` does."""

from collections.abc import Iterator, Sequence

import pytest
from typer._click import Command, Context
from typer.core import TyperGroup
from typer.main import get_command

from danube.admin.__main__ import app as admin_app
from danube.broker.__main__ import app as broker_app
from danube.cli.__main__ import app as danube_app
from danube.runtime.clock import SystemClock
from spark_analytics.__main__ import app as analytics_app
from tests.faces.memory_gateway import connect_to
from tests.faces.seeded import seeded_gateway

PROGRAMS = {
    "danube": (danube_app, 5),
    "danube-admin": (admin_app(connect_to(seeded_gateway(SystemClock()))), 100),
    "danube-broker": (broker_app, 13),
    "danube-analytics": (analytics_app, 5),
}
"""Each with the number of commands that it has at least."""


def _walk(command: Command | None, words: Sequence[str] = ()) -> Iterator[tuple[str, ...]]:
    yield tuple(words)
    if isinstance(command, TyperGroup):
        context = Context(command)
        for name in command.list_commands(context):
            yield from _walk(command.get_command(context, name), [*words, name])


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_short_flag_for_help_works_on_every_command(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    app, count = PROGRAMS[program]
    root = get_command(app)
    lines = list(_walk(root))
    assert len(lines) >= count
    refused = {}
    for words in lines:
        with pytest.raises(SystemExit) as ended:
            root.main([*words, "-h"], prog_name=program)
        out, error = capsys.readouterr()
        if (ended.value.code or 0, out[:6]) != (0, "Usage:"):
            refused[" ".join(words)] = f"{ended.value.code} {error[:80]!r}"
    assert refused == {}
