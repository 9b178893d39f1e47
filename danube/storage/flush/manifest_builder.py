"""Making the next generation of a topic's history: segments first, then the manifest that lists them. All of it blocks.

Nothing that is written here counts before metadata names it (`publishing.py`), so a crash anywhere leaves only orphans.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from danube.metadata.records.storage import TopicStorage
from danube.model.errors import DamagedDataError, DataFolderError, StorageUnavailableError
from danube.model.subscription import Cursor
from danube.runtime.disk import is_full
from danube.storage.flush.flush_plan import (
    Piece,
    ProducerStates,
    epochs_after,
    manifest_after_flush,
    manifest_without,
    plan_pieces,
)
from danube.storage.flush.manifest_versions import History, remaining_tails
from danube.storage.flush.orphans import (
    highest_manifest_version,
    manifest_versions_of,
    of_manifest_version,
    orphans,
    unfinished,
)
from danube.storage.journal.files import FOLDER, FileTable
from danube.storage.journal.index import IndexRun, joined
from danube.storage.journal.reader import JournalReader
from danube.storage.segment.codec import Codec
from danube.storage.segment.format import EncodedBatch
from danube.storage.segment.manifest import Manifest, Segment, folder_of, manifest_name, segment_name
from danube.storage.segment.manifest_format import encode_manifest
from danube.storage.segment.reader import SegmentReader
from danube.storage.segment.writer import encode_segment
from danube.storage.tiers.tier import SegmentTier

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFlush:
    """What a cut of one topic is made of, as the event loop saw it."""

    history: History
    find_own: Callable[[], IndexRun]
    """Its batches that are in no segment, up to `position`; called in the thread that cuts."""
    files: FileTable
    """Of the journal that they are in."""
    journal_id: int
    position: int
    merges: bool = True
    """Whether small segments are merged, which needs room for them twice."""
    cursors: Mapping[int, Cursor] = field(default_factory=dict)
    producer_states: ProducerStates = ()
    find_previous_owner_tails: Callable[[], Sequence["Run"]] = list
    """What is in journals of former owners, oldest first: it goes on where the segments end. Called as the other."""


@dataclass(frozen=True, slots=True)
class Run:
    """Batches that follow on each other in the journal of one folder."""

    folder: str
    files: FileTable
    index: IndexRun

    def __len__(self) -> int:
        """How many batches."""
        return len(self.index)

    def part(self, numbers: range) -> "Run":
        """Those of these numbers."""
        return Run(self.folder, self.files, self.index.part(numbers))


@dataclass(frozen=True, slots=True)
class ManifestVersion:
    """A generation that is written and waits to be named by metadata."""

    history: History
    manifest: Manifest
    orphans: Sequence[str]
    """Files that nobody needs once it is named."""
    written_bytes: int
    merged: int
    """Segments that are a part of larger ones now."""

    @property
    def change(self) -> tuple[TopicStorage, int]:
        """What metadata is to be told; epochs that are all in segments are told of no more."""
        record = self.history.record
        return replace(record, epochs=epochs_after(record, self.manifest.end_offset)), self.manifest.generation


class ManifestBuilder:
    """Writes generations into one tier. Owned by one thread at a time; it holds one segment in memory at most.

    It works block by block and rests in between: with small batches that is much Python, and the event loop waits.

    What fails half-way is removed at once, or retries would fill the disk. Others may write to the same folders, with
    generations of their own (`sweeping.py`): their files are left alone.
    """

    def __init__(
        self,
        tier: SegmentTier,
        open_journal: Callable[[str], JournalReader],
        folder: str = FOLDER,
        *,
        segment_bytes_max: int,
        codec: Codec,
        rest: Callable[[], None],
    ) -> None:
        """`folder` is that of the broker's own journal. `rest` is called between pieces of work."""
        self._tier = tier
        self._open_journal = open_journal
        self._folder = folder
        self._journal = open_journal(folder)
        self._segments = SegmentReader(tier)
        self.segment_bytes_max = segment_bytes_max
        self._codec = codec
        self._rest = rest

    def flush(self, flush: TopicFlush) -> ManifestVersion:
        """The generation with the batches of a journal in it. Raises DanubeError, OSError, ValueError."""
        try:
            return self._cut(flush)
        finally:  # what was merged, or the whole topic, is deleted elsewhere, and open it takes up room
            self._segments.forget(flush.history.manifest.topic_id)

    def trim(self, history: History, dropped: int) -> ManifestVersion:
        """The generation without the first `dropped` segments. Raises DanubeError, OSError, ValueError."""
        names = self._tier.list(folder_of(history.manifest.topic_id))
        manifest = manifest_without(history.manifest, _next_manifest_version(history, names), dropped)
        with self._whole_or_nothing(history, manifest.generation):
            return self._put(history, manifest, names)

    def orphans(self, manifest: Manifest) -> list[str]:
        """The files of a topic that nobody needs. Raises OSError."""
        return orphans(self._tier.list(folder_of(manifest.topic_id)), manifest)

    def forget_journal_below(self, sequence: int) -> None:
        """Journal files before this one are removed: keep none of them open."""
        self._journal.forget_below(sequence)

    def close(self) -> None:
        """Let go of files that are kept open."""
        self._journal.close()
        self._tier.close()

    def _cut(self, flush: TopicFlush) -> ManifestVersion:
        before = flush.history.manifest
        runs = [*flush.find_previous_owner_tails(), Run(self._folder, flush.files, flush.find_own())]
        _check_unbroken(before, runs)
        fresh = joined([run.index for run in runs if len(run)])
        plan = partial(plan_pieces, before.segments, fresh, self.segment_bytes_max)
        pieces = plan(merges=flush.merges)
        try:
            return self._write(flush, pieces, runs)
        except (DamagedDataError, DataFolderError, StorageUnavailableError, OSError) as error:
            if not any(piece.merges for piece in pieces):
                raise
            _log.warning("segments of topic %d are not merged: %s", before.topic_id, error)
            # What is in the journal need not wait for what cannot be read, or for the room: it would keep every file.
            return self._write(flush, plan(merges=False), runs)

    def _write(self, flush: TopicFlush, pieces: Sequence[Piece], runs: Sequence[Run]) -> ManifestVersion:
        before = flush.history.manifest
        names = self._tier.list(folder_of(before.topic_id))
        generation = _next_manifest_version(flush.history, names)
        with self._whole_or_nothing(flush.history, generation):
            segments = [
                piece.shape if piece.stays else self._seal(before.topic_id, generation, piece, runs) for piece in pieces
            ]
            manifest = manifest_after_flush(
                before,
                generation,
                segments,
                cursors=flush.cursors,
                producer_states=flush.producer_states,
                journal_id=flush.journal_id,
                position=flush.position,
                epochs=flush.history.record.epochs,
            )
            return self._put(flush.history, manifest, names)

    @contextlib.contextmanager
    def _whole_or_nothing(self, history: History, generation: int) -> Iterator[None]:
        """Where something fails, remove what was put of this generation, which nobody else writes.

        A full disk may be so of what earlier lives put that died at the same: that goes, too.
        """
        folder = folder_of(history.manifest.topic_id)
        try:
            yield
        except Exception as error:
            with contextlib.suppress(OSError):
                for name in of_manifest_version(self._tier.list(folder), generation):
                    self._tier.delete(f"{folder}/{name}")
                if isinstance(error, OSError) and is_full(error):
                    for name in unfinished(self._tier.list(folder), history.record):
                        self._tier.delete(f"{folder}/{name}")
            raise

    def _seal(self, topic_id: int, generation: int, piece: Piece, runs: Sequence[Run]) -> Segment:
        segment, chunks = encode_segment(topic_id, generation, self._batches(topic_id, piece, runs), self._codec)
        self._tier.put(segment_name(topic_id, segment), chunks)
        return segment

    def _batches(self, topic_id: int, piece: Piece, runs: Sequence[Run]) -> Iterator[EncodedBatch]:
        for source in piece.sources:
            for block in self._segments.encoded(topic_id, source):
                yield from block
                self._rest()
        for run in _within(runs, piece.fresh):
            with self._reading(run.folder) as reader:
                for stretch in reader.encoded(topic_id, run.index, run.files):
                    yield from stretch
                    self._rest()

    @contextlib.contextmanager
    def _reading(self, folder: str) -> Iterator[JournalReader]:
        """A reader of the journal in `folder`: files of the own one stay open, there is more to cut in them."""
        if folder == self._folder:
            yield self._journal
            return
        with contextlib.closing(self._open_journal(folder)) as reader:
            yield reader

    def _put(self, history: History, manifest: Manifest, names: Sequence[str]) -> ManifestVersion:
        encoded = encode_manifest(manifest)
        self._tier.put(manifest_name(manifest.topic_id, manifest.generation), [encoded])
        new = [segment for segment in manifest.segments if segment.generation == manifest.generation]
        written = len(encoded) + sum(segment.file_bytes for segment in new)
        merged = len(history.manifest.segments) + len(new) - len(manifest.segments)
        return ManifestVersion(history, manifest, orphans(names, manifest), written, merged)


