"""Scan of a whole journal past whatever is damaged in it. It reads only, a round at a time.

Sound, damaged and torn are told apart by the walk of recovery (`journal/walker.py`). Where that refuses, the scan goes
on: behind damaged bytes the next sound round header is looked for. One counts only with the journal's id, which nobody
outside knows, and its own position, so no payload can pose as one. In what is damaged, envelopes and bodies are read
one after the other from where the round began, as long as each is sound.

The index of a missing file says what was in it. Without one, nobody can say what was in bytes that the next file, or
the journal's mark, says were there. A file is missing as well where another one is in its place.
"""

import contextlib
import itertools
from collections import Counter
from collections.abc import Generator, Iterator

from danube.data_folder.findings import Finding, note
from danube.model.errors import DamagedDataError
from danube.runtime.disk import Disk, File, file_size
from danube.storage.batches.envelope import ENVELOPE_BYTES, Envelope, decode, is_body_of
from danube.storage.journal.contents import FileIndex
from danube.storage.journal.folder import (
    ALL_GONE,
    FILE_GONE,
    FOLDER,
    FOLDER_GONE,
    JournalFolder,
    first_gone,
    first_path,
    folder_path,
    index_path,
    mark_path,
)
from danube.storage.journal.format import HEADER_BYTES, FileHeader, decode_file_header, decode_round_header
from danube.storage.journal.walker import Damage, Entry, Event, FileBegun, JournalWalker, RoundReader

_BAD_HEADER = "its header is not what was written"


