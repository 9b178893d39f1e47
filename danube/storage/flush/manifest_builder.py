"""Builds the next manifest version of a topic: segments first, then the manifest that lists them. All of it blocks.

Nothing counts before metadata names it (`manifest_commit.py`), so a crash anywhere leaves only orphans.
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
from danube.storage.batches.stored_batch import EncodedBatch
from danube.storage.environment import StorageEnvironment
from danube.storage.flush.flush_plan import (
    Piece,
    ProducerStates,
    epochs_after,
    manifest_after_flush,
    manifest_without,
    plan_pieces,
)
from danube.storage.flush.orphans import (
    highest_manifest_version,
    manifest_versions_of,
    of_manifest_version,
    orphans,
    unfinished,
)
from danube.storage.journal.index import FileTable, IndexRun, joined
from danube.storage.journal.reader import JournalReader
from danube.storage.log.histories import TopicHistory, remaining_tails
from danube.storage.segment.manifest import Manifest, Segment, folder_of, manifest_name, segment_name
from danube.storage.segment.manifest_format import encode_manifest
from danube.storage.segment.reader import SegmentReader
from danube.storage.segment.writer import encode_segment

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFlush:
    """Input of one topic's flush, as the event loop saw it."""

    history: TopicHistory
    find_own: Callable[[], IndexRun]
    """Its batches that are in no segment, up to `position`; called in the thread that flushes."""
    files: FileTable
    """Of the journal that they are in."""
    journal_id: int
    position: int
    merges: bool = True
    """True if small segments are merged, which needs room for them twice."""
    cursors: Mapping[int, Cursor] = field(default_factory=dict)
    producer_states: ProducerStates = ()
    find_previous_owner_tails: Callable[[], Sequence["Run"]] = list
    """Batches in former owners' journals, oldest first, from where the segments end. Called as `find_own`."""


@dataclass(frozen=True, slots=True)
class Run:
    """Batches that follow on each other in the journal of one folder."""

    folder: str
    files: FileTable
    index: IndexRun

    def __len__(self) -> int:
        """Number of batches."""
        return len(self.index)

    def part(self, numbers: range) -> "Run":
        """The batches of these numbers."""
        return Run(self.folder, self.files, self.index.part(numbers))


@dataclass(frozen=True, slots=True)
class ManifestVersion:
    """A manifest that is written and waits to be named by metadata."""

    history: TopicHistory
    manifest: Manifest
    orphans: Sequence[str]
    """Files that are not needed once it is named."""
    written_bytes: int
    merged: int
    """Segments that are a part of larger ones now."""

    @property
    def change(self) -> tuple[TopicStorage, int]:
        """The change of the topic's record, without epochs that are all in segments."""
        record = self.history.record
        return replace(record, epochs=epochs_after(record, self.manifest.end_offset)), self.manifest.version


