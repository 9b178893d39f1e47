"""A data folder for each test, with three topics: one in segments and the journal, one in the journal, one idle."""

from pathlib import Path

import pytest

from tests.unit.offline.folder_world import FolderWorld, Life

PASSED_OVER = 500
ORDERS, CLICKS, IDLE = "/default/orders", "/default/clicks", "/default/idle"


@pytest.fixture(autouse=True)
def few_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("scan.journal_contents", "repair.repair_plan"):
        monkeypatch.setattr(f"danube.offline.storage.{module}.PLACEHOLDER_OFFSETS_SKIPPED_MAX", PASSED_OVER)


@pytest.fixture
def empty(tmp_path: Path) -> FolderWorld:
    return FolderWorld(tmp_path / "data")


@pytest.fixture
def folder(empty: FolderWorld) -> FolderWorld:
    async def live(life: Life) -> None:
        await life.fill(ORDERS, 30)
        await life.subscribe(ORDERS, "billing", 11, 5)
        await life.fill(IDLE, 3)
        await life.flush()
        await life.fill(ORDERS, 20)
        await life.fill(CLICKS, 20)
        await life.subscribe(CLICKS, "audit", 12, 4)

    empty.live(live)
    return empty
