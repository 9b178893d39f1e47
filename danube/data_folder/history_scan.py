"""Scan of the segments folder: of each topic its manifest, its segments, and files that nobody needs."""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from danube.data_folder.findings import Finding, damage, note
from danube.data_folder.metadata_view import MetadataView
from danube.metadata.records.record_format import TopicStorage
from danube.model.errors import DamagedDataError
from danube.runtime.disk import Disk, file_size
from danube.storage.flush.manifest_lookup import load_history
from danube.storage.flush.orphans import orphans
from danube.storage.segment.manifest import SEGMENTS, Manifest, Segment, folder_of, manifest_name
from danube.storage.tiers.tier import SegmentTier

_SEGMENT = re.compile(r"([0-9]{20})-([0-9]{10,})\.segment")
_TOPIC = re.compile(r"[1-9][0-9]{0,19}|0")


@dataclass(slots=True)
class TopicHistory:
    """One topic's history outside the journal."""

    topic_id: int
    record: TopicStorage
    manifest: Manifest | None
    """None when it is damaged; an empty one when the topic was never flushed."""
    files: tuple[str, ...] = ()
    """In its folder, named within the data folder."""
    orphans: tuple[str, ...] = ()
    """Files that nothing names any more."""
    findings: list[Finding] = field(default_factory=list)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """As the manifest lists them."""
        return self.manifest.segments if self.manifest is not None else ()


def topic_ids(disk: Disk, view: MetadataView) -> list[int]:
    """All topics that metadata knows, or that have a folder; ascending. Raises OSError."""
    found = {int(name) for name in _listed(disk, SEGMENTS) if _TOPIC.fullmatch(name)}
    return sorted(found | set(view.topics) | set(view.records))


def scan_history(disk: Disk, tier: SegmentTier, view: MetadataView, topic_id: int) -> TopicHistory:
    """The history of one topic. Raises StorageUnavailableError, DataFolderError."""
    record = view.record(topic_id)
    folder = folder_of(topic_id)
    files = tuple(f"{folder}/{name}" for name in _listed(disk, folder))
    if not view.is_blind and topic_id not in view.topics:
        return _abandoned(topic_id, record, files, is_deleted=topic_id in view.deleted)
    if view.is_blind:
        record = TopicStorage(topic_id, manifest_version=max((_manifest_version(name) for name in files), default=0))
    try:
        manifest = load_history(tier, record).manifest
    except DamagedDataError as error:
        return TopicHistory(topic_id, record, None, files, findings=[_damaged(disk, topic_id, record, error)])
    gone = orphans(tier.list(folder), manifest)
    partial = [name for name in files if name.endswith(".new")]
    found = TopicHistory(topic_id, record, manifest, files, tuple(sorted({*gone, *partial})))
    what = "nothing names this file any more: the next start removes it"
    found.findings = [note(name, what, topic_id=topic_id) for name in found.orphans]
    return found


def segment_of(name: str) -> tuple[int, int] | None:
    """Base offset and manifest version of the segment with this name; None when it is none."""
    found = _SEGMENT.fullmatch(name.rpartition("/")[2])
    return (int(found[1]), int(found[2])) if found else None


def unlisted_segments(history: TopicHistory) -> list[str]:
    """The segments in the folder of a topic whose manifest cannot be read, in offset order, of one start the newest.

    One of a later version than any manifest may be half done: of a flush or a repair that died.
    """
    newest = max([history.record.manifest_version, *(_manifest_version(name) for name in history.files)])
    named = [(found, name) for name in history.files if (found := segment_of(name)) is not None]
    return [name for (_, manifest_version), name in sorted(named, key=_by_offset) if manifest_version <= newest]


def _by_offset(named: tuple[tuple[int, int], str]) -> tuple[int, int]:
    (base_offset, manifest_version), _ = named
    return base_offset, -manifest_version


def _abandoned(topic_id: int, record: TopicStorage, files: tuple[str, ...], *, is_deleted: bool) -> TopicHistory:
    what = "its topic was deleted" if is_deleted else "no topic has this id"
    found = TopicHistory(topic_id, record, Manifest(topic_id=topic_id, version=0), files, orphans=files)
    found.findings = [note(name, what, topic_id=topic_id) for name in files]
    return found


def _damaged(disk: Disk, topic_id: int, record: TopicStorage, error: DamagedDataError) -> Finding:
    name = manifest_name(topic_id, record.manifest_version)
    what = str(error).removeprefix(f"{name} is damaged: ").partition(". ")[0]
    return damage(name, what, range(size_of(disk, name)), topic_id=topic_id)


def _manifest_version(name: str) -> int:
    stem = name.rpartition("/")[2].removesuffix(".manifest")
    return int(stem) if name.endswith(".manifest") and stem.isdigit() else 0


def size_of(disk: Disk, name: str) -> int:
    """Length of a file; 0 of one that is not there."""
    with contextlib.suppress(FileNotFoundError):
        return file_size(disk, name)
    return 0


def _listed(disk: Disk, folder: str) -> Iterator[str]:
    with contextlib.suppress(FileNotFoundError):
        yield from disk.list(folder)
