"""Sabotages of the storage: each takes one rule out, and a seed of the simulation notices.

`python -m tests.simulation.sabotages` looks for the first seed of each anew, after the simulation has changed.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from danube.logfile.files import MarkFile
from danube.metadata.records.storage import TopicStorage
from danube.model.errors import JournalStoppedError, StorageUnavailableError
from danube.runtime.disk import Buffer, Disk, File
from danube.storage import opening
from danube.storage.batches.batch import BatchHeader, read_header
from danube.storage.batches.stored_batch import StoredBatch
from danube.storage.flush import flush_plan, manifest_builder, manifest_lookup, segment_flusher
from danube.storage.flush.deletion import TopicDeleter
from danube.storage.flush.manifest_builder import ManifestVersion, TopicFlush
from danube.storage.flush.manifest_commit import ManifestCommitter
from danube.storage.flush.manifest_lookup import FoundHistories, load_history
from danube.storage.flush.segment_flusher import SegmentFlusher
from danube.storage.journal import commit, contents
from danube.storage.journal.commit import GroupCommit
from danube.storage.journal.durable import DurableTopics
from danube.storage.journal.folder import FOLDER, Fence, JournalFolder, first_path, path
from danube.storage.journal.format import FirstFile, encode_first
from danube.storage.journal.index import ClosedFile
from danube.storage.journal.journal import JournalReads
from danube.storage.journal.recovery import Recovery
from danube.storage.journal.walker import RoundReader
from danube.storage.journal.writer import JournalEnd, RoundWriter
from danube.storage.log.topic_log import TopicLog
from danube.storage.retention import enforcer
from danube.storage.retention.retention_clock import RetentionClock
from danube.storage.retention.rules import Retention, segments_to_drop
from danube.storage.segment import block
from danube.storage.segment.manifest import Manifest
from danube.storage.takeover import takeover
from danube.storage.takeover.journal_removal import JournalRemover
from danube.storage.takeover.steps import PROTOCOL, Part, Step
from danube.storage.tiers.directory import DirectoryTier
from danube.storage.tiers.tier import SegmentTier
from lab.simulation import DAMAGE, KINDS, OLD_METADATA, POWER_CUTS, SHARED
from tests.simulation.old_metadata_sabotages import (
    count_what_is_not_synced,
    give_out_ids_again,
    go_by_what_metadata_names,
    refuse_all_for_a_gap,
    take_the_unknown_for_deleted,
)
from tests.simulation.sabotage import Sabotaged, search

# Rules 1 to 4: rounds and the journal's end


def leave_out_syncs(patch: pytest.MonkeyPatch) -> None:
    """Acknowledge what was written, not what was synced."""

    def sync(self: RoundWriter) -> None:
        self.end.synced_to = self.end.position

    patch.setattr(RoundWriter, "sync", sync)


def show_what_is_written(patch: pytest.MonkeyPatch) -> None:
    """Have dispatch and readers see a round before its sync; producers are told after it."""

    async def write_round(self: GroupCommit) -> None:
        taken = self._gather()
        tell = self._on_written
        try:
            written = await self._runner.run(
                lambda: self._writer.write(taken.chunks, taken.content_bytes, taken.envelopes, sync=False)
            )
            tell(taken, written)
            for batch in taken.batches:
                for listener in batch.topic.listeners:
                    listener(batch.topic.durable_end)
            await self._runner.run(self._writer.sync)
        except StorageUnavailableError as error:
            self._fail_round(error)
        except JournalStoppedError as error:
            self._stop(str(error))
        else:
            self._on_written = lambda *_: None
            self._acknowledge(taken, written)
            self._on_written = tell

    patch.setattr(GroupCommit, "_write_round", write_round)


def take_any_body(patch: pytest.MonkeyPatch) -> None:
    """Do not check a body on receipt."""

    def check(body: bytes) -> BatchHeader:
        return read_header(body)

    patch.setattr(commit, "check", check)


def leave_failed_rounds(patch: pytest.MonkeyPatch) -> None:
    """Do not undo a short write."""

    def undo(self: RoundWriter, cause: OSError) -> None:
        raise StorageUnavailableError("not undone") from cause

    patch.setattr(RoundWriter, "_undo", undo)


def retry_failed_syncs(patch: pytest.MonkeyPatch) -> None:
    """After a failed sync, sync again and believe it."""

    def sync(self: RoundWriter) -> None:
        try:
            self._file.sync()
        except OSError:
            self._file.sync()
        self.end.synced_to = self.end.position

    patch.setattr(RoundWriter, "sync", sync)


def keep_torn_ends(patch: pytest.MonkeyPatch) -> None:
    """Append behind what is torn."""

    def settle_end(self: Recovery, end: JournalEnd) -> File:
        file = self._disk.open_append(path(end.sequence))
        file.sync()
        self._disk.sync_folder(FOLDER)
        end.synced_to = end.position
        return file

    patch.setattr(Recovery, "_settle_end", settle_end)


# Rule 5: damage


def take_damage_for_a_torn_end(patch: pytest.MonkeyPatch) -> None:
    """Cut the journal where a round is wrong, whatever is known to be synced behind it."""

    def claimed_beyond(self: RoundReader) -> None:
        return None

    patch.setattr(RoundReader, "claimed_beyond", claimed_beyond)
    miss_no_end(patch)


def miss_no_end(patch: pytest.MonkeyPatch) -> None:
    """Never ask how far the journal is marked."""
    patch.setattr(MarkFile, "read", lambda _: None)


def believe_blocks(patch: pytest.MonkeyPatch) -> None:
    """Read a segment's blocks without their checksums."""
    patch.setattr(block, "is_intact", lambda _: True)


