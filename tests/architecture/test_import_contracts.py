"""The import contracts of pyproject.toml hold, and each of them would notice a wrong line."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

# Contract, module, and the line that must not be there.
WRONG_LINES = [
    ("Each room stands only on those below it", "danube/storage/batch.py", "import danube.broker.settings"),
    ("Each room stands only on those below it", "danube/secrets/__init__.py", ""),
    ("The broker is nobody's client", "danube/broker/topic.py", "import danube.client.retry"),
    ("Clients and commands know a broker only by the wire", "danube/client/retry.py", "import danube.metadata.store"),
    ("What decides does no I/O", "danube/broker/dispatch/engine.py", "import time"),
    ("What decides does no I/O", "danube/model/topic.py", "import asyncio"),
    ("Only the gRPC carrier knows gRPC", "danube/broker/topics.py", "import grpc"),
    ("Only wire knows protobuf", "danube/broker/topics.py", "import google.protobuf"),
    (
        "Services never know who carries their calls",
        "danube/broker/services/produce.py",
        "import danube.rpc.grpc_carrier",
    ),
]


def test_the_import_contracts_hold(root: Path) -> None:
    report = lint_imports(root)
    assert report.returncode == 0, report.stdout


def test_every_wrong_import_breaks_its_contract_and_is_named(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "danube", tmp_path / "danube", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(root / "pyproject.toml", tmp_path)
    for _, module, line in WRONG_LINES:
        plant(tmp_path / module, line)
    report = lint_imports(tmp_path)
    assert report.returncode == 1, report.stdout + report.stderr
    for contract, module, line in WRONG_LINES:
        section = report.stdout.partition(f"\n{contract}")[2].partition("\n\n\n")[0]
        assert f"{contract}" in report.stdout
        assert dotted(module) in report.stdout, report.stdout
        assert line.removeprefix("import ").partition(".")[0] in section or not line, section


def plant(file: Path, line: str) -> None:
    """Put the line at the end, or make the module where there is none."""
    file.parent.mkdir(exist_ok=True)
    text = file.read_text() if file.exists() else ""
    file.write_text(f"{text}\n{line}\n")


def dotted(module: str) -> str:
    """The name by which a module is imported."""
    return module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Judge the package in the folder by the contracts beside it."""
    program = Path(sys.executable).with_name("lint-imports")
    environment = {"PATH": os.environ["PATH"], "COLUMNS": "200"}
    command: list[str | Path] = [program, "--no-cache", "--config", "pyproject.toml"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
