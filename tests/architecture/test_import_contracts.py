"""The import contracts of pyproject.toml hold, and each of them would notice a wrong line."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

BROKER = "A broker's topics know neither their clients nor what is done with them"
RAFT = "Raft's folder knows nothing of its core"
CIRCLES = "No file of these rooms needs one that needs it"
STORAGE = "Storage is built from the batch up to the owner of topics"
# Contract, module, and the line that must not be there.
WRONG_LINES = [
    (
        "Each room stands only on those below it",
        "danube/storage/batches/batch.py",
        "import danube.broker.config.settings",
    ),
    ("Each room stands only on those below it", "danube/logfile/frames.py", "import danube.storage.journal.format"),
    ("Each room stands only on those below it", "danube/logfile/files.py", "import danube.metadata.store"),
    ("The broker is nobody's client", "danube/broker/topics/topic.py", "import danube.client.connection.retry"),
    (
        "Clients and commands know a broker only by the wire",
        "danube/client/connection/retry.py",
        "import danube.metadata.store",
    ),
    (STORAGE, "danube/storage/journal/journal.py", "import danube.storage.log.topic_log"),
    (STORAGE, "danube/storage/log/histories.py", "import danube.storage.flush.orphans"),
    (STORAGE, "danube/storage/flush/orphans.py", "import danube.storage.takeover.steps"),
    (BROKER, "danube/broker/topics/topic.py", "import danube.broker.clients.consumers"),
    (BROKER, "danube/broker/topics/topic_directory.py", "import danube.broker.policy.pacing"),
    (BROKER, "danube/broker/topics/local_topics.py", "import danube.broker.cluster.next_action"),
    (BROKER, "danube/broker/cluster/log_offer.py", "import danube.broker.control.peeking"),
    (BROKER, "danube/broker/dispatch/engine.py", "import danube.broker.clients.fetch"),
    (CIRCLES, "danube/rpc/http2/client/connector.py", "import danube.rpc.http2.client.channel"),
    (CIRCLES, "danube/rpc/http2/server/end.py", "import danube.rpc.http2.server.connection"),
    (CIRCLES, "danube/schema/json_schema/arrays.py", "import danube.schema.json_schema.comparison"),
    (RAFT, "danube/metadata/raft/folder/recovery.py", "import danube.metadata.raft.core.raft_core"),
    (CIRCLES, "lab/cluster/broker.py", "import lab.cluster.world"),
    (CIRCLES, "spark_analytics/ingest/columns.py", "import spark_analytics.ingest.delta"),
    ("What decides does no I/O and takes the time as an argument", "danube/broker/dispatch/engine.py", "import time"),
    ("What decides does no I/O and takes the time as an argument", "danube/model/topic.py", "import asyncio"),
    ("Only the gRPC carrier knows gRPC", "danube/broker/topics/local_topics.py", "import grpc"),
    ("Only wire knows protobuf", "danube/broker/topics/local_topics.py", "import google.protobuf"),
    ("Experiments stand on the lab's kernel and know no other one", "lab/kernel/chance.py", "import lab.storage.world"),
    (
        "Services never know who carries their calls",
        "danube/broker/services/produce.py",
        "import danube.rpc.grpc.carrier",
    ),
]


def test_the_import_contracts_hold(root: Path) -> None:
    report = lint_imports(root)
    assert report.returncode == 0, report.stdout


def test_every_wrong_import_breaks_its_contract_and_is_named(root: Path, tmp_path: Path) -> None:
    for package in ("danube", "lab", "spark_analytics"):
        shutil.copytree(root / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(root / "pyproject.toml", tmp_path)
    for _, module, line in WRONG_LINES:
        plant(tmp_path / module, line)
    report = lint_imports(tmp_path)
    assert report.returncode == 1, report.stdout + report.stderr
    for contract, module, line in WRONG_LINES:
        assert f"{contract} BROKEN" in report.stdout
        assert names_the_fault(report.stdout, contract, dotted(module), line.removeprefix("import ")), report.stdout


def names_the_fault(report: str, contract: str, module: str, imported: str) -> bool:
    """Whether the report says, below the contract's heading, that the module imports this, or its room has a circle."""
    starts = {report.index(f"\n{heading}\n-") for heading, *_ in WRONG_LINES}
    start = report.index(f"\n{contract}\n-")
    end = min((other for other in starts if other > start), default=len(report))
    if contract == CIRCLES:
        return f"No cycles are allowed in {module.rpartition('.')[0]}." in report[start:end]
    return f"{module} -> {imported.removesuffix('.protobuf')}" in report[start:end]


def test_a_new_room_must_be_placed(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "danube", tmp_path / "danube", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(root / "pyproject.toml", tmp_path)
    plant(tmp_path / "danube/cellar/__init__.py", "")
    report = lint_imports(tmp_path)
    assert report.returncode == 1
    assert "cellar" in report.stdout


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
