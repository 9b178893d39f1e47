"""`~` in paths: a home folder wherever a path is accepted."""

import ast
from pathlib import Path

import pytest

import danube
from danube.runtime.paths import expanded

ROOT = Path(danube.__file__).parents[1]
HELPER = "_path_option("
"""Makes the flags of the broker alike; one of them is tried in `tests/unit/broker/test_command_line.py`."""


@pytest.mark.parametrize(
    ("written", "meant"),
    [("~/data", "/abode/data"), ("~", "/abode"), ("a/~", "a/~"), ("~nobody-here/x", "~nobody-here/x")],
)
def test_a_tilde_is_the_home_folder_where_a_shell_would_take_it_so(
    monkeypatch: pytest.MonkeyPatch, written: str, meant: str
) -> None:
    monkeypatch.setenv("HOME", "/abode")
    assert expanded(Path(written)) == Path(meant)


def test_what_is_no_path_stays_as_it_is() -> None:
    assert [expanded(value) for value in ("~/x", None, 3)] == ["~/x", None, 3]


def test_every_flag_that_takes_a_path_expands_it() -> None:
    found = [
        (file.relative_to(ROOT), node)
        for folder in ("danube", "spark_analytics")
        for file in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Annotated" and _is_of_path(node)
    ]
    assert len(found) > 15
    expands = ("**PATH_FLAG", "BeforeValidator(_parse_folder)", "BeforeValidator(_parse_checkpoint)")
    assert [f"{file}:{node.lineno}" for file, node in found if not any(one in _made(node) for one in expands)] == []


def _is_of_path(node: ast.Subscript) -> bool:
    kind = ast.unparse(node.slice).lstrip("(").partition(",")[0]
    return "Path" in kind.split(" | ") and "(" in _made(node)


def _made(node: ast.Subscript) -> str:
    """The flag, as the module makes it."""
    made = ast.unparse(node.slice).partition(",")[2].strip()
    return f"{made} **PATH_FLAG" if made.startswith(HELPER) else made
