"""Manifest: one topic's segments, cursors and producer states outside the journal. Pure.

A manifest is immutable. Each change makes the next version, which is written whole; the metadata store holds the number
of the newest (`danube/metadata/records/storage.py`), and only that one counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from danube.model.subscription import Cursor
from danube.storage.batches.producer_state import StoredNumbers

SEGMENTS = "segments"
"""The folder of all topics' folders within a tier."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One sealed file of a topic's history."""

    base_offset: int
    end_offset: int
    """The offset after the last record."""
    manifest_version: int
    """Of the manifest that listed it first: with the base offset it names the file."""
    first_append_time_ms: int
    last_append_time_ms: int
    batches: int
    body_bytes: int
    """Of the batches' bodies, as they were before any compression."""
    file_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One version of the manifest of a topic."""

    topic_id: int
    version: int
    start_offset: int = 0
    """The first offset that can be read; what is below it was removed by retention."""
    end_offset: int = 0
    """The offset after the last record that is, or was, in a segment."""
    last_append_time_ms: int = 0
    """Of that record; 0 when there never was one."""
    segments: tuple[Segment, ...] = ()
    """In offset order, without a gap, from `start_offset` to `end_offset`."""
    cursors: Mapping[int, Cursor] = field(default_factory=dict)
    """By subscription id: as they stood when the manifest was made, or later."""
    producer_states: tuple[tuple[StoredNumbers, ...], ...] = ()
    """The last numbered batches, a tuple for each row; the row that stored nothing for longest comes first."""
    journals: Mapping[int, int] = field(default_factory=dict)
    """By journal id: every record of the topic below this position of that journal is in here, or is void."""

    @property
    def body_bytes(self) -> int:
        """Bytes of the bodies of all segments."""
        return sum(segment.body_bytes for segment in self.segments)

    @property
    def file_bytes(self) -> int:
        """Bytes of the files of all segments."""
        return sum(segment.file_bytes for segment in self.segments)

    def validate(self) -> None:
        """Raise ValueError unless the segments are an unbroken run and the times do not go back."""
        if not self.segments:
            if self.start_offset != self.end_offset:
                raise ValueError(f"offsets {self.start_offset} to {self.end_offset} are in no segment")
            return
        if (self.segments[0].base_offset, self.segments[-1].end_offset) != (self.start_offset, self.end_offset):
            raise ValueError(f"the segments are not offsets {self.start_offset} to {self.end_offset}")
        for one in self.segments:
            if one.base_offset >= one.end_offset or one.first_append_time_ms > one.last_append_time_ms:
                raise ValueError(f"the segment at offset {one.base_offset} is empty, or its times go back")
        for before, after in pairwise(self.segments):
            if before.end_offset != after.base_offset or before.last_append_time_ms > after.first_append_time_ms:
                raise ValueError(f"the segment at offset {after.base_offset} does not go on where the last one ended")


def folder_of(topic_id: int) -> str:
    """The folder of a topic's segments and manifests within its tier."""
    return f"{SEGMENTS}/{topic_id}"


def segment_name(topic_id: int, segment: Segment) -> str:
    """The name of a segment within its tier."""
    return f"{folder_of(topic_id)}/{segment.base_offset:020d}-{segment.manifest_version:010d}.segment"


def manifest_name(topic_id: int, version: int) -> str:
    """The name of a manifest within its tier."""
    return f"{folder_of(topic_id)}/{version:010d}.manifest"
