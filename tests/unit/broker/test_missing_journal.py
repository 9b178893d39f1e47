"""A broker's folder whose journal is gone: what the commands say of it, and what a repair leaves."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from danube.broker.__main__ import app
from danube.data_folder.data_folder import DataFolder, Identity, open_data_folder, read_identity
from danube.model.errors import DamagedDataError
from danube.model.exit_codes import ExitCode
from danube.runtime.rng import SystemRng
from tests.unit.offline.folder_world import FolderWorld, Life

ORDERS = "/default/orders"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderWorld:
    """Ten messages in segments, ten in the journal, and that is gone."""
    monkeypatch.setattr("danube.offline.storage.scan.journal_contents.PLACEHOLDER_OFFSETS_SKIPPED_MAX", 100)
    world = FolderWorld(tmp_path / "data")
    world.live(_store)
    shutil.rmtree(world.path / "journal")
    return world


async def _store(life: Life) -> None:
    await life.fill(ORDERS, 10)
    await life.flush()
    await life.fill(ORDERS, 10)


async def _next_offset(life: Life) -> int:
    return (await life.topic(ORDERS)).durable_end


def storage(folder: FolderWorld, *words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["storage", *words, "--data-dir", str(folder.path)], prog_name="danube-broker")
    return result.exit_code, result.stdout


def test_the_broker_refuses_and_the_commands_say_why(folder: FolderWorld) -> None:
    with pytest.raises(
        DamagedDataError, match=r"^journal/ is damaged: the folder is missing.*Restore the folder from a backup"
    ):
        folder.live(_next_offset)
    code, text = storage(folder, "verify")
    assert code == ExitCode.DAMAGED_DATA
    assert "damage: journal/: the folder is missing; if it is on a disk of its own" in text
    assert "journal/: the folder is missing" in storage(folder, "inspect")[1]


def test_a_repair_has_a_new_journal_begun_behind_all_that_was_given_out(folder: FolderWorld) -> None:
    code, text = storage(folder, "repair")
    assert code == ExitCode.NEEDS_YES
    assert "passed over: offsets 10 to 109; nobody can say whether messages had them" in text
    assert read_identity(folder.path).has_journal
    assert storage(folder, "repair", "--accept-loss")[0] == ExitCode.OK
    assert storage(folder, "verify")[0] == ExitCode.OK
    assert folder.live(_next_offset) == 110
    assert read_identity(folder.path).has_journal


def test_how_far_the_journal_is_marked_is_shown(tmp_path: Path) -> None:
    world = FolderWorld(tmp_path / "data")
    world.live(_store)
    assert " as its mark says" in storage(world, "inspect")[1]
    assert "synced to: " in storage(world, "inspect", "--file", "mark")[1]
    (world.path / "journal" / "mark").unlink()
    assert "and without a mark" in storage(world, "inspect")[1]


def test_a_folder_that_was_never_said_to_have_a_journal_may_begin_one(tmp_path: Path) -> None:
    """A first start that died before it said so, and a folder of an earlier version."""
    opened: DataFolder = open_data_folder(tmp_path, SystemRng())
    opened.adopt("", is_shared=False)
    assert read_identity(tmp_path) == Identity(broker_id=opened.broker_id)
    opened.adopt("cluster", is_shared=False, has_journal=True)
    assert read_identity(tmp_path).has_journal
    opened.lock.release()