class ManifestBuilder:
    """Writes manifest versions into one tier, with one segment in memory at most. Owned by one thread at a time.

    It rests between blocks: small batches take much Python time, and the event loop waits. The files of a failed build
    are removed at once, or retries would fill the disk. Other brokers' files in the same folder are left alone.
    """

    def __init__(self, environment: StorageEnvironment, folder: str) -> None:
        """`folder` is that of the broker's own journal."""
        self._tier = environment.writing_tier
        self._open_journal = partial(JournalReader, environment.disk)
        self._folder = folder
        self._journal = self._open_journal(folder)
        self._segments = SegmentReader(self._tier)
        self.segment_bytes_max = environment.settings.segment_bytes_max
        self._codec = environment.settings.codec
        self._rest = environment.flush_runner.rest

    def flush(self, flush: TopicFlush) -> ManifestVersion:
        """Build the version with the batches of a journal. Raises DanubeError, OSError, ValueError."""
        try:
            return self._flush(flush)
        finally:  # what was merged, or the whole topic, is deleted elsewhere, and open it takes up room
            self._segments.forget(flush.history.manifest.topic_id)

    def trim(self, history: TopicHistory, dropped: int) -> ManifestVersion:
        """Build the version without the first `dropped` segments. Raises DanubeError, OSError, ValueError."""
        names = self._tier.list(folder_of(history.manifest.topic_id))
        manifest = manifest_without(history.manifest, _next_manifest_version(history, names), dropped)
        with self._whole_or_nothing(history, manifest.version):
            return self._put_manifest(history, manifest, names)

    def orphans(self, manifest: Manifest) -> list[str]:
        """The files of a topic that are not needed. Raises OSError."""
        return orphans(self._tier.list(folder_of(manifest.topic_id)), manifest)

    def forget_journal_below(self, sequence: int) -> None:
        """Close the journal files before this one, which are removed."""
        self._journal.close_below(sequence)

    def close(self) -> None:
        """Close the files that are kept open."""
        self._journal.close()
        self._tier.close()

    def _flush(self, flush: TopicFlush) -> ManifestVersion:
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
            # The journal need not wait for unreadable segments or for room: it would keep every file.
            return self._write(flush, plan(merges=False), runs)

    def _write(self, flush: TopicFlush, pieces: Sequence[Piece], runs: Sequence[Run]) -> ManifestVersion:
        before = flush.history.manifest
        names = self._tier.list(folder_of(before.topic_id))
        manifest_version = _next_manifest_version(flush.history, names)
        with self._whole_or_nothing(flush.history, manifest_version):
            segments = [
                piece.shape if piece.stays else self._seal(before.topic_id, manifest_version, piece, runs)
                for piece in pieces
            ]
            manifest = manifest_after_flush(
                before,
                manifest_version,
                segments,
                cursors=flush.cursors,
                producer_states=flush.producer_states,
                journal_id=flush.journal_id,
                position=flush.position,
                epochs=flush.history.record.epochs,
            )
            return self._put_manifest(flush.history, manifest, names)

    @contextlib.contextmanager
    def _whole_or_nothing(self, history: TopicHistory, manifest_version: int) -> Iterator[None]:
        """On a failure, remove the files of this manifest version, and on a full disk those of builds that died."""
        folder = folder_of(history.manifest.topic_id)
        try:
            yield
        except Exception as error:
            with contextlib.suppress(OSError):
                for name in of_manifest_version(self._tier.list(folder), manifest_version):
                    self._tier.delete(f"{folder}/{name}")
                if isinstance(error, OSError) and is_full(error):
                    for name in unfinished(self._tier.list(folder), history.record):
                        self._tier.delete(f"{folder}/{name}")
            raise

    def _seal(self, topic_id: int, manifest_version: int, piece: Piece, runs: Sequence[Run]) -> Segment:
        segment, chunks = encode_segment(topic_id, manifest_version, self._batches(topic_id, piece, runs), self._codec)
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
        """A reader of the journal in `folder`; files of the broker's own stay open for the next flush."""
        if folder == self._folder:
            yield self._journal
            return
        with contextlib.closing(self._open_journal(folder)) as reader:
            yield reader

    def _put_manifest(self, history: TopicHistory, manifest: Manifest, names: Sequence[str]) -> ManifestVersion:
        encoded = encode_manifest(manifest)
        self._tier.put(manifest_name(manifest.topic_id, manifest.version), [encoded])
        new = [segment for segment in manifest.segments if segment.manifest_version == manifest.version]
        written = len(encoded) + sum(segment.file_bytes for segment in new)
        merged = len(history.manifest.segments) + len(new) - len(manifest.segments)
        return ManifestVersion(history, manifest, orphans(names, manifest), written, merged)


def blank_history(topic_id: int) -> TopicHistory:
    """History of a topic that was never flushed."""
    return TopicHistory(TopicStorage(topic_id), Manifest(topic_id=topic_id, version=0))


def named(manifest_version: ManifestVersion, record: TopicStorage) -> TopicHistory:
    """The history as it is once metadata names the manifest version."""
    tails = remaining_tails(manifest_version.history.tails, manifest_version.manifest)
    return replace(manifest_version.history, record=record, manifest=manifest_version.manifest, tails=tails)


def _next_manifest_version(history: TopicHistory, names: Sequence[str]) -> int:
    """Above the newest and above files of flushes that died: a name is never used for two contents."""
    own = manifest_versions_of(history.record)
    return max(history.record.manifest_version, own.start, highest_manifest_version(names, own)) + 1


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
