"""The pages for hosts: each snippet is valid, and its command is one that we have."""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from danube.admin.__main__ import app
from tests.faces.memory_gateway import connect_to
from tests.faces.seeded import seeded_gateway

PAGES = sorted((Path(__file__).parents[4] / "docs" / "mcp").glob("*.md"))
PARSERS = {"json": json.loads, "toml": tomllib.loads}


def snippets() -> Iterator[tuple[str, dict[str, Any]]]:
    for page in PAGES:
        for kind, text in re.findall(r"^```(json|toml)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            yield page.name, PARSERS[kind](text)


def servers(settings: dict[str, Any]) -> list[dict[str, Any]]:
    tables = (settings.get(key, {}) for key in ("mcpServers", "servers", "mcp_servers"))
    return [server for table in tables for server in table.values()] or [settings]


SNIPPETS = list(snippets())


def test_every_page_has_a_snippet_and_the_readme_names_every_page() -> None:
    named = set(re.findall(r"\(([\w-]+\.md)\)", (PAGES[0].parent / "README.md").read_text()))
    pages = {page.name for page in PAGES} - {"README.md"}
    assert named == pages
    assert {name for name, _ in SNIPPETS} == pages


@pytest.mark.parametrize(("page", "settings"), SNIPPETS)
def test_a_snippet_starts_our_command_or_names_an_address(page: str, settings: dict[str, Any]) -> None:
    for server in servers(settings):
        address = server.get("url") or server.get("server_url")
        assert (server.get("command") == "danube-admin") != bool(address)
        assert address is None or address.endswith("/mcp")


@pytest.mark.parametrize(
    "arguments", [server["args"] for _, settings in SNIPPETS for server in servers(settings) if "args" in server]
)
def test_every_flag_of_a_snippet_exists(arguments: list[str]) -> None:
    shown = CliRunner().invoke(app(connect_to(seeded_gateway())), [arguments[0], "--help"]).output
    assert [each for each in arguments if each.startswith("--") and each not in shown] == []