def believe_indexes(patch: pytest.MonkeyPatch) -> None:
    """Take a journal file's index for what was written, torn or not."""
    patch.setattr(contents, "is_intact", lambda _: True)
    original = contents.decode_index

    def decode_index(encoded: bytes) -> contents.FileIndex | None:
        try:
            return original(encoded)
        except struct.error:
            return None

    patch.setattr(contents, "decode_index", decode_index)


# Rule 6: what goes when


def remove_files_before_metadata_points(patch: pytest.MonkeyPatch) -> None:
    """Have journal files go when their segments are written, and not when metadata names them."""
    original = SegmentFlusher._flush_topics

    async def flush_topics(
        self: SegmentFlusher, topic_ids: frozenset[int], files: Sequence[ClosedFile], report: Any
    ) -> bool:
        position = files[-1].end_position if files else self._passed_to
        due = [topic_id for topic_id in sorted(topic_ids) if self._is_due(topic_id, position)]
        made = [await self._try(topic_id, position) for topic_id in due]
        for one in made:
            if one is not None:
                self._journal.drop_flushed(one.manifest.topic_id, one.manifest.end_offset)
        patched = [file for file in self._journal.closed_files() if file.end_position <= position]
        if patched and all(made):
            await self._journal.remove_files(patched[-1].sequence + 1)
        return await original(self, topic_ids, files, report)

    patch.setattr(SegmentFlusher, "_flush_topics", flush_topics)


def remove_files_that_are_needed(patch: pytest.MonkeyPatch) -> None:
    """Have all closed files go with the first pass, whatever is in them."""

    def first_needed(closed: Sequence[ClosedFile], covered: Callable[[int], float]) -> int:
        return closed[-1].sequence + 1 if closed else 0

    patch.setattr(segment_flusher, "first_needed", first_needed)
    patch.setattr(DurableTopics, "topic_below", lambda *_: None)


def forget_cursors(patch: pytest.MonkeyPatch) -> None:
    """Leave the cursors out of manifests."""
    original = flush_plan.manifest_after_flush

    def manifest_after_flush(*args: Any, **named: Any) -> Manifest:
        return replace(original(*args, **named), cursors={})

    patch.setattr(manifest_builder, "manifest_after_flush", manifest_after_flush)


def remove_before_it_is_said(patch: pytest.MonkeyPatch) -> None:
    """Remove journal files, and then say where the journal begins."""

    def remove_before(self: JournalFolder, first: FirstFile) -> int:
        freed = self.remove_leftovers(first.sequence)
        self.disk.replace_file(first_path(self.name), encode_first(first))
        return freed

    patch.setattr(JournalFolder, "remove_before", remove_before)


