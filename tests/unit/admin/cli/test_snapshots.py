"""What people and programs see of the command line, as files: `tests/snapshots/`.

To accept a change, look at it and run

    ACCEPT_SNAPSHOTS=1 .venv/bin/pytest tests/unit/admin/cli/test_snapshots.py
"""

import json
import re
from pathlib import Path

import pytest

from danube.admin.operations import REGISTRY
from tests.unit.admin.cli.conftest import Admin
from tests.unit.admin.golden_json import check_golden, golden_json

SNAPSHOTS = Path(__file__).parents[3] / "snapshots"
GROUPS = sorted({operation.words[0] for operation in REGISTRY if len(operation.words) > 1} | {"contexts"})
SINGLE = sorted(
    {operation.words[0] for operation in REGISTRY if len(operation.words) == 1} | {"doctor", "explain", "spec"}
)


def test_the_first_page_is_as_it_was(admin: Admin) -> None:
    check("cli/danube-admin.txt", admin("--help").out)


@pytest.mark.parametrize("group", GROUPS)
def test_the_help_of_a_group_and_its_commands_is_as_it_was(group: str, admin: Admin) -> None:
    check(f"cli/{group}.txt", "\n----\n\n".join(pages_of(admin, group)))


@pytest.mark.parametrize("command", SINGLE)
def test_the_help_of_a_command_is_as_it_was(command: str, admin: Admin) -> None:
    check(f"cli/{command}.txt", admin(command, "--help").out)


def test_the_spec_is_as_it_was(admin: Admin) -> None:
    ended = admin("spec")
    check("admin_spec.json", f"{golden_json({**json.loads(ended.out), 'version': 'VERSION'})}\n")
    assert admin("spec").out == ended.out


def test_no_help_is_kept_of_what_is_gone() -> None:
    kept = {file.stem for file in (SNAPSHOTS / "cli").glob("*.txt")}
    assert kept == {*GROUPS, *SINGLE, "danube-admin"}


def pages_of(admin: Admin, *words: str) -> list[str]:
    """The help of a command, and of those within it."""
    page = admin(*words, "--help").out
    return [page, *(found for verb in verbs_of(page) for found in pages_of(admin, *words, verb))]


def verbs_of(page: str) -> list[str]:
    commands = page.partition("Commands:\n")[2].partition("\n\n")[0]
    return re.findall(r"^  ([\w-]+) ", commands, flags=re.MULTILINE)


def check(name: str, text: str) -> None:
    check_golden(SNAPSHOTS / name, text)
