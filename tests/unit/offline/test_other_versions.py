"""Files and records of another version are refused by start, verify and repair, and nothing is overwritten."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from danube.broker.config.metadata_store import MetaStoreSettings
from danube.model.errors import DanubeError
from danube.model.exit_codes import ExitCode, exit_code_of
from danube.offline.cli_options import OutputFormat
from danube.offline.metadata.sources import Wanted
from danube.offline.storage import commands
from danube.runtime.checksum import with_crc
from tests.unit.offline.folder_world import FolderWorld, Life, bytes_of, orders_world


def _next(start: int, end: int | None = None, by: int = 1) -> Callable[[Path], None]:
    """Raise the version of the record between these bytes of a file, and put its checksum right."""

    def change(path: Path) -> None:
        content = bytearray(path.read_bytes())
        first, last = start % len(content), len(content) if end is None else end
        content[first + 4] += by
        content[first:last] = with_crc(bytes(content[first : last - 4]))
        path.write_bytes(content)

    return change


def _identity(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 2}), encoding="utf-8")


def _metadata(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE schema_version SET version = version + 1")


ALL = ("start", "verify", "repair")
KINDS: dict[str, tuple[str, Callable[[Path], None], tuple[str, ...]]] = {
    "identity": ("broker.json", _identity, ALL),
    "metadata": ("metadata.sqlite3", _metadata, ALL),
    "mark": ("journal/mark", _next(0), ALL),
    "index": ("journal/*.index", _next(0), ALL),
    "journal file": ("journal/*.journal", _next(0, 52), ALL),
    "manifest": ("segments/*/*.manifest", _next(0, by=2), ("verify", "repair")),
    "segment header": ("segments/*/*.segment", _next(0, 36), ("verify", "repair")),
    "segment footer": ("segments/*/*.segment", _next(-88), ("verify", "repair")),
}
"""A topic whose own files are of another version is refused alone: the broker starts."""


def _carry_out(action: str, folder: FolderWorld) -> None:
    wanted = Wanted(folder.path, MetaStoreSettings.model_validate({}))
    if action == "verify":
        commands.verify_folder(wanted, output=OutputFormat.JSON)
    elif action == "repair":
        commands.repair(wanted, accept_loss=True, output=OutputFormat.JSON)
    else:

        async def nothing(_life: Life) -> None:
            return None

        folder.live(nothing)


@pytest.mark.parametrize(
    ("kind", "action"), [(kind, action) for kind, (_, _, actions) in KINDS.items() for action in actions]
)
def test_another_version_is_refused_by_name_with_exit_code_7_and_stays(tmp_path: Path, kind: str, action: str) -> None:
    folder = orders_world(tmp_path / "data")
    pattern, change, _ = KINDS[kind]
    file = folder.files(pattern)[0]
    change(file)
    before = bytes_of(folder.path)
    with pytest.raises(DanubeError) as refused:
        _carry_out(action, folder)
    assert exit_code_of(refused.value) is ExitCode.DATA_FOLDER
    assert "version" in str(refused.value)
    assert {name: one for name, one in bytes_of(folder.path).items() if name in before} == before
