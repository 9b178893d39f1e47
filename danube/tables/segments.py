"""Segments of a shared folder or bucket, read without a broker: the same batches as a broker would send.

The newest manifest of a topic lists its segments (`docs/formats/manifest.md`); what is behind its end is still in a
broker's journal, and comes from the broker. A manifest that an interrupted flush left behind lists records that the
journal has, too: their offsets and bytes are the same.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from danube.model.calls.stream import FetchedBatch
from danube.model.errors import DamagedDataError, DanubeError, PreconditionFailedError, SettingsError
from danube.model.limits.broker import MIB
from danube.model.limits.objects import OBJECT_READS_AHEAD
from danube.objects.bill import Bill, Cause
from danube.objects.opening import open_objects
from danube.objects.place import Adapter, ObjectPlace
from danube.objects.retrying import RetryingStore
from danube.runtime.clock import SystemClock
from danube.runtime.disk import LocalDisk
from danube.runtime.paths import expanded
from danube.runtime.rng import SystemRng
from danube.storage.batches.stored_batch import StoredBatch
from danube.storage.object_store.object_tier import BlockCache, ObjectTier
from danube.storage.object_store.side_by_side import SideBySide
from danube.storage.segment.manifest import SEGMENTS, Manifest, folder_of
from danube.storage.segment.manifest_format import decode_manifest
from danube.storage.segment.reader import SegmentReader
from danube.storage.tiers.directory import DirectoryTier
from danube.storage.tiers.tier import SegmentTier
from danube.tables.planning import OffsetRange

SEGMENT_READ_BYTES = 4 * MIB
"""Bodies of one read of segments in a shared folder: a few blocks, so that each is read once."""
_MANIFEST = ".manifest"


def segment_place(text: str) -> Path | ObjectPlace:
    """The place of segments: a folder, or the URL of a bucket and prefix. Raises SettingsError."""
    if "://" in text:
        return ObjectPlace.of(text, adapter=Adapter.S3FS if text.startswith("s3") else Adapter.OBSTORE)
    return expanded(Path(text)).absolute()


class SegmentFolder:
    """A folder or bucket that brokers share, with segments of all topics. Not for several threads."""

    def __init__(self, folder: Path | ObjectPlace) -> None:
        self._tier, self._close = _tier_of(folder)
        self._reader = SegmentReader(self._tier)

    def close(self) -> None:
        """Close files and connections."""
        self._close()

    def manifest(self, topic_id: int) -> Manifest:
        """The newest manifest of a topic; an empty one where there is none yet. Raises DamagedDataError."""
        versions = sorted(name for name in self._tier.list(folder_of(topic_id)) if name.endswith(_MANIFEST))
        if not versions:
            return Manifest(topic_id=topic_id, version=0)
        name = f"{folder_of(topic_id)}/{versions[-1]}"
        found = decode_manifest(self._tier.read(name, 0, self._tier.size(name)))
        if found is None or found.topic_id != topic_id:
            raise DamagedDataError(f"{name} is damaged: read through the brokers")
        return found

    def batches(self, wanted: OffsetRange, manifest: Manifest) -> Iterator[list[FetchedBatch]]:
        """The batches of a range that lies within the manifest. Raises PreconditionFailedError for trimmed records."""
        if wanted.start < manifest.start_offset:
            raise PreconditionFailedError(
                f"offsets {wanted.start} to {manifest.start_offset} (not included) of {wanted.topic} are gone, removed"
                " by its retention: load it again"
            )
        at = wanted.start
        while at < wanted.end:
            stored = self._read(wanted, manifest, at)
            yield [_fetched(batch, at, wanted.end) for batch in stored if batch.base_offset < wanted.end]
            at = stored[-1].end_offset

    def _read(self, wanted: OffsetRange, manifest: Manifest, at: int) -> list[StoredBatch]:
        try:
            return self._reader.read(wanted.topic_id, manifest.segments, at, SEGMENT_READ_BYTES)
        except DanubeError:
            newest = self.manifest(wanted.topic_id)
            if newest.version == manifest.version or at < newest.start_offset:
                raise
            return self._reader.read(wanted.topic_id, newest.segments, at, SEGMENT_READ_BYTES)


def _fetched(batch: StoredBatch, start: int, end: int) -> FetchedBatch:
    return FetchedBatch(
        base_offset=batch.base_offset,
        count=batch.count,
        append_time_ms=batch.append_time_ms,
        body=batch.body,
        first=max(0, start - batch.base_offset),
        end=min(batch.count, end - batch.base_offset),
    )


def close_folders() -> None:
    """Close all folders of this process."""
    while _opened:
        _opened.popitem()[1].close()


def _tier_of(folder: Path | ObjectPlace) -> tuple[SegmentTier, Callable[[], None]]:
    """The tier, and what closes it."""
    if isinstance(folder, ObjectPlace):
        clock = SystemClock()
        bill = Bill(clock.monotonic_s())
        store = RetryingStore(open_objects(folder), clock, SystemRng(), bill=bill, cause=Cause.READ)
        return ObjectTier(store, BlockCache(store, SideBySide(OBJECT_READS_AHEAD))), store.close
    if not (folder / SEGMENTS).is_dir():
        raise SettingsError(f"{folder} has no folder {SEGMENTS}: give the brokers' storage.folder as option folder")
    tier = DirectoryTier(LocalDisk(folder))
    return tier, tier.close


_opened: dict[Path | ObjectPlace, SegmentFolder] = {}
"""The folders of this process: a worker reads many slices of the same one."""


def segment_folder(folder: Path | ObjectPlace) -> SegmentFolder:
    """The folder, opened once in this process. Raises SettingsError."""
    if folder not in _opened:
        _opened[folder] = SegmentFolder(folder)
    return _opened[folder]
