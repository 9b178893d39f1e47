"""Logs of topics on their way between the disks of two brokers: written out, read, adopted, abandoned.

A log is carried as its segments and its manifest. Segments never change, so they are copied while the topic is served;
a copy that broke off goes on with the segments that are missing.

1. At any time one disk at least has all of the log, and no mark says that this is a copy.
2. A copy is marked from its begin until it is whole, and metadata is about to name its broker as the owner. What is
   marked may be removed: the owner has all of it.
3. The transaction that names the next owner leaves a tombstone for the disk of the owner before. That one removes its
   files for the tombstone alone, and not because the topic is another broker's: metadata may be an older copy.
4. A copy begins once the tombstone of an earlier stay is served: a sweep never meets the files of a new one.
"""

import asyncio
import contextlib
import re
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from danube.metadata.records.record_format import TopicStorage
from danube.model.errors import (
    DamagedDataError,
    DanubeError,
    InvalidRequestError,
    NotFoundError,
    StorageUnavailableError,
)
from danube.model.limits.broker import MIB
from danube.runtime.blocking import BlockingRunner
from danube.storage.damage import fault_of
from danube.storage.environment import StorageEnvironment
from danube.storage.flush.manifest_lookup import base_of, load_history
from danube.storage.flush.segment_flusher import SegmentFlusher
from danube.storage.journal import Journal
from danube.storage.log.histories import TopicHistory
from danube.storage.opening import COPY, is_copy
from danube.storage.segment.manifest import SEGMENTS, Manifest, Segment, folder_of, manifest_name, segment_name
from danube.storage.segment.manifest_format import encode_manifest
from danube.storage.segment.reader import SegmentReader
from danube.storage.stored_topics import StoredTopics

T = TypeVar("T")

_SEGMENT_FILE = re.compile(r"[0-9]{20}-[0-9]{10}\.segment")


