"""Writer of a topic's repaired log: its segments, then the manifest. Nothing counts until metadata names it."""

from bisect import bisect_left
from collections.abc import Iterator

from danube.data_folder.history_scan import size_of
from danube.model.limits.broker import SEGMENT_BYTES_MAX
from danube.offline.storage.repair.repair_decision import Rewrite, Stay
from danube.offline.storage.repair.repair_plan import TopicRepair
from danube.offline.storage.scan.journal_contents import JournalTopic
from danube.offline.storage.scan.scan import Progress
from danube.offline.storage.scan.segment_scan import SegmentScan
from danube.runtime.disk import Disk
from danube.storage.batches.placeholder import placeholders
from danube.storage.batches.stored_batch import EncodedBatch
from danube.storage.journal.folder import FOLDER
from danube.storage.journal.index import FileTable
from danube.storage.journal.reader import JournalReader
from danube.storage.segment.manifest import Manifest, Segment, manifest_name, segment_name
from danube.storage.segment.manifest_format import encode_manifest
from danube.storage.segment.writer import encode_segment, split
from danube.storage.tiers.directory import DirectoryTier

_PLACES_MAX = 256  # batches of the journal that are read at once
_TOLD_BYTES = 1024 * 1024  # not each batch is told of: whoever draws a bar takes longer than the batch


class RepairedLogWriter:
    """Writes into the tier of one data folder. It holds one segment in memory at most. Raises OSError."""

    def __init__(
        self,
        disk: Disk,
        files: FileTable,
        progress: Progress = lambda _: None,
        *,
        segment_bytes_max: int = SEGMENT_BYTES_MAX,
    ) -> None:
        """`progress` is called with how many bytes more of `rewritten_bytes` were written."""
        self._tier = DirectoryTier(disk)
        self._journal = JournalReader(disk)
        self._files = files
        self._progress = progress
        self._untold_bytes = 0
        self._segment_bytes_max = segment_bytes_max

    def write(self, repair: TopicRepair, topic: JournalTopic) -> Manifest:
        """Write all of a topic's next manifest version; what stays of it is not touched."""
        segments: list[Segment] = []
        for step in repair.repaired.steps:
            if isinstance(step, Stay):
                segments.append(step.segment)
            else:
                segments += self._rewrite(repair, topic, step, segments[-1].last_append_time_ms if segments else 0)
        manifest = _manifest(repair, segments)
        name = manifest_name(repair.topic_id, repair.manifest_version)
        self._tier.put(name, [encode_manifest(manifest)])
        self._tell(0)
        return manifest

    def close(self) -> None:
        """Let go of files."""
        self._journal.close()
        self._tier.close()

    def _tell(self, size: int, *, at_least: int = 1) -> None:
        self._untold_bytes += size
        if self._untold_bytes >= at_least:
            self._progress(self._untold_bytes)
            self._untold_bytes = 0

    def _rewrite(self, repair: TopicRepair, topic: JournalTopic, step: Rewrite, time_ms: int) -> Iterator[Segment]:
        batches = self._contiguous(repair, topic, step, time_ms)
        for part in split(batches, self._segment_bytes_max, lambda batch: batch.body_bytes):
            yield self._seal(repair, part)

    def _seal(self, repair: TopicRepair, batches: list[EncodedBatch]) -> Segment:
        segment, chunks = encode_segment(repair.topic_id, repair.manifest_version, batches)
        self._tier.put(segment_name(repair.topic_id, segment), chunks)
        return segment

    def _contiguous(
        self, repair: TopicRepair, topic: JournalTopic, step: Rewrite, time_ms: int
    ) -> Iterator[EncodedBatch]:
        """The batches of all parts, each going on where the one before it ended; what is not there is a placeholder."""
        at = step.parts[0][1].start
        for name, part in step.parts:
            for batch in self._batches(repair.topic_id, topic, name, part):
                if batch.base_offset < at or batch.end_offset > part.stop:
                    continue
                if batch.base_offset > at:
                    yield from placeholders(repair.topic_id, repair.name, range(at, batch.base_offset), time_ms)
                yield batch
                self._tell(batch.body_bytes, at_least=_TOLD_BYTES)
                at, time_ms = batch.end_offset, batch.append_time_ms
            if at < part.stop:
                yield from placeholders(repair.topic_id, repair.name, range(at, part.stop), time_ms)
                at = part.stop

    def _batches(self, topic_id: int, topic: JournalTopic, name: str | None, part: range) -> Iterator[EncodedBatch]:
        if name is None:
            return
        if name != FOLDER:
            yield from SegmentScan(self._tier, name, topic_id).batches()
            return
        numbers = _numbers(topic, part)
        for first in range(0, len(numbers), _PLACES_MAX):
            located = [topic[number] for number in numbers[first : first + _PLACES_MAX]]
            yield from self._journal.encoded_at(topic_id, located, self._files)


def rewritten_bytes(disk: Disk, repair: TopicRepair, topic: JournalTopic) -> int:
    """Bytes of a topic's batches that are written anew, roughly: segments count with their whole files."""
    parts = [part for step in repair.repaired.steps if isinstance(step, Rewrite) for part in step.parts]
    segments = {name for name, _ in parts if name not in {None, FOLDER}}
    journal = [number for name, part in parts if name == FOLDER for number in _numbers(topic, part)]
    return sum(size_of(disk, name) for name in segments) + sum(topic.lengths[number] for number in journal)


def _numbers(topic: JournalTopic, offsets: range) -> range:
    return range(bisect_left(topic.bases, offsets.start), bisect_left(topic.bases, offsets.stop))


def _manifest(repair: TopicRepair, segments: list[Segment]) -> Manifest:
    repaired = repair.repaired
    return Manifest(
        topic_id=repair.topic_id,
        version=repair.manifest_version,
        start_offset=repaired.start_offset,
        end_offset=repaired.end_offset,
        last_append_time_ms=segments[-1].last_append_time_ms if segments else repair.last_append_time_ms,
        segments=tuple(segments),
        cursors=repair.cursors,
        producer_states=repair.producer_states,
        journals=repair.journals,
    )
