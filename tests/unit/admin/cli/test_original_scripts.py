"""Scripts of the original's `danube-admin`: what its own tests type, and read of the answers, holds here."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from danube.testing.processes.broker import BrokerProcess
from tests.unit.admin.cli.test_real_broker import danube_admin

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

Run = Callable[..., CompletedProcess[str]]
SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "TestEvent",
    "type": "object",
    "required": ["event_type", "timestamp"],
    "properties": {"event_type": {"type": "string"}, "timestamp": {"type": "integer"}},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("original")
    with BrokerProcess(folder / "data") as broker:
        yield lambda *words: danube_admin(broker.endpoints.admin, folder, *words)


def said(ended: CompletedProcess[str]) -> str:
    """What a command wrote that went well."""
    assert ended.returncode == 0, ended
    return ended.stdout


def test_a_schema_is_registered_from_a_file_and_its_id_is_read_from_the_answer(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(SCHEMA))
    given = ("--schema-type", "json_schema", "--file", str(file))
    registered = said(run("schemas", "register", "events", *given))
    line = next(line for line in registered.splitlines() if "Schema ID:" in line)
    schema_id = int(line.split("Schema ID:")[1].strip())
    assert "Version: 1" in registered
    found = said(run("schemas", "get", "--subject", "events", "--output", "json"))
    assert json.loads(found)["subject"] == "events"
    assert int(json.loads(found)["schema_id"]) == schema_id
    said(run("schemas", "check", "events", *given))
    again = said(run("schemas", "register", "copies", "--schema-type", "json_schema", "--schema", json.dumps(SCHEMA)))
    assert "Version: 1" in again
    both = run("schemas", "register", "copies", *given, "--schema", "{}")
    assert (both.returncode, "a definition is given once" in both.stderr) == (2, True)


def test_one_partition_is_not_deleted_and_the_error_begins_as_the_original_s(run: Run) -> None:
    said(run("topics", "create", "/default/parts", "--partitions", "2", "--dispatch-strategy", "reliable"))
    refused = run("topics", "delete", "/default/parts-part-0", "--yes")
    assert refused.returncode != 0
    assert "Cannot delete individual partition" in refused.stderr
    said(run("topics", "delete", "/default/parts", "--yes"))