def blank_history(topic_id: int) -> History:
    """Of a topic that was never cut."""
    return History(TopicStorage(topic_id), Manifest(topic_id=topic_id, generation=0))


def named(generation: ManifestVersion, record: TopicStorage) -> History:
    """The history as it is once metadata names the generation."""
    foreign = remaining_tails(generation.history.foreign, generation.manifest)
    return replace(generation.history, record=record, manifest=generation.manifest, foreign=foreign)


def _next_manifest_version(history: History, names: Sequence[str]) -> int:
    """Above the newest, and above what cuts that died have left: a name is never used for two contents."""
    own = manifest_versions_of(history.record)
    return max(history.record.generation, own.start, highest_manifest_version(names, own)) + 1


def _check_unbroken(before: Manifest, runs: Sequence[Run]) -> None:
    end_offset = before.end_offset
    for run in runs:
        if not len(run):
            continue
        first = run.index.bases[0]
        if first != end_offset:
            raise ValueError(f"the journal in {run.folder} goes on at {first}, what is before it ends at {end_offset}")
        end_offset = run.index.end_offset


def _within(runs: Sequence[Run], numbers: range) -> Iterator[Run]:
    """The batches of these numbers, counted through all runs."""
    first = 0
    for run in runs:
        part = range(max(numbers.start - first, 0), min(numbers.stop - first, len(run)))
        if part:
            yield run.part(part)
        first += len(run)
