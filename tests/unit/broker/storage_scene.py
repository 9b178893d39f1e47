"""A broker's storage on a simulated disk and clock, whose journal writes only while a test does not hold it."""

from typing import Any

from danube.storage.journal import JournalSettings
from danube.storage.settings import StorageSettings
from tests.unit.storage.journal_world import HeldRunner
from tests.unit.storage.store.storage_world import StorageWorld


class World(StorageWorld):
    """What the topics of a broker stand on."""

    def __init__(self, **journal: Any) -> None:
        super().__init__()
        self.settings = StorageSettings(journal=JournalSettings(**journal))
        self.writes = HeldRunner()
        self.runners["runner"] = self.writes

    async def close(self) -> None:
        self.writes.release()
        await super().close()