def drop_what_is_unread(patch: pytest.MonkeyPatch) -> None:
    """Let retention take what subscriptions have not acknowledged."""

    def drop(manifest: Manifest, retention: Retention, now_ms: int, unread: int | None, journal_bytes: int) -> int:
        return segments_to_drop(manifest, retention, now_ms, None, journal_bytes)

    patch.setattr(enforcer, "segments_to_drop", drop)


# Clocks that are wrong


def believe_the_clock(patch: pytest.MonkeyPatch) -> None:
    """Have retention go by what the clock says."""
    patch.setattr(RetentionClock, "time_ms", lambda _self, now_ms, _now_s: now_ms)


def wait_by_append_times(patch: pytest.MonkeyPatch) -> None:
    """Have closed journal files wait until the clock is far enough beyond what is in them."""

    def waited_s(self: SegmentFlusher, file: ClosedFile) -> float:
        return (self._clock.now_ms() - file.newest_append_ms) / 1_000

    patch.setattr(SegmentFlusher, "_waited_s", waited_s)


# Rule 7: whose fault it is


def stop_everybody_for_one(patch: pytest.MonkeyPatch) -> None:
    """Refuse every topic when one cannot be read."""

    def find_histories(tier: SegmentTier, records: Iterable[TopicStorage]) -> FoundHistories:
        return FoundHistories([load_history(tier, record) for record in records])

    patch.setattr(opening, "find_histories", find_histories)
    assert manifest_lookup.find_histories is not find_histories


def read_only_while_there_is_room(patch: pytest.MonkeyPatch) -> None:
    """Refuse reads with appends on a full disk."""
    original = TopicLog.read

    async def read(self: TopicLog, offset: int, bytes_max: int) -> list[StoredBatch]:
        if self._cold is not None:
            self._cold.gate.check(0)
        return await original(self, offset, bytes_max)

    patch.setattr(TopicLog, "read", read)


def read_only_while_it_can_write(patch: pytest.MonkeyPatch) -> None:
    """Have a journal that failed while it was rotated or synced answer no reads."""
    original = RoundWriter._stop

    def stop(self: RoundWriter, *args: Any) -> None:
        patch.setattr(JournalReads, "read", refuse)
        patch.setattr(JournalReads, "hot", lambda *_: None)
        original(self, *args)

    async def refuse(*_: Any) -> list[StoredBatch]:
        raise StorageUnavailableError("the journal has stopped")

    patch.setattr(RoundWriter, "_stop", stop)


# The order of a cut


def point_to_what_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    """Name a manifest version in metadata while its files may still vanish."""

    def put(self: DirectoryTier, name: str, chunks: Sequence[Buffer]) -> None:
        self._disk.make_folder(name.rpartition("/")[0])
        self._disk.create(name).append(chunks)

    patch.setattr(DirectoryTier, "put", put)


def point_before_the_files_are_there(patch: pytest.MonkeyPatch) -> None:
    """Name a manifest version, and write its manifest after that."""
    waiting: list[Callable[[], None]] = []
    put, apply = DirectoryTier.put, ManifestCommitter._apply

    def put_later(self: DirectoryTier, name: str, chunks: Sequence[Buffer]) -> None:
        if name.endswith(".manifest"):
            waiting.append(lambda: put(self, name, chunks))
        else:
            put(self, name, chunks)

    def apply_then_put(
        self: ManifestCommitter, made: Sequence[ManifestVersion], records: Sequence[TopicStorage]
    ) -> None:
        apply(self, made, records)
        while waiting:
            waiting.pop(0)()

    patch.setattr(DirectoryTier, "put", put_later)
    patch.setattr(ManifestCommitter, "_apply", apply_then_put)


def believe_it_before_metadata_does(patch: pytest.MonkeyPatch) -> None:
    """Have memory follow before the compare-and-set."""
    original = ManifestCommitter.commit

    async def commit_manifests(self: ManifestCommitter, made: Sequence[ManifestVersion]) -> frozenset[int]:
        self._apply(made, [replace(one.history.record, manifest_version=one.manifest.version) for one in made])
        return await original(self, made)

    patch.setattr(ManifestCommitter, "commit", commit_manifests)


