"""A `SegmentTier` on a disk whose older segments are in an object store, and the mover that takes them there.

A segment is on the disk, or in the store, or in both for a moment: it leaves the disk after the store has answered it
back byte for byte. Manifests stay on the disk.
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from danube.model.limits.objects import TIER_PASS_SEGMENTS_MAX, TIER_SEGMENT_BYTES_MIN
from danube.runtime.disk import Buffer, Disk
from danube.storage.object_store.object_tier import ObjectTier
from danube.storage.segment.manifest import Manifest, Segment, folder_of, segment_name
from danube.storage.tiers.directory import DirectoryTier
from danube.storage.tiers.tier import SegmentTier, Take

MARKER = "object-tier"
"""File in a folder whose segments are partly in an object store: it holds the URL."""

_log = logging.getLogger(__name__)


class TieredTier(SegmentTier):
    """Reads what is on the disk there, and else in the store. Owned by one thread at a time."""

    def __init__(self, disk: Disk, remote: ObjectTier) -> None:
        self._disk = disk
        self._local = DirectoryTier(disk)
        self._remote = remote

    def put(self, name: str, chunks: Sequence[Buffer]) -> None:
        self._local.put(name, chunks)

    def read(self, name: str, position: int, length: int) -> bytes:
        with contextlib.suppress(FileNotFoundError):
            return self._local.read(name, position, length)
        return self._remote.read(name, position, length)

    def expect(self, name: str, position: int, length: int) -> None:
        self._of(name).expect(name, position, length)

    def read_run(self, name: str, position: int, lengths: Sequence[int]) -> Iterator[bytes]:
        yield from self._of(name).read_run(name, position, lengths)

    def open_run(self, name: str, position: int, length: int) -> Take:
        with contextlib.suppress(FileNotFoundError):
            return self._local.open_run(name, position, length)
        return self._remote.open_run(name, position, length)

    def size(self, name: str) -> int:
        with contextlib.suppress(FileNotFoundError):
            return self._local.size(name)
        return self._remote.size(name)

    def list(self, folder: str) -> list[str]:
        return sorted({*self._local.list(folder), *self._remote.list(folder)})

    def delete(self, name: str) -> None:
        self._local.delete(name)
        if name.endswith(_SEGMENT):
            self._remote.delete(name)

    def delete_folder(self, folder: str) -> None:
        """The store first: as long as the folder is there, it is tried again."""
        self._remote.delete_folder(folder)
        self._local.delete_folder(folder)

    def close_folder(self, folder: str) -> None:
        self._local.close_folder(folder)

    def close(self) -> None:
        self._local.close()

    def _of(self, name: str) -> SegmentTier:
        return self._local if self._disk.exists(name) else self._remote


_SEGMENT = ".segment"


@dataclass(slots=True)
class MoveReport:
    """Segments that one pass has moved, and what waits."""

    folders: set[str]
    """Of the moved segments."""
    moved_bytes: int = 0
    waiting_bytes: int = 0
    """On the disk, and due."""


class SegmentMover:
    """Moves sealed segments from a disk into an object store, by policy. In the flushing thread only."""

    def __init__(self, disk: Disk, remote: ObjectTier, *, url: str, after_s: float, bytes_min: int) -> None:
        self._disk = disk
        self._local = DirectoryTier(disk)
        self._remote = remote
        self._url = url
        self._after_ms = after_s * 1_000
        self._bytes_min = bytes_min or TIER_SEGMENT_BYTES_MIN
        self._is_marked = False
        self._moved: dict[int, frozenset[Segment]] = {}

    def moved(self, topic_id: int) -> frozenset[Segment]:
        """The topic's segments that are in the store, as of the last pass."""
        return self._moved.get(topic_id, frozenset())

    def move(self, manifests: Iterable[Manifest], now_ms: int, *, is_room_short: bool) -> MoveReport:
        """One bounded pass, the oldest segments of each topic first. With little room, age and size do not matter.

        Raises OSError; what was moved before is moved.
        """
        report, left = MoveReport(set()), TIER_PASS_SEGMENTS_MAX
        for manifest in manifests:
            moved = set(self._known(manifest))
            for segment in manifest.segments:
                name = segment_name(manifest.topic_id, segment)
                if segment in moved or not (is_room_short or self._is_due(segment, now_ms)):
                    continue
                if not self._disk.exists(name):
                    moved.add(segment)
                    continue
                if left == 0:
                    report.waiting_bytes += segment.file_bytes
                    continue
                self._move(name, segment)
                moved.add(segment)
                left -= 1
                report.folders.add(folder_of(manifest.topic_id))
                report.moved_bytes += segment.file_bytes
            self._moved[manifest.topic_id] = frozenset(moved)
        return report

    def _known(self, manifest: Manifest) -> frozenset[Segment]:
        """Segments that are in the store: looked up once, since only this pass moves them."""
        known = self._moved.get(manifest.topic_id)
        if known is not None:
            return known.intersection(manifest.segments)
        of = manifest.topic_id
        return frozenset(one for one in manifest.segments if not self._disk.exists(segment_name(of, one)))

    def _is_due(self, segment: Segment, now_ms: int) -> bool:
        return segment.file_bytes >= self._bytes_min and now_ms - segment.last_append_time_ms >= self._after_ms

    def _move(self, name: str, segment: Segment) -> None:
        if not self._is_marked:
            self._disk.replace_file(MARKER, self._url.encode())
            self._is_marked = True
        content = self._local.read(name, 0, segment.file_bytes)
        self._remote.put(name, [content])
        if self._remote.read_back(name) != content:
            raise OSError(f"{name} in {self._url} is not what was uploaded: it stays on the disk. Check the store")
        self._local.delete(name)


@dataclass(frozen=True, slots=True)
class Tiering:
    """Parts of a storage whose older segments go into an object store."""

    make_tier: Callable[[], SegmentTier]
    mover: SegmentMover
