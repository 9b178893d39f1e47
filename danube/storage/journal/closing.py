"""The files of a journal that are written no more: their indexes are made, and they are removed when told to."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from danube.model.errors import StorageUnavailableError
from danube.model.limits.broker import JOURNAL_INDEX_TOPICS_AT_ONCE, JOURNAL_INDEXES_WAITING_MAX
from danube.runtime.blocking import BlockingRunner
from danube.runtime.tasks import TaskScope
from danube.storage.journal.contents import FileContents
from danube.storage.journal.durable import DurableTopics
from danube.storage.journal.file_index import FileIndex
from danube.storage.journal.files import FileStart
from danube.storage.journal.folder import JournalFolder
from danube.storage.journal.format import FirstFile
from danube.storage.journal.index import IndexRun
from danube.storage.journal.topic_base import ClosedFile

_log = logging.getLogger(__name__)


class ClosedFiles:
    """Takes each file when it is complete. Its disk is asked in the runner's thread, in the order of the calls here."""

    def __init__(
        self,
        closed: list[ClosedFile],
        durable: DurableTopics,
        folder: JournalFolder,
        runner: BlockingRunner,
        journal_id: int,
    ) -> None:
        self._closed = closed
        self._durable = durable
        self._folder = folder
        self._runner = runner
        self._journal_id = journal_id
        self._listeners: list[Callable[[], None]] = []
        self._waiting: deque[tuple[FileContents, FileStart]] = deque()
        self._settled = asyncio.Event()
        self._settled.set()
        self._removing = asyncio.Lock()
        self._said: FileStart | None = None
        """Where the disk may say that the journal begins, though a removal failed: it never goes back behind that."""
        self._tasks = TaskScope("journal files")
        self._work: asyncio.Task[None] | None = None
        self._writes: set[asyncio.Task[None]] = set()
        """Of indexes."""

    @property
    def all(self) -> list[ClosedFile]:
        """All of them, oldest first."""
        return list(self._closed)

    def hold(self, topic_id: int) -> bool:
        """Whether a record of the topic is in one of them, or in one that is about to be among them."""
        if any(topic_id in file.topics for file in self._closed):
            return True
        return any(topic_id in contents.topics for contents, _ in self._waiting)

    def on_closed(self, listener: Callable[[], None]) -> None:
        """Have `listener` called whenever there is another one."""
        self._listeners.append(listener)

    def take(self, contents: FileContents, following: FileStart) -> None:
        """A file is complete, and the journal goes on in the one that follows."""
        self._waiting.append((contents, following))
        self._settled.clear()
        if self._work is None or self._work.done():
            self._work = self._tasks.spawn(self._work_off(), "indexes")

    async def settled(self) -> None:
        """Wait until every complete file is among `all`."""
        await self._settled.wait()

    async def remove(self, below_sequence: int) -> int:
        """Remove the files before this one; answers how many bytes that frees.

        Raises ValueError when the journal is still asked for what is in them, StorageUnavailableError when the disk
        fails: then it can be done again.
        """
        async with self._removing:
            await self._written()
            first = self._start_of(below_sequence)
            if first is None:
                return 0
            self._said = first
            said = FirstFile(self._journal_id, first.sequence, first.base_position, first.rounds_before)
            try:
                freed = await self._runner.run(lambda: self._folder.remove_before(said))
            except OSError as error:
                raise StorageUnavailableError(f"journal files could not be removed: {error}. Check the disk") from error
            self._durable.files.drop_below(first.base_position)
            self._closed = [file for file in self._closed if file.sequence >= first.sequence]
            return freed

    async def close(self) -> None:
        """Make the indexes that are still to be made."""
        if self._work is not None:
            await asyncio.wait([self._work])
        await self._written()
        await self._tasks.close()

    def _start_of(self, below_sequence: int) -> FileStart | None:
        """Where the journal begins once the files before that one are gone; None when it begins there already."""
        below = max(below_sequence, self._said.sequence if self._said is not None else 0)
        closed_to = self._closed[-1].sequence + 1 if self._closed else 0
        starts = [one for one in self._durable.files.starts if one.sequence <= min(below, closed_to)]
        if len(starts) <= 1:
            return None
        topic_id = self._durable.held_below(starts[-1].base_position)
        if topic_id is not None:
            raise ValueError(f"topic {topic_id} has batches in journal files below {starts[-1].sequence}")
        return starts[-1]

    async def _work_off(self) -> None:
        while self._waiting:
            contents, following = self._waiting[0]
            runs = await self._gather(contents, following.base_position)
            self._closed.append(contents.closed(following.base_position))
            self._waiting.popleft()
            if not self._waiting:
                self._settled.set()
            self._tell()
            if len(self._writes) < JOURNAL_INDEXES_WAITING_MAX:
                self._write(
                    FileIndex(self._journal_id, following.base_position, following.rounds_before, contents, runs)
                )

    def _tell(self) -> None:
        for listener in self._listeners:
            try:
                listener()
            except Exception:
                _log.exception("a callback of the journal failed: %r", listener)

    def _write(self, index: FileIndex) -> None:
        writing = self._tasks.spawn(self._runner.run(lambda: self._folder.write_index(index)), "index")
        self._writes.add(writing)
        writing.add_done_callback(self._writes.discard)

    async def _written(self) -> None:
        """Wait until the indexes that are being written are."""
        if self._writes:
            await asyncio.wait(self._writes)

    async def _gather(self, contents: FileContents, end_position: int) -> dict[int, IndexRun | None]:
        """Copy what is known of a file's batches, letting others run in between."""
        runs: dict[int, IndexRun | None] = {}
        for number, topic_id in enumerate(sorted(contents.topics), 1):
            runs[topic_id] = self._durable.run(topic_id, contents, end_position)
            if number % JOURNAL_INDEX_TOPICS_AT_ONCE == 0:
                await asyncio.sleep(0)
        return runs
