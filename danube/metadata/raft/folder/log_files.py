"""Raft's log as files: appending, cutting by a new file that says so, removing old files. All of it blocks.

Nothing is written over and no file is made shorter: entries that a newer leader replaced are cut by a new file that
begins with their index. Either it is there after a crash, or nothing was cut.
"""

from collections.abc import Sequence

from danube.logfile.files import begin_file
from danube.metadata.raft.folder.format import (
    FILE_HEADER_BYTES,
    FOLDER,
    Entry,
    FileHeader,
    Owner,
    encode_file_header,
    encode_records,
    log_path,
)
from danube.metadata.raft.folder.recovery import RecoveredLog
from danube.metadata.raft.folder.small_files import LogMark, log_mark
from danube.model.limits.metadata import RAFT_LOG_FILE_BYTES_MAX
from danube.runtime.disk import Disk, File
from danube.runtime.rng import Rng


class LogFiles:
    """The files of one log, after they were recovered and settled. Raises OSError; then it must not be used again."""

    def __init__(self, disk: Disk, owner: Owner, rng: Rng, found: RecoveredLog) -> None:
        self._disk = disk
        self.owner = owner
        """Owner that new files name."""
        self._rng = rng
        self._mark_file, self._beside = log_mark(disk), found.mark
        self._headers = list(found.headers)
        self._file: File | None = None
        self._end = 0
        self.next_index = found.next_index
        """Index of the entry that the newest file takes next."""
        if found.last is not None:
            self._open_newest(found)

    def _open_newest(self, found: RecoveredLog) -> None:
        last = found.last
        assert last is not None  # noqa: S101 - asked by the caller
        self._file = self._disk.open_append(log_path(last.header.sequence))
        self._end = last.end

    @property
    def takes(self) -> bool:
        """True if the newest file is there and has room."""
        return self._file is not None and self._end < RAFT_LOG_FILE_BYTES_MAX

    def begin(self, first_index: int, *, voids: bool) -> None:
        """Go on in a new file: what older ones hold counts up to `first_index`, or not at all. Durable on return."""
        header = self._next_header(first_index, voids=voids)
        file = begin_file(self._disk, FOLDER, log_path(header.sequence), encode_file_header(header))
        self.close()
        self._file, self._end = file, FILE_HEADER_BYTES
        self._headers.append(header)
        self.next_index = first_index
        self.mark()

    def append(self, entries: Sequence[Entry]) -> None:
        """Write entries at the end of the newest file, all at once, and sync them."""
        file = self._newest()
        chunks = encode_records(entries, self._headers[-1].file_id, self._end, self._end)
        file.append(chunks)
        file.sync()
        self._end += sum(map(len, chunks))
        self.next_index = entries[-1][1] + 1

    def mark(self) -> bool:
        """Have the file `mark` say how far the log is synced; answers whether it does."""
        if not self.is_marked and self._mark_file.write(mark := self._mark_now()):
            self._beside = mark
        return self.is_marked

    @property
    def is_marked(self) -> bool:
        """True if the file `mark` says how far the log is synced."""
        return not self._headers or self._beside == self._mark_now()

    def _mark_now(self) -> LogMark:
        header = self._headers[-1]
        return LogMark(self.owner.node_id, header.sequence, header.file_id, self._end)

    def remove_before(self, index: int) -> None:
        """Remove the oldest files as far as they hold nothing from `index` on."""
        while len(self._headers) > 1 and self._counts_until(0) <= index:
            self._disk.remove(log_path(self._headers[0].sequence))
            del self._headers[0]

    def close(self) -> None:
        """Without a sync."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _counts_until(self, number: int) -> int:
        """The index from which on newer files take the place of this one."""
        newer = self._headers[number + 1 :]
        return min(0 if header.voids else header.first_index for header in newer)

    def _next_header(self, first_index: int, *, voids: bool) -> FileHeader:
        sequence = self._headers[-1].sequence + 1 if self._headers else 1
        return FileHeader(self.owner.node_id, self.owner.cluster_mark, sequence, first_index, self._rng.new_id(), voids)

    def _newest(self) -> File:
        assert self._file is not None  # noqa: S101 - begun by the log before it writes
        return self._file
