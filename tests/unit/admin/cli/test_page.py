"""The page about the command line: its commands work, and its table has every exit code."""

import re
import shlex
from pathlib import Path

import pytest

from danube.model.exit_codes import ExitCode
from tests.unit.admin.cli.conftest import Admin

PAGE = (Path(__file__).parents[4] / "docs" / "danube-admin.md").read_text()
SHOWN = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL) for line in block.splitlines()]


@pytest.mark.parametrize("line", SHOWN)
def test_a_command_of_the_page_works(line: str, admin: Admin) -> None:
    admin("contexts", "set", "staging", "--endpoint", "staging:50051")
    words = shlex.split(line)[1:]
    if words[:2] == ["topics", "create"]:
        words = [word.replace("orders", "other") for word in words]
    ended = admin(*words)
    planned = 0 if {"--yes", "--dry-run"} & {*words} else 3
    expected = {"delete": planned, "unload": planned, "activate": planned, "approve": 6}.get(words[1], 0)
    if "--query" in words:  # of a Prometheus, which is not there
        expected = 6
    assert ended.code == expected, ended.error


def test_the_page_has_every_exit_code() -> None:
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, flags=re.MULTILINE)] == sorted(ExitCode)
