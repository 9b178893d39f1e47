"""Removes journals of former owners that are not needed any more. Any broker may, several at once.

A fenced journal is dead: its owner acknowledges nothing more. It is struck off the list of those that topics may begin
in, and from then on fewer and fewer records name it: another broker acquires each topic and flushes it into segments.
When no record names the journal, its folder is removed.
"""

import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

from danube.metadata.records.journals import JournalRecords
from danube.metadata.records.record_format import TopicStorage
from danube.metadata.records.storage import StorageRecords
from danube.model.errors import NewerDataFolderError
from danube.runtime.blocking import BlockingRunner
from danube.runtime.disk import Disk
from danube.storage.journal.folder import FENCE_NAME, Fence, listed_journals
from danube.storage.takeover.steps import PROTOCOL, Part, Protocol, Step

_log = logging.getLogger(__name__)


def named_journals(records: Iterable[TopicStorage]) -> frozenset[int]:
    """Journals that these records name: with records that are in no segment, or with an open epoch."""
    return frozenset(epoch.journal_id for record in records for epoch in record.epochs)


class JournalRemover:
    """Removes unneeded journals of a shared folder, but never `own_id`, the caller's own."""

    def __init__(
        self,
        disk: Disk,
        records: StorageRecords,
        journals: JournalRecords,
        runner: BlockingRunner,
        *,
        own_id: int,
        protocol: Protocol = PROTOCOL,
        remove_folder: Callable[[str], None] | None = None,
    ) -> None:
        """`remove_folder` removes a journal's folder where that is not done file by file."""
        self._disk = disk
        self._records = records
        self._journals = journals
        self._runner = runner
        self._own_id = own_id
        self._remove_one = remove_folder or self._remove_folder
        self._steps = protocol[Part.REMOVE_JOURNAL]
        self._folders: Mapping[int, str] = {}
        self._fenced: Collection[int] = ()
        self._struck_off: frozenset[int] = frozenset()
        self._removed = 0
        self._do: Mapping[Step, Callable[[], Awaitable[None]]] = {
            Step.LOOK: self._look,
            Step.STRIKE_OFF: self._strike_off,
            Step.ASK: self._ask,
            Step.REMOVE: self._remove,
        }

    async def remove_unneeded(self) -> int:
        """One pass over all journals; answers how many were removed.

        Raises MetadataError; a folder that cannot be read or removed is said in the log, and tried again by the next.
        """
        self._removed = 0
        try:
            for step in self._steps:
                await self._do[step]()
        except OSError as error:
            _log.warning("journals of former owners could not be looked for: %s", error)
        return self._removed

    async def _look(self) -> None:
        """List the folders first: each was entered before it was made, so one that is not entered was struck off.

        The entries are as they stand now: a broker whose metadata is behind would remove a journal that just began.
        """
        self._folders = await self._runner.run(lambda: listed_journals(self._disk))
        entered = await self._journals.all()
        others = {each: folder for each, folder in self._folders.items() if each != self._own_id}
        self._struck_off = frozenset(others).difference(entered)
        standing = {each: folder for each, folder in others.items() if each in entered}
        self._fenced = await self._runner.run(lambda: self._find_fenced(standing))

    async def _strike_off(self) -> None:
        for journal_id in self._fenced:
            await self._journals.strike_off(journal_id)
        self._struck_off |= frozenset(self._fenced)

    async def _ask(self) -> None:
        if self._struck_off:
            self._struck_off -= named_journals((await self._records.all()).values())

    async def _remove(self) -> None:
        for journal_id in sorted(self._struck_off):
            folder = self._folders[journal_id]
            try:
                await self._runner.run(lambda: self._remove_one(folder))  # noqa: B023 - awaited in its turn
            except OSError as error:  # the others are none the worse
                _log.warning("the journal in %s could not be removed: %s", folder, error)
                continue
            self._removed += 1
            _log.info("the journal in %s is removed: all that was in it is in segments", folder)

    def _find_fenced(self, standing: Mapping[int, str]) -> list[int]:
        return [each for each, folder in standing.items() if self._is_fenced(folder)]

    def _is_fenced(self, folder: str) -> bool:
        try:
            return Fence(self._disk, folder).is_up(counts_missing=False)
        except (OSError, NewerDataFolderError) as error:
            _log.warning("the fence in %s could not be read: %s", folder, error)
            return False

    def _remove_folder(self, folder: str) -> None:
        """The fence is removed last, so a part of the folder is always fenced."""
        with contextlib.suppress(FileNotFoundError):  # another broker removes it, too
            for name in sorted(self._disk.list(folder), key=lambda one: one == FENCE_NAME):
                with contextlib.suppress(FileNotFoundError):
                    self._disk.remove(f"{folder}/{name}")
            self._disk.remove_folder(folder)
