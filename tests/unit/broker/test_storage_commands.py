"""The commands that messages about damage tell people to run: they can be run as printed."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from danube.broker.__main__ import app
from danube.model.errors import DamagedDataError, StorageUnavailableError
from danube.model.exit_codes import ExitCode
from danube.runtime.disk import LocalDisk
from danube.storage.damage import with_data_folder
from tests.unit.broker.printed_commands import codes_of
from tests.unit.offline.folder_world import ORDERS, FolderWorld, Life, damaged_segment, flip, orders_world
from tests.unit.storage.store.storage_world import fill
from tests.unit.storage.takeover.storages_world import StoragesWorld

pytestmark = pytest.mark.timeout(120)  # a broker that starts though it should not would serve for ever


@pytest.fixture
def folder(tmp_path: Path) -> FolderWorld:
    return orders_world(tmp_path / "data")


RUN = {"inspect": 0, "verify": ExitCode.DAMAGED_DATA, "repair": ExitCode.NEEDS_YES}
"""What every message about damage tells people to run, and how that ends."""
RUN_OF_A_MISSING_FILE = {words: code for words, code in RUN.items() if words != "inspect"}


@pytest.fixture
def refused(folder: FolderWorld, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Starts a broker on the folder, which refuses; answers what it says, and what its log would have said."""
    told: list[Callable[[str], str]] = []
    monkeypatch.setattr("danube.broker.__main__.configure_logging", lambda _level, _format, put: told.append(put))

    def start() -> str:
        moved = folder.path.rename(folder.path.with_name("a folder"))
        ended = CliRunner().invoke(app, ["--data-dir", str(moved)], prog_name="danube-broker")
        assert ended.exit_code == ExitCode.DAMAGED_DATA
        assert told[0]("Log: --data-dir ...") == f"Log: --data-dir '{moved}'"
        return ended.stderr

    return start


def test_the_commands_of_a_broker_that_refuses_to_start_can_be_run_as_printed(
    folder: FolderWorld, refused: Callable[[], str]
) -> None:
    flip(folder.files("journal/*.journal")[0], 60)
    for index in folder.files("journal/*.index"):  # with these a start goes by them, and reads the last file only
        index.unlink()
    said = refused()
    assert codes_of(said) == RUN
    assert "a folder' --file journal/00000" in said


def test_the_commands_of_a_missing_journal_file_can_be_run_as_printed(
    folder: FolderWorld, refused: Callable[[], str]
) -> None:
    folder.files("journal/*.journal")[0].unlink()
    assert codes_of(refused()) == RUN_OF_A_MISSING_FILE


def test_the_commands_of_damage_in_a_segment_can_be_run_as_printed(folder: FolderWorld) -> None:
    damaged = damaged_segment(folder)
    said = unreadable(folder)
    assert codes_of(said) == RUN
    assert f"--file {damaged.relative_to(folder.path)}`" in said


@pytest.mark.parametrize("pattern", ["segments/*/*.segment", "segments/*/*.manifest"])
def test_the_commands_of_a_missing_file_of_a_topic_can_be_run_as_printed(folder: FolderWorld, pattern: str) -> None:
    missing = folder.files(pattern)[0]
    missing.unlink()
    said = unreadable(folder)
    assert codes_of(said) == RUN_OF_A_MISSING_FILE
    assert f"{missing.relative_to(folder.path)} is " in said
    assert "not there" in said


async def test_the_commands_of_damage_in_a_shared_folder_can_be_run_on_a_copy_as_printed(tmp_path: Path) -> None:
    shared, copy = tmp_path / "shared", tmp_path / "copy"
    storages = StoragesWorld(LocalDisk(shared))
    await storages.create(1)
    first, second = await storages.start(1), await storages.start(2)
    await first.acquire([1])
    await fill(first.topic(1), 5)
    journal = first.journal_folder
    await storages.stop(1)
    flip(shared / journal / "0000000001.journal", 200)
    with pytest.raises(DamagedDataError) as caught:
        await second.acquire([1])
    await storages.end()
    assert f"copy {journal} to COPY/journal" in str(caught.value)
    shutil.copytree(shared / journal, copy / "journal")
    said = str(caught.value).replace("COPY", str(copy))
    assert await asyncio.to_thread(codes_of, said) == {words: code for words, code in RUN.items() if words != "repair"}


def unreadable(folder: FolderWorld) -> str:
    """What is said of a topic that cannot be read."""

    async def read(life: Life) -> str:
        with pytest.raises((DamagedDataError, StorageUnavailableError)) as caught:
            await (await life.topic(ORDERS)).read(3, 1)
        return str(caught.value)

    return with_data_folder(folder.live(read), str(folder.path))
