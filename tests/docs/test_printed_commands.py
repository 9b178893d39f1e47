"""Commands that messages tell people to type can be typed as they stand: they exist, with their options, complete."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer._click.exceptions import UsageError

from danube.admin.__main__ import app
from danube.metadata.raft.bootstrap import add_command, remove_command
from tests.faces.memory_gateway import MemoryGateway, connect_to

ROOT = Path(__file__).parents[2]
ANYTHING = "7"
"""Stands for what a message fills in."""
FILLED_IN = {
    "--access 7": "--access read",
    "--approval 7": "--approval none",
    "%s": "/default/orders -s 'billing and more'",  # in a line of the log
}
MENTIONED = {"danube-admin 7", "danube-admin plans approve"}
"""Named for what they are, where there is nothing to fill in."""


@pytest.fixture(scope="module")
def printed() -> set[str]:
    """All of them, from the texts of the package."""
    return {*_printed()} - MENTIONED


def _printed() -> Iterator[str]:
    for path in sorted((ROOT / "danube").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if node not in docstrings:
                yield from re.findall(r"`(danube-admin [a-z0-9-][^`]*)`", _text(node))


def _named() -> Iterator[tuple[str, str]]:
    """The first two words of every command that a text names, whether it is to be typed as it stands or not."""
    for path in (each for package in ("danube", "spark_analytics") for each in (ROOT / package).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            yield from re.findall(r"danube-admin ([a-z][a-z-]*) ([a-z][a-z-]*)", _text(node))


def _text(node: ast.AST) -> str:
    match node:
        case ast.JoinedStr():
            return "".join(str(one.value) if isinstance(one, ast.Constant) else ANYTHING for one in node.values)
        case ast.Constant(value=str()):
            return str(node.value)
    return ""


def typed(command: str) -> None:
    """Parse a command as the program does, and run nothing. Raises UsageError for one that it would not take."""
    for text, value in FILLED_IN.items():
        command = command.replace(text, value)
    _, *words = shlex.split(command)
    if words[-1] == "--help":
        return
    found: Any = typer.main.get_command(app(connect_to(MemoryGateway())))
    context = found.make_context("danube-admin", words)
    while isinstance(found, typer.core.TyperGroup):
        name, found, words = found.resolve_command(context, [*context._protected_args, *context.args])
        context = found.make_context(name, words, parent=context)


def test_a_printed_command_can_be_typed(printed: set[str], subtests: pytest.Subtests) -> None:
    for command in sorted(printed):
        with subtests.test(command):
            typed(command)


def test_every_command_that_a_text_names_exists() -> None:
    whole: Any = typer.main.get_command(app(connect_to(MemoryGateway())))
    groups = {
        name: {*each.commands} for name, each in whole.commands.items() if isinstance(each, typer.core.TyperGroup)
    }
    named = {*_named()}
    assert ("brokers", "rebalance") in named
    assert {pair for pair in named if pair[0] in groups and pair[1] not in groups[pair[0]]} == set()


def test_commands_are_found_and_wrong_ones_are_noticed(printed: set[str]) -> None:
    assert "danube-admin plans approve 7" in printed
    for wrong in ("danube-admin cluster add-node 10.0.0.1:7650", "danube-admin cluster promote-node"):
        with pytest.raises(UsageError):
            typed(wrong)


def test_members_are_changed_by_commands_that_name_everything() -> None:
    adding = add_command("10.0.0.2:7650", "10.0.0.4:7650")
    assert adding == "danube-admin --endpoint http://10.0.0.2:50051 cluster add-node --node-addr 10.0.0.4:7650"
    typed(adding)
    typed(add_command("[::1]:7650", "[::1]:7651"))
    typed(remove_command("10.0.0.2:7650", 17))