def clean_up_before_metadata_points(patch: pytest.MonkeyPatch) -> None:
    """Remove the files of the manifest version before, and then name the new one."""
    original = ManifestCommitter.commit

    async def commit_manifests(self: ManifestCommitter, made: Sequence[ManifestVersion]) -> frozenset[int]:
        await self.remove([name for one in made for name in one.orphans])
        return await original(self, made)

    patch.setattr(ManifestCommitter, "commit", commit_manifests)


def use_a_name_twice(patch: pytest.MonkeyPatch) -> None:
    """Number a manifest version after the one that metadata names, whatever lies there."""
    patch.setattr(manifest_builder, "highest_manifest_version", lambda *_: 0)


def forget_the_tombstone_first(patch: pytest.MonkeyPatch) -> None:
    """Forget that a topic was deleted, and then remove its files."""

    async def sweep(self: TopicDeleter) -> int:
        swept = await self._records.deleted()
        for topic_id in swept:
            self._forget(topic_id)
            await self._records.remove_tombstone(topic_id)
            await self._remove(topic_id)
        return len(swept)

    patch.setattr(TopicDeleter, "sweep", sweep)


# A shared folder


def remove_journals_that_are_needed(patch: pytest.MonkeyPatch) -> None:
    """Remove a fenced journal without asking whether a topic's record names it."""

    async def ask(_: JournalRemover) -> None:
        return None

    patch.setattr(JournalRemover, "_ask", ask)


def cut_ones_own_first(patch: pytest.MonkeyPatch) -> None:
    """Cut what is in the own journal, and leave out what is before it in journals of former owners."""

    def topic_cut(**named: Any) -> TopicFlush:
        return TopicFlush(**{**named, "find_previous_owner_tails": list})

    patch.setattr(segment_flusher, "TopicFlush", topic_cut)
    patch.setattr(manifest_builder, "_check_unbroken", lambda *_: None)


def forget_what_is_given(patch: pytest.MonkeyPatch) -> None:
    """Keep no journal file for topics that were given, or are on their way here."""
    patch.setattr(SegmentFlusher, "_needed_from", lambda self, topic_id, _: self._covered_to(topic_id) or float("inf"))


def take_with_an_old_manifest(patch: pytest.MonkeyPatch) -> None:
    """Take a topic though its owner has named a newer manifest since it was read."""
    original = takeover._Attempt._is_as_it_was

    async def is_as_it_was(self: Any, topic: Any) -> bool:
        self._is_exact = False
        return await original(self, topic)

    patch.setattr(takeover._Attempt, "_is_as_it_was", is_as_it_was)


def make_a_removed_fence_again(patch: pytest.MonkeyPatch) -> None:
    """Have an owner that starts make the fence that is missing."""
    original, look = Fence.__init__, Fence.is_up

    def init(self: Fence, disk: Disk, folder: str, *, made: bool = False) -> None:
        original(self, disk, folder)

    def is_up(self: Fence, *, counts_missing: bool = True) -> bool:
        return look(self, counts_missing=False)

    patch.setattr(Fence, "__init__", init)
    patch.setattr(Fence, "is_up", is_up)


def leave_out(step: Step) -> Callable[[pytest.MonkeyPatch], None]:
    """Take topics over without this step."""

    def take_over_without(patch: pytest.MonkeyPatch) -> None:
        original = takeover.Takeover.__init__

        def init(self: takeover.Takeover, *args: Any, **named: Any) -> None:
            original(self, *args, **named, protocol=PROTOCOL.without(Part.TAKEOVER, step))

        patch.setattr(takeover.Takeover, "__init__", init)

    take_over_without.__name__ = f"take_over_without_{step.name.lower()}"
    return take_over_without