class LogCarry:
    """Logs of one broker's storage that come from other disks, or go to them."""

    def __init__(
        self,
        environment: StorageEnvironment,
        journal: Journal,
        topics: StoredTopics,
        flusher: SegmentFlusher,
        *,
        turn: asyncio.Lock,
        reader: SegmentReader,
        drop: Callable[[int], None],
    ) -> None:
        """`turn` is held by whoever builds manifests; `drop` drops a topic from memory."""
        self._journal = journal
        self._topics = topics
        self._flusher = flusher
        self._turn = turn
        self._reader = reader
        self._reading_tier = environment.reading_tier
        self._writing_tier = environment.writing_tier
        self._read_runner = environment.read_runner
        self._tier_runner = environment.tier_runner
        self._flush_runner = environment.flush_runner
        self._drop = drop
        self._disk = environment.disk
        self._kept_free_bytes = environment.settings.watermarks.refuse_below_bytes

    async def flush(self, topic_id: int) -> TopicHistory:
        """Have all that is stored of a topic in segments, with its cursors; answers what metadata names then.

        Raises MetadataError, StorageUnavailableError, DamagedDataError, StorageChangedError.
        """
        await self._journal.rotate()
        async with self._turn:
            return await self._flusher.flush_topic(topic_id)

    async def read(self, topic_id: int, name: str, position: int, length: int) -> bytes:
        """A piece of a segment.

        Raises InvalidRequestError for another file, NotFoundError for one that was merged or trimmed away meanwhile,
        StorageUnavailableError.
        """
        if not _SEGMENT_FILE.fullmatch(name):
            raise InvalidRequestError(f"{name[:60]!r} is no segment: ask for those of the manifest")
        path = f"{folder_of(topic_id)}/{name}"
        try:
            return await self._tier_runner.run(lambda: self._reading_tier.read(path, position, length))
        except FileNotFoundError as error:
            raise NotFoundError(f"{path} is not there any more: ask for the manifest again") from error
        except OSError as error:
            raise _unavailable(error, path) from error

    async def check_room(self, needed_bytes: int) -> None:
        """Raise StorageUnavailableError where the disk has too little room for so many more bytes."""
        room = await _run(self._read_runner, self._disk.room, "the disk")
        if room.free_bytes - needed_bytes < self._kept_free_bytes:
            raise StorageUnavailableError(
                f"the disk has {room.free_bytes // MIB} MiB left, and the log needs {needed_bytes // MIB} MiB beside"
                f" the {self._kept_free_bytes // MIB} MiB that are kept back: free some space, or move the topic to"
                " another broker"
            )

    async def missing(self, manifest: Manifest) -> Sequence[Segment]:
        """The segments of a manifest that are not here. Raises StorageUnavailableError."""
        folder = folder_of(manifest.topic_id)
        there = await _run(self._tier_runner, lambda: frozenset(self._reading_tier.list(folder)), folder)
        return [one for one in manifest.segments if _file_name(manifest.topic_id, one) not in there]

    async def put(self, topic_id: int, segment: Segment, content: Sequence[bytes]) -> None:
        """Keep a segment, durably. Raises StorageUnavailableError."""
        name = segment_name(topic_id, segment)
        await _run(self._flush_runner, lambda: self._writing_tier.put(name, content), name)

    async def verify(self, topic_id: int, segment: Segment) -> None:
        """Read a segment on this disk whole, and remove a damaged one. Raises as `SegmentReader.verify`."""
        name = segment_name(topic_id, segment)
        await _run(self._tier_runner, lambda: self._verify(topic_id, segment, name), name)

    async def put_manifest(self, manifest: Manifest) -> None:
        """Keep a manifest whose segments are here, durably. Raises StorageUnavailableError."""
        name = manifest_name(manifest.topic_id, manifest.version)
        content = encode_manifest(manifest)
        await _run(self._flush_runner, lambda: self._writing_tier.put(name, [content]), name)

    def adopt(self, record: TopicStorage, manifest: Manifest) -> None:
        """Go on with a topic that this broker owns by this record, and whose files are here."""
        history = TopicHistory(record, manifest)
        self._journal.forget(record.topic_id)
        self._topics.deleted.discard(record.topic_id)
        self._topics.unnamed.discard(record.topic_id)
        self._topics.refused.pop(record.topic_id, None)
        self._journal.adopt(base_of(history))
        self._topics.histories.put(history)

    async def load(self, record: TopicStorage) -> None:
        """Go on with a topic that this broker owns, and may not know of: the answer of metadata was lost."""
        if self._topics.histories.get(record.topic_id) is not None or record.topic_id in self._topics.refused:
            return
        try:
            history = await self._tier_runner.run(lambda: load_history(self._reading_tier, record))
        except DanubeError as error:
            self._topics.refused[record.topic_id] = error
        else:
            self.adopt(record, history.manifest)

    async def begin_copy(self, topic_id: int) -> None:
        """Mark what is copied from now on as a copy, durably. Raises StorageUnavailableError."""
        await _run(self._flush_runner, lambda: self._mark(topic_id), folder_of(topic_id))

    async def end_copy(self, topic_id: int) -> None:
        """Remove the mark, durably, before metadata may name this broker: the owner before removes its files then."""
        await _run(self._flush_runner, lambda: self._unmark(topic_id), folder_of(topic_id))

    async def abandon(self, topic_id: int) -> None:
        """Remove a copy of a topic that never was this broker's: its owner has all of it.

        Raises StorageUnavailableError.
        """
        folder = folder_of(topic_id)
        if not await _run(self._tier_runner, lambda: is_copy(self._reading_tier, topic_id), folder):
            return
        await _run(self._tier_runner, lambda: self._remove(topic_id), folder)
        await _run(self._flush_runner, lambda: self._writing_tier.close_folder(folder), folder)

    async def copies(self) -> Collection[int]:
        """Topics of which there are copies here that are no more than that. Raises StorageUnavailableError."""
        return await _run(self._tier_runner, self._find_copies, SEGMENTS)

    def _find_copies(self) -> Collection[int]:
        ids = {int(name) for name in self._reading_tier.list(SEGMENTS) if name.isdecimal()}
        return {each for each in ids if self._topics.histories.get(each) is None and is_copy(self._reading_tier, each)}

    def _mark(self, topic_id: int) -> None:
        folder = folder_of(topic_id)
        self._disk.make_folder(folder)
        with contextlib.suppress(FileExistsError):
            self._disk.create_whole(f"{folder}/{COPY}", [b""])

    def _unmark(self, topic_id: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._disk.remove(f"{folder_of(topic_id)}/{COPY}")
        self._disk.sync_folder(folder_of(topic_id))

    def _verify(self, topic_id: int, segment: Segment, name: str) -> None:
        try:
            if self._disk.exists(name):  # else it is in an object store, which both brokers read
                self._reader.verify(topic_id, segment)
        except DamagedDataError as error:
            self._reader.forget(topic_id)
            self._disk.remove(name)
            raise DamagedDataError(
                f"{name}, as its owner reads it, is damaged: `danube-broker storage verify` says there what is left"
            ) from error

    def _remove(self, topic_id: int) -> None:
        self._reader.forget(topic_id)
        self._reading_tier.delete_folder(folder_of(topic_id))


def _file_name(topic_id: int, segment: Segment) -> str:
    return segment_name(topic_id, segment).rpartition("/")[2]


async def _run(runner: BlockingRunner, work: Callable[[], T], name: str) -> T:
    try:
        return await runner.run(work)
    except OSError as error:
        raise _unavailable(error, name) from error


def _unavailable(error: OSError, name: str) -> StorageUnavailableError:
    return StorageUnavailableError(f"a log could not be copied: {fault_of(error, name)}")
