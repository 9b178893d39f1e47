"""The shape of the tree: the map is true, modules and functions are small, names say something."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.conftest import parsed

MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
MODULES_A_ROOM_MAX = 12
LINES_MAX = {
    ("danube/", "spark_analytics/"): 134_995,
    ("lab/",): 14_800,
    ("danube/connect/", "danube/testing/connect/"): 5_020,
    ("danube/query/", "danube/cli/queries/"): 920,
}
"""Before balance, schemas, security, object storage, an HTTP/2 engine and the pipeline: 84,300 and 12,700.

A module counts in the last row that has its folder.
"""
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}
# Written in parts, so that this file does not hold what it looks for.
OF_ONE_MACHINE = re.compile(
    r"(?<![\w.{}-])/(?:wo"
    r"rk|ro"
    r"ot|ho"
    r"me|tm"
    r"p)/|\bpy"
    r"pi\.org|python"
    r"hosted\.org|npm"
    r"js\.(?:org|com)"
)


def test_the_map_names_every_package_and_none_that_is_not_there(root: Path, tracked: list[str]) -> None:
    packages = {f"{Path(name).parent}/" for name in tracked if name.startswith("danube/") and name.endswith(".py")}
    named = set(re.findall(r"`(danube/(?:\w+/)*)`", (root / "ARCHITECTURE.md").read_text()))
    assert named == packages | {"danube/"}


@pytest.mark.parametrize("document", ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "tests/README.md"])
def test_every_file_that_a_document_names_exists(document: str, root: Path, tracked: list[str]) -> None:
    text = (root / document).read_text()
    named = re.findall(r"`((?:\w[\w.-]*/)+[\w.-]+\.(?:py|md|txt|toml|proto|sh))`", text)
    assert [name for name in named if name not in tracked] == []


def test_modules_stay_within_500_lines(root: Path, written: list[str]) -> None:
    lengths = {name: len((root / name).read_text().splitlines()) for name in written}
    assert {name: length for name, length in lengths.items() if length > MODULE_LINES_MAX} == {}


def test_a_room_has_at_most_twelve_modules(written: list[str]) -> None:
    modules = [Path(name) for name in written if name.startswith(("danube/", "spark_analytics/", "lab/"))]
    rooms = Counter(str(module.parent) for module in modules if module.stem != "__init__")
    assert {room: count for room, count in rooms.items() if count > MODULES_A_ROOM_MAX} == {}


def test_packages_and_laboratory_stay_within_their_lines(root: Path, written: list[str]) -> None:
    lines = Counter[tuple[str, ...]]()
    for name in written:
        if rows := [folders for folders in LINES_MAX if name.startswith(folders)]:
            lines[rows[-1]] += len((root / name).read_text().splitlines())
    assert {folders: count for folders, count in lines.items() if count > LINES_MAX[folders]} == {}


def test_functions_stay_within_70_lines(root: Path, written: list[str]) -> None:
    trees = zip(written, parsed(root / name for name in written), strict=True)
    long = [f"{name}:{line} {function}" for name, tree in trees for line, function in long_functions(tree)]
    assert long == []


def long_functions(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of each function whose body is too long; the flags of a command are no part of it."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if (node.end_lineno or node.lineno) - node.body[0].lineno >= FUNCTION_LINES_MAX:
            yield node.lineno, node.name


def test_no_module_has_a_name_that_says_nothing(written: list[str]) -> None:
    assert [name for name in written if EMPTY_NAMES & {*Path(name).with_suffix("").parts}] == []


def test_nothing_in_version_control_is_of_one_machine(root: Path, tracked: list[str]) -> None:
    found = [f"{name}: {match}" for name in tracked for match in OF_ONE_MACHINE.findall(text_of(root / name))]
    assert found == []


def text_of(file: Path) -> str:
    """The text, with what is not text left out."""
    return file.read_text(errors="ignore")


def test_no_text_installs_the_package_from_an_index_that_lacks_it(root: Path, tracked: list[str]) -> None:
    """`danube.model.text.install_text` is the one place that says how."""
    ours = [name for name in tracked if name.startswith(("danube/", "spark_analytics/", "docs/", "README"))]
    promised = "danube-messaging" + "["
    assert [name for name in ours if promised in text_of(root / name)] == []
