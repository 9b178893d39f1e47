"""What an import really loads, as a static graph cannot see it: each in a Python of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

OTHERS_SERVER_PARTS = {"prometheus_client", "sqlite3", "uvicorn"}
TERMINAL_PARTS = {"rich", "typer"}
CLUSTER_PARTS = {
    "pysyncobj",
    "aetcd",
    "kazoo",
    "danube.metadata.raft.sequencer",
    "danube.metadata.shared_log",
    "danube.broker.cluster.member",
}
"""What a broker imports as it needs it."""


def loaded_by(statement: str, root: Path) -> set[str]:
    """The modules that are there after the statement and were not before."""
    program = (
        f"import json, sys; before = set(sys.modules); {statement}; print(json.dumps([*sys.modules.keys() - before]))"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True
    ).stdout
    return set(json.loads(output))


def test_importing_danube_loads_nothing_of_ours_and_nothing_heavy(root: Path) -> None:
    loaded = loaded_by("import danube", root)
    assert [name for name in loaded if name.startswith("danube.")] == []
    assert loaded & {"asyncio", "google", "grpc", "importlib.metadata", "pydantic"} == set()


def test_a_name_that_does_not_exist_loads_nothing(root: Path) -> None:
    loaded = loaded_by("import danube; getattr(danube, 'Cluster', None)", root)
    assert [name for name in loaded if name.startswith("danube.")] == []


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        (
            "import danube.client",
            OTHERS_SERVER_PARTS | TERMINAL_PARTS | {"danube.broker", "danube.metadata", "pydantic"},
        ),
        (
            "import danube.admin.__main__",
            TERMINAL_PARTS | {"pydantic", "danube.admin.operations", "danube.admin.gateway"},
        ),
        ("import danube.cli.__main__", OTHERS_SERVER_PARTS | {"danube.broker", "danube.metadata"}),
        ("import danube.broker.app", TERMINAL_PARTS | CLUSTER_PARTS | {"danube.cli", "danube.client"}),
        ("import danube.broker.services", {"grpc"} | TERMINAL_PARTS),
        ("import danube.testing", OTHERS_SERVER_PARTS | TERMINAL_PARTS | {"grpc", "pytest"}),
    ],
)
def test_a_room_loads_only_what_it_needs(statement: str, absent: set[str], root: Path) -> None:
    assert loaded_by(statement, root) & absent == set()


def test_the_version_of_danube_admin_is_told_without_an_operation(root: Path) -> None:
    statement = "sys.argv = ['danube-admin', '--version']; sys.stdout, told = sys.stderr, sys.stdout;"
    statement += " from danube.admin.__main__ import main; main(); sys.stdout = told"
    assert loaded_by(statement, root) & (TERMINAL_PARTS | {"pydantic", "danube.admin.gateway"}) == set()
