"""The public surface of `import danube`: the names of the published client, listed, resolved on first use."""

import importlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import danube


def test_the_public_names_are_those_of_the_golden_file(root: Path) -> None:
    golden = (root / "tests/golden/public_names.txt").read_text().split()
    assert golden == list(danube.__all__)


@pytest.mark.parametrize("name", danube.__all__)
def test_a_public_name_is_the_one_of_the_client_library(name: str) -> None:
    client = importlib.import_module("danube.client")
    assert getattr(danube, name) is getattr(client, name)


def test_every_exception_of_the_client_is_on_the_page_with_its_base(root: Path) -> None:
    client = importlib.import_module("danube.client")
    exported = [getattr(client, name) for name in client.__all__ if name.endswith("Error")]
    rows = [
        line.split("|")[1:3]
        for line in (root / "docs/exceptions.md").read_text().splitlines()
        if line.startswith("| `")
    ]
    told = {name.strip(): base.strip() for name, base in rows}
    base = {each: f"`{each.__base__.__name__}`" for each in exported}
    assert told == {f"`{each.__name__}`": base[each] if each is not client.DanubeError else "" for each in exported}
    assert {name for name in client.__all__ if name.endswith("Error")} <= set(danube.__all__)


def test_dir_lists_the_public_names_and_the_version() -> None:
    assert {*danube.__all__, "__version__"} <= set(dir(danube))


def test_the_version_is_that_of_the_distribution(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert danube.__version__ in {project["version"], "0+unknown"}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Cluster'"):
        danube.Cluster  # type: ignore[attr-defined]  # noqa: B018


def test_the_published_client_beside_ours_gives_one_warning_with_the_next_step(root: Path, tmp_path: Path) -> None:
    (tmp_path / "danube_client-0.5.0.dist-info").mkdir()
    warned = import_in_a_new_python(root, tmp_path)
    assert warned.count("Warning:") == 1
    assert "uninstall both, then install danube-messaging alone" in warned


def test_without_the_published_client_nothing_is_said(root: Path, tmp_path: Path) -> None:
    assert import_in_a_new_python(root, tmp_path) == ""


def import_in_a_new_python(root: Path, beside: Path) -> str:
    """What `import danube` says on stderr when this folder is on the path, too."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join([str(root), str(beside)])}
    command = [sys.executable, "-c", "import danube"]
    return subprocess.run(command, cwd=beside, env=environment, capture_output=True, text=True, check=True).stderr