class JournalScan(JournalWalker):
    """One pass over a journal, damaged or not. `events` is gone through once; what is known then stands in the fields.

    `has_begun` says that there was a journal once: then one that is not there is missing.
    """

    def __init__(self, disk: Disk, folder: str = FOLDER, *, has_begun: bool = False) -> None:
        super().__init__(JournalFolder(disk, folder), has_begun=has_begun)
        self._disk = disk
        self._has_folder = disk.exists(folder)
        self._missing: list[int] = []
        """The files before the next one that are not there."""
        self._strangers: dict[int, tuple[int, str]] = {}
        """In whose places another file is: its bytes, and what it is."""
        self.notes: list[Finding] = []
        """Harmless findings."""

    def events(self) -> Iterator[Event]:
        """The events in order. Raises OSError, and DataFolderError for a journal of a later version."""
        yield from self._listed()
        expected = self.first_sequence
        for sequence in self.sequences:
            self._missing += range(expected, sequence)
            yield from self._file(sequence)
            expected = sequence + 1
        self._missing += range(expected, self.last_sequence + 1)
        marked = self.mark.synced_to if self.mark is not None else None
        if self._missing:
            yield from self._gone(marked, is_open_ended=True)
        elif marked is not None and self._position is not None and self._position < marked:
            yield self._cut_short(self.sequences[-1], marked, is_open_ended=True)

    def _listed(self) -> Iterator[Event]:
        """Find the files that count, and tell what is wrong with those that say which do."""
        found = self._folder.sequences() if self._has_folder else []
        self.indexed = self._folder.indexed_sequences() if self._has_folder else []
        try:
            self.first = self._folder.read_first()
        except DamagedDataError:
            name, self._position = first_path(self._folder.name), None
            yield Damage(0, name, 0, file_size(self._disk, name), "it should say where the journal begins")
            # a file that is not there any more may have been the first
            self.first_sequence = min([*found, *self.indexed], default=self.first_sequence)
        if self.first is not None:
            self._begin_at(self.first)
        what = "it was about to be removed: the next start removes it"
        self.notes += [note(self._folder.path(one), what) for one in found if one < self.first_sequence]
        self.sequences = [one for one in found if one >= self.first_sequence]
        self.journal_id = self.journal_id or self._identity(self.sequences)
        yield from self._marked()
        self.last_sequence = self._last()

    def _marked(self) -> Iterator[Event]:
        mark, name = self._read_mark(), mark_path(self._folder.name)
        if self.is_mark_unknown:
            what = "this mark is not what was written: it is made again at the next start"
            self.notes.append(note(name, what, range(file_size(self._disk, name))))
        elif mark is not None and self.journal_id not in {0, mark.journal_id}:
            yield Damage(0, name, 0, file_size(self._disk, name), "it is of another journal", is_open_ended=True)
        elif mark is not None:
            self.mark, self.journal_id = mark, mark.journal_id

    def _identity(self, sequences: list[int]) -> int:
        """The id that most files name; where no header is sound, that of the first round."""
        named: Counter[int] = Counter()
        for sequence in sequences:
            with contextlib.closing(self._disk.open_read(self._folder.path(sequence))) as file:
                header = decode_file_header(file.read(0, HEADER_BYTES))
                begun = decode_round_header(file.read(HEADER_BYTES, HEADER_BYTES))
            if header is not None:
                named[header.journal_id] += 2
            elif begun is not None:
                named[begun.journal_id] += 1
        return named.most_common(1)[0][0] if named else 0

    def _gone(self, end_position: int | None, *, is_open_ended: bool = False) -> Iterator[Damage]:
        """The files that are not there, up to a position; what no index of theirs explains was in the first without."""
        indexes = {sequence: self._index(sequence) for sequence in self._missing}
        explained = sum(one.end_position - one.contents.start.base_position for one in indexes.values() if one)
        is_known = end_position is not None and self._position is not None
        unknown = max((end_position or 0) - (self._position or 0) - explained, 0) if is_known else 0
        bare = [sequence for sequence, index in indexes.items() if index is None]
        nameless = self._nameless(bare)
        first_unknown = (nameless[-1:] or bare or self._missing)[0]
        for sequence in self._missing[max(len(nameless) - 1, 0) :]:
            size, stranger = self._strangers.get(sequence, (0, FILE_GONE))
            file, what = self._where_gone(nameless) if sequence in nameless else (self._folder.path(sequence), stranger)
            yield Damage(
                sequence,
                file,
                0,
                size,
                what,
                unknown_bytes=unknown if sequence == first_unknown else 0,
                unknown_end=end_position,
                is_open_ended=sequence == self._missing[-1] and (is_open_ended or (bool(bare) and not is_known)),
                index=indexes[sequence],
            )
        self._missing.clear()
        self._number = None

    def _nameless(self, bare: list[int]) -> list[int]:
        """The missing files at the beginning that may have been flushed and removed: nothing speaks of them."""
        if self.first is not None or self._missing[0] != 1:
            return []
        silent = [one for one in bare if one not in self._strangers and one not in self.indexed]
        return [one for one, expected in zip(silent, itertools.count(1), strict=False) if one == expected]

    def _where_gone(self, nameless: list[int]) -> tuple[str, str]:
        """The name and fault of what is missing instead: the whole journal, or the file that says where it begins."""
        if not self.sequences:
            return folder_path(self._folder.name), ALL_GONE if self._has_folder else FOLDER_GONE
        return first_path(self._folder.name), first_gone(nameless[-1] + 1)

    def _index(self, sequence: int) -> FileIndex | None:
        """The index of a file that is not there."""
        try:
            size = file_size(self._disk, index_path(sequence, self._folder.name))
        except OSError:
            return None
        index = self._folder.read_index(sequence, size)
        is_own = index is not None and (index.journal_id, index.contents.start.sequence) == (self.journal_id, sequence)
        return index if is_own else None

    def _check_bare(self, sequence: int, header: FileHeader | None) -> None:
        """Nothing: the next start removes the file."""

    def _enter(self, sequence: int, file: File, header: FileHeader | None) -> Iterator[Event]:
        name, size, is_last = self._folder.path(sequence), file.size(), sequence == self.last_sequence
        if header is not None and (stranger := self._stranger(header, sequence)) is not None:
            self._missing.append(sequence)
            self._strangers[sequence] = size, stranger
            return
        base, is_sound = self._base(header, file)
        if self._missing:
            yield from self._gone(base)
        elif is_sound and base is not None and self._position is not None and base > self._position:
            is_first = sequence == self.first_sequence
            yield self._begun_late(name, base) if is_first else self._cut_short(sequence - 1, base)
            self._number = None
        if base is None:
            yield Damage(sequence, name, 0, size, _BAD_HEADER, unknown_bytes=size, is_open_ended=is_last)
            self._position = self._number = None
            return
        if not is_sound:
            is_bare = is_last and size <= HEADER_BYTES  # nobody can say how much was behind what is marked
            yield Damage(sequence, name, 0, min(HEADER_BYTES, size), _BAD_HEADER, is_open_ended=is_bare)
        yield from self._rounds(self._begun(sequence, file, base, header), file)

    def _stranger(self, header: FileHeader, sequence: int) -> str | None:
        """The fault of a file that is not the one of this name: that one counts as missing, and its index tells of it.

        It may be a copy of one that stands in its own place, too: nothing in it is to be counted twice.
        """
        if header.journal_id != self.journal_id:
            return "it belongs to another journal"
        return f"it is file {header.sequence} of the journal" if header.sequence != sequence else None

    def _base(self, header: FileHeader | None, file: File) -> tuple[int | None, bool]:
        """The position of a file's first byte, None when nothing says it; and whether its header does."""
        if header is not None and (self._position is None or header.base_position >= self._position):
            return header.base_position, True
        begun = decode_round_header(file.read(HEADER_BYTES, HEADER_BYTES))
        if begun is not None and begun.journal_id == self.journal_id and self._is_later(begun.position):
            return begun.position - HEADER_BYTES, False
        return None if self._missing else self._position, False

    def _is_later(self, position: int) -> bool:
        """True when a position is behind the file before, so the file is no copy of that one or of an earlier one."""
        return not self.files or position > self.files.starts[-1].base_position + HEADER_BYTES

    def _begun_late(self, name: str, base_position: int) -> Damage:
        """The first file, where the journal is said to begin before it."""
        missing_bytes = base_position - (self._position or 0)
        what = f"the journal begins {missing_bytes} bytes before it"
        return Damage(1, name, 0, 0, what, unknown_bytes=missing_bytes, unknown_end=base_position)

    def _cut_short(self, sequence: int, end_position: int, *, is_open_ended: bool = False) -> Damage:
        name = self._folder.path(sequence)
        size, missing_bytes = file_size(self._disk, name), end_position - (self._position or 0)
        return Damage(
            sequence,
            name,
            size,
            size,
            f"the file ends {missing_bytes} bytes too early",
            unknown_bytes=missing_bytes,
            unknown_end=end_position,
            is_open_ended=is_open_ended,
        )

    def _find_number(self, reader: RoundReader) -> None:
        if self._number is None:
            following = next(reader.headers(reader.at), None)
            self._number = following[1].number - 1 if following is not None else 0

    def _past(self, begun: FileBegun, reader: RoundReader, fault: str) -> Generator[Event, None, bool]:
        del fault
        later = (found for found in reader.headers(reader.at + 1) if found[1].number > (self._number or 0))
        at, header = next(later, (reader.size, None))
        yield _damaged_round(begun, reader.file, reader.at, at)
        reader.at = at
        self._number = header.number - 1 if header is not None else None
        return header is None


def _damaged_round(begun: FileBegun, file: File, start: int, end: int) -> Damage:
    kept: list[Entry] = []
    lost: list[tuple[Envelope, int]] = []
    at = start + HEADER_BYTES
    while at + ENVELOPE_BYTES <= end:
        envelope = decode(file.read(at, ENVELOPE_BYTES))
        if envelope is None:
            break
        body = file.read(at + ENVELOPE_BYTES, min(envelope.body_bytes, end - at - ENVELOPE_BYTES))
        if is_body_of(envelope, body):
            kept.append((envelope, begun.base_position + at, body))
        else:
            lost.append((envelope, at))
        at += envelope.total_bytes
    return Damage(
        begun.sequence,
        begun.file,
        start,
        end,
        "a round is not what was written",
        tuple(kept),
        tuple(lost),
        max(end - min(at, end), 0),
        unknown_end=begun.base_position + end,
    )
