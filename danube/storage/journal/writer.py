"""Appends rounds to the journal: one write and one sync each, rotation, undo of failures. All of it blocks.

Owned by one thread at a time. Whatever the disk does, no bytes of a failed round are before those of a later one.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from danube.model.errors import JournalFencedError, JournalStoppedError, StorageUnavailableError
from danube.runtime.clock import Clock
from danube.runtime.disk import Buffer, Disk, File, is_full, is_out_of_descriptors
from danube.storage.journal.folder import FOLDER, Fence, JournalFolder
from danube.storage.journal.format import (
    HEADER_BYTES,
    FileHeader,
    Mark,
    RoundHeader,
    encode_file_header,
    encode_round_header,
)
from danube.storage.journal.index import FileStart
from danube.storage.read_throttle import SyncWatch
from danube.storage.settings import LatencyHistogram


@dataclass(slots=True, kw_only=True)
class JournalEnd:
    """The end of a journal."""

    journal_id: int
    broker_id: int
    sequence: int
    """Of the last file."""
    base_position: int
    """Of the last file."""
    file_bytes: int
    synced_to: int
    round_number: int
    """Of the last round; 0 when there was none."""
    claimed_to: int
    """The highest synced position in a header on the disk."""
    content_end: int
    """The position after the last round with something in it."""
    rounds_before: int = 0
    """Rounds of the journal before the last file."""
    marked_to: int = 0
    """Synced position in the mark beside the files, as far as is known."""

    @classmethod
    def of_file(
        cls, header: FileHeader, synced_to: int, rounds_before: int = 0, before: "JournalEnd | None" = None
    ) -> "JournalEnd":
        """The end of a journal whose last file has no rounds yet; `before` was the end in the file before."""
        return cls(
            journal_id=header.journal_id,
            broker_id=header.broker_id,
            sequence=header.sequence,
            base_position=header.base_position,
            file_bytes=HEADER_BYTES,
            synced_to=synced_to,
            round_number=rounds_before,
            claimed_to=header.synced_to,
            content_end=before.content_end if before is not None else 0,
            rounds_before=rounds_before,
            marked_to=before.marked_to if before is not None else 0,
        )

    @property
    def position(self) -> int:
        """The position after the last byte."""
        return self.base_position + self.file_bytes

    @property
    def start(self) -> FileStart:
        """Begin of the last file."""
        return FileStart(self.sequence, self.base_position, self.rounds_before)

    @property
    def mark(self) -> Mark:
        """The mark to write for it."""
        return Mark(self.journal_id, self.sequence, self.synced_to)

    @property
    def needs_mark(self) -> bool:
        """True if no header says yet that all content is synced."""
        return self.claimed_to < self.content_end

    @property
    def is_mark_behind(self) -> bool:
        """True if the mark beside the files says less than is synced."""
        return self.marked_to < self.synced_to


@dataclass(frozen=True, slots=True)
class Written:
    """Place of a written round."""

    content_position: int
    """Of its first envelope."""
    end_position: int
    """The position after it."""
    file: FileStart
    """The file it is in."""


class RoundWriter:
    """Appends rounds behind `end`.

    Every call raises StorageUnavailableError when it left nothing behind and later ones may succeed, and
    JournalStoppedError when what is on the disk is unknown; after that nothing is written any more.
    """

    def __init__(
        self,
        disk: Disk,
        file: File,
        end: JournalEnd,
        file_bytes_max: int,
        folder: str = FOLDER,
        *,
        fence: Fence | None = None,
        clock: Clock,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._folder = JournalFolder(disk, folder)
        self._file = file
        self._file_bytes_max = file_bytes_max
        self._fence = fence
        self._broken: str | None = None
        self._closed = False
        self.end = end
        self.syncs = 0
        self.sync_seconds = LatencyHistogram()
        """Of each, failed ones too."""
        self.sync_watch = SyncWatch()

    def write(self, content: Sequence[Buffer], content_bytes: int, envelopes: int, *, sync: bool) -> Written:
        """Append one round, with a sync if asked."""
        self._check_sound()
        if needs_new_file(self.end.file_bytes, HEADER_BYTES + content_bytes, self._file_bytes_max):
            self._rotate()
        end = self.end
        header = RoundHeader(
            number=end.round_number + 1,
            position=end.position,
            synced_to=end.synced_to,
            journal_id=end.journal_id,
            content_bytes=content_bytes,
            envelopes=envelopes,
        )
        try:
            self._file.append([encode_round_header(header), *content])
        except OSError as error:
            self._undo(error)
        end.file_bytes += HEADER_BYTES + content_bytes
        end.round_number = header.number
        end.claimed_to = header.synced_to
        if content_bytes:
            end.content_end = end.position
        if sync or self._fence is not None:  # other machines may not see what is only written
            self._sync_round(header.position)
        self._check_fence()
        return Written(header.position + HEADER_BYTES, end.position, end.start)

    def sync(self) -> None:
        """Make all written rounds durable."""
        self._check_sound()
        try:
            self._timed(self._file.sync)
        except OSError as error:
            self._check_fence_after(error)
            self._stop("a sync", self.end.sequence, error)
        self.syncs += 1
        self.end.synced_to = self.end.position

    def sync_round(self, written: Written) -> None:
        """Sync the last round, which was written without, before it is acknowledged."""
        self._check_sound()
        self._sync_round(written.content_position - HEADER_BYTES)

    def mark(self) -> Written:
        """Write an empty round, synced: its header says that all before it is synced."""
        if self.end.synced_to < self.end.position:
            self.sync()
        return self.write((), 0, 0, sync=True)

    def write_mark(self) -> None:
        """Write the mark beside the files. Never raises for the disk's faults: the mark before stays true."""
        if self._broken is None and self._folder.mark.write(self.end.mark):
            self.end.marked_to = self.end.synced_to

    def rotate(self) -> Written:
        """Begin a new file, unless the last one is empty; answers the journal's end now."""
        self._check_sound()
        if self.end.file_bytes > HEADER_BYTES:
            self._rotate()
        return Written(self.end.position, self.end.position, self.end.start)

    def close(self) -> None:
        """Close the file, once, without a sync."""
        if not self._closed:
            self._closed = True
            _close(self._file)

    def _sync_round(self, position: int) -> None:
        """Sync; if that fails, cut the round at this position off.

        A failed sync may leave bytes that programs see, that are not on the disk, and that no later sync writes. The
        next start must not append behind them.
        """
        try:
            self.sync()
        except JournalStoppedError:
            with contextlib.suppress(OSError):
                self._file.truncate(position - self.end.base_position)
            raise

    def _timed(self, sync: Callable[[], None]) -> None:
        started_s = self._clock.monotonic_s()
        self.sync_watch.began(started_s)
        try:
            sync()
        finally:
            ended_s = self._clock.monotonic_s()
            self.sync_watch.ended(ended_s)
            self.sync_seconds.observe(ended_s - started_s)

    def _check_fence(self) -> None:
        """Read the fence, after the sync and before acknowledgements: a new owner reads all that is acknowledged."""
        if self._fence is None:
            return
        try:
            is_fenced = self._fence.is_up()
        except OSError as error:
            self._stop("looking at the fence", self.end.sequence, error)
        if is_fenced:
            self._broken = self._fence.refusal
            raise JournalFencedError(self._broken)

    def _check_fence_after(self, cause: OSError) -> None:
        """Say so if a sync failed because of the fence, as in an object store."""
        with contextlib.suppress(OSError):
            if self._fence is not None and self._fence.is_up():
                self._broken = self._fence.refusal
                raise JournalFencedError(self._broken) from cause

    def _undo(self, cause: OSError) -> NoReturn:
        end = self.end
        try:
            self._file.truncate(end.file_bytes)
            self._timed(self._file.sync)
        except OSError as error:
            self._stop(f"a write failed ({_reason(cause)}) and undoing it", end.sequence, error)
        self.syncs += 1
        end.synced_to = end.position
        raise StorageUnavailableError(
            f"{self._path(end.sequence)} could not be written: {_reason(cause)}. {_advice(cause)}"
        ) from cause

    def _rotate(self) -> None:
        if self.end.synced_to < self.end.position:
            self.sync()
        end = self.end
        header = FileHeader(end.journal_id, end.broker_id, end.sequence + 1, end.position, end.synced_to)
        file = self._create(header)
        _close(self._file)
        self._file = file
        self.end = JournalEnd.of_file(header, header.base_position + HEADER_BYTES, end.round_number, end)
        self.write_mark()  # in this thread: an index of the old file names the new one

    def _create(self, header: FileHeader) -> File:
        """As `create_file`, but a file that could not be written is removed again."""
        try:
            file = self._disk.create(self._path(header.sequence))
        except FileExistsError as error:
            self._stop("creating a file that should not be there", header.sequence, error)
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                self._check_fence()  # the folder goes when others have taken the topics over
            raise _not_created(self._path(header.sequence), error) from error
        try:
            file.append([encode_file_header(header)])
        except OSError as error:
            self._discard(file, header.sequence)
            raise _not_created(self._path(header.sequence), error) from error
        try:
            self._timed(file.sync)
            self._timed(lambda: self._disk.sync_folder(self._folder.name))
        except OSError as error:
            if is_out_of_descriptors(error):  # no sync has failed: the folder could not be opened for it
                self._discard(file, header.sequence)
                raise _not_created(self._path(header.sequence), error) from error
            file.close()
            self._check_fence_after(error)
            self._stop("a sync", header.sequence, error)
        self.syncs += 2
        return file

    def _discard(self, file: File, sequence: int) -> None:
        try:
            file.close()
            self._disk.remove(self._path(sequence))
            self._disk.sync_folder(self._folder.name)
        except OSError as error:
            self._stop("removing a file that was only begun", sequence, error)

    def _path(self, sequence: int) -> str:
        return self._folder.path(sequence)

    def _check_sound(self) -> None:
        if self._broken is not None:
            raise JournalStoppedError(self._broken)

    def _stop(self, what: str, sequence: int, cause: OSError) -> NoReturn:
        self._broken = (
            f"{what} failed in {self._path(sequence)}: {_reason(cause)}. What is on the disk is unknown, so nothing "
            "more is written: check the disk, then restart the broker"
        )
        raise JournalStoppedError(self._broken) from cause


def _close(file: File) -> None:
    with contextlib.suppress(OSError):
        file.close()


def _not_created(name: str, cause: OSError) -> StorageUnavailableError:
    return StorageUnavailableError(f"{name} could not be created: {_reason(cause)}. {_advice(cause)}")


def _advice(cause: OSError) -> str:
    what = "make room" if is_full(cause) else "check the disk"
    if is_out_of_descriptors(cause):
        what = "have the system let the broker open more (`ulimit -n`)"
    return f"Nothing was stored; {what} and try again"


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def needs_new_file(file_bytes: int, round_bytes: int, file_bytes_max: int) -> bool:
    """True if a round needs a new file: it would pass the bound, and the present file has at least one."""
    return file_bytes > HEADER_BYTES and file_bytes + round_bytes > file_bytes_max
