"""The commands beside the operations: contexts, explain, spec."""

import json
from pathlib import Path

import pytest

from danube.admin.operations import REGISTRY
from tests.unit.admin.cli.conftest import Admin


@pytest.fixture
def two(admin: Admin) -> Admin:
    """Two contexts, of which `lab` is in use."""
    admin("contexts", "set", "lab", "--endpoint", "lab:50051")
    admin("contexts", "set", "live", "--endpoint", "https://live:50051", "--access", "read")
    return admin


def test_the_first_context_is_used_from_then_on(two: Admin) -> None:
    rows = json.loads(two("contexts", "list", "-o", "json").out)
    assert [(row["name"], row["current"], row["access"]) for row in rows] == [
        ("lab", True, None),
        ("live", False, "read"),
    ]


def test_another_one_is_used_once_it_is_chosen(two: Admin) -> None:
    assert two("topics", "create", "/default/a").code == 0
    assert two("contexts", "use", "live").code == 0
    assert two("topics", "create", "/default/b").code == 6
    assert two("topics", "create", "/default/b", "--context", "lab").code == 0


def test_a_context_is_shown_changed_and_forgotten(two: Admin) -> None:
    two("contexts", "set", "live", "--token-env", "LIVE_TOKEN", "--unset", "access")
    shown = json.loads(two("contexts", "show", "live", "-o", "json").out)
    assert (shown["endpoint"], shown["token_env"], "access" in shown) == ("https://live:50051", "LIVE_TOKEN", False)
    assert two("contexts", "remove", "live").code == 0
    assert two("contexts", "show", "live").code == 4


def test_the_file_of_contexts_can_be_another(admin: Admin, tmp_path: Path) -> None:
    file = str(tmp_path / "mine.yaml")
    admin("contexts", "set", "mine", "--endpoint", "x:1", "--config-file", file)
    assert admin("contexts", "list").out == ""
    assert "mine" in admin("--config-file", file, "contexts", "list").out


@pytest.mark.parametrize("words", [["--unset", "nothing"], ["--access", "all"], ["--endpoint", "no scheme://"], []])
def test_a_wrong_context_is_refused(words: list[str], admin: Admin) -> None:
    ended = admin("contexts", "set", "lab", *words)
    assert (ended.code, ended.out, ended.error.count("\n")) == (2, "", 1)


def test_explain_lists_every_operation_and_what_is_allowed(admin: Admin) -> None:
    rows = json.loads(admin("explain", "--access", "write", "-o", "json").out)
    assert {row["operation"]: row["allowed"] for row in rows} == {
        each.name: "no" if each.level == "destroy" else "yes" for each in REGISTRY
    }


@pytest.mark.parametrize("words", [["topics", "delete"], ["delete_topic"], ["delete-topic"]])
def test_explain_says_why_an_operation_is_missing(words: list[str], admin: Admin) -> None:
    shown = admin("explain", *words, "--access", "read").out
    assert "Needs level: destroy" in shown
    assert "`--access destroy` allows it" in shown
    assert "waits for a person" in shown


def test_explain_says_how_assistants_get_what_is_in_another_toolset(admin: Admin) -> None:
    assert "`danube-admin mcp --toolsets default,messages`" in admin("explain", "topics", "peek").out
    assert "--toolsets" not in admin("explain", "topics", "delete").out


def test_explain_of_what_is_not_there_exits_4(admin: Admin) -> None:
    assert admin("explain", "topics", "eat").code == 4