SABOTAGES = [
    Sabotaged("1: nothing is acknowledged before it is durable", leave_out_syncs, 0),
    Sabotaged("1: nothing is seen before it is durable", show_what_is_written, 4),
    Sabotaged("2: a body is checked on receipt", take_any_body, 0),
    Sabotaged("3: a round that failed is undone first", leave_failed_rounds, 0),
    Sabotaged("3: after a failed sync nothing is retried", retry_failed_syncs, 4),
    Sabotaged("4: a torn end is cut before anything is appended", keep_torn_ends, 12),
    Sabotaged("5: damage below the mark is refused", take_damage_for_a_torn_end, 78, DAMAGE),
    Sabotaged("5: an end that is missing is damage", miss_no_end, 78, DAMAGE),
    Sabotaged("5: every byte of a segment is checked", believe_blocks, 8, DAMAGE),
    Sabotaged("5: an index that is not what was written is none", believe_indexes, 13, DAMAGE),
    Sabotaged("6: a journal file goes when metadata points to its records", remove_files_before_metadata_points, 0),
    Sabotaged("6: a journal file goes when all its records are elsewhere", remove_files_that_are_needed, 0),
    Sabotaged("6: cursors included", forget_cursors, 0),
    Sabotaged("6: where the journal begins is said before files go", remove_before_it_is_said, 39),
    Sabotaged("6: what is unread stays", drop_what_is_unread, 1),
    Sabotaged("clock: one that jumps deletes nothing", believe_the_clock, 20),
    Sabotaged("clock: one that was wrong stops no cuts", wait_by_append_times, 3),
    Sabotaged("7: a fault of a segment stops its topic only", stop_everybody_for_one, 4, DAMAGE),
    Sabotaged("7: without room reading goes on", read_only_while_there_is_room, 14),
    Sabotaged("7: after a fault of the journal reading goes on", read_only_while_it_can_write, 4),
    Sabotaged("cut: files are durable before metadata points to them", point_to_what_is_not_synced, 0),
    Sabotaged("cut: a manifest is there before metadata points to it", point_before_the_files_are_there, 0),
    Sabotaged("cut: memory follows metadata", believe_it_before_metadata_does, 11, SHARED),
    Sabotaged("cut: what was needed goes after metadata points", clean_up_before_metadata_points, 4),
    Sabotaged("cut: a name is never used for two contents", use_a_name_twice, 153),
    Sabotaged("delete: a tombstone goes after the files", forget_the_tombstone_first, 5),
    Sabotaged("old metadata: only a tombstone makes a topic dead", take_the_unknown_for_deleted, 1, OLD_METADATA),
    Sabotaged("old metadata: the newest whole manifest counts", go_by_what_metadata_names, 1, OLD_METADATA),
    Sabotaged("old metadata: what counts is durable first", count_what_is_not_synced, 25, OLD_METADATA),
    Sabotaged("old metadata: no id that is used is given out", give_out_ids_again, 0, OLD_METADATA),
    Sabotaged("old metadata: a gap stops its topic only", refuse_all_for_a_gap, 13, OLD_METADATA),
    Sabotaged("6: a journal goes when no topic's record names it", remove_journals_that_are_needed, 1, SHARED),
    Sabotaged("6: a file is kept for topics that are others' by now", forget_what_is_given, 1, SHARED),
    Sabotaged("take: what a former owner left is cut before one's own", cut_ones_own_first, 0, SHARED),
    Sabotaged(
        "take: the manifest is the one that counts when the topic is taken", take_with_an_old_manifest, 133, SHARED
    ),
    Sabotaged("take: a fence is never made again", make_a_removed_fence_again, 100, SHARED),
    *(
        Sabotaged(f"take: step {step!r} of a take-over", leave_out(step), seed, SHARED)
        for step, seed in (
            (Step.FENCE, 2),
            (Step.READ, 0),
            (Step.APPEND_AGAIN, 3),
            (Step.COPY_CURSORS, 8),
            (Step.SYNC, 121),
            (Step.SEAL, 0),
        )
    ),
]


def is_found(one: Sabotaged, seed: int) -> bool:
    """True if the run breaks a promise with the sabotage in place."""
    return bool(KINDS[one.kind or POWER_CUTS](seed).violations)


if __name__ == "__main__":
    search(SABOTAGES, is_found)
