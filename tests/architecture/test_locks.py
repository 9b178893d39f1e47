"""The locks: pinned, hashed, of no registry in particular, and what pyproject.toml asks for."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

OF_EXTRAS = {"admin", "all"}
"""Extras that are made of others."""
LOCKS = ["requirements/dev.txt", "requirements/danube-client.txt"]


def pins(root: Path, lock: str) -> dict[str, str]:
    """Version by name."""
    found = re.findall(r"^([\w.-]+)==([^\s;]+)", (root / lock).read_text(), flags=re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_url_and_no_host(lock: str, root: Path) -> None:
    assert (
        re.findall(r"://|\b[\w-]+\.(?:org|com|io|net)\b|--(?:index|extra|find|trusted)", (root / lock).read_text())
        == []
    )


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_its_hashes(lock: str, root: Path) -> None:
    entries = re.split(r"\n(?=\w)", (root / lock).read_text())[1:]
    assert all(re.match(r"[\w.-]+==", entry) for entry in entries)
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []


def test_the_lock_is_what_pyproject_asks_for(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())
    groups = [project["project"]["dependencies"], project["dependency-groups"]["dev"]]
    groups += [lines for name, lines in project["project"]["optional-dependencies"].items() if name not in OF_EXTRAS]
    asked = [Requirement(line) for lines in groups for line in lines]
    locked = pins(root, "requirements/dev.txt")
    assert [str(r) for r in asked if locked.get(canonicalize_name(r.name), "0") not in r.specifier] == []


def test_the_published_client_is_pinned_as_asked(root: Path) -> None:
    asked = re.findall(r"^([\w-]+)==(\S+)$", (root / "requirements/danube-client.in").read_text(), flags=re.MULTILINE)
    assert dict(asked).items() <= pins(root, "requirements/danube-client.txt").items()
    assert dict(asked)["danube-client"] == "0.5.0"
