"""Headers of journal files and rounds, and the files `first` and `mark`, version 1. Pure.

The layouts are drawn in `docs/formats/journal.md`. A position counts bytes from the journal's first file on, headers
included: a file's byte `b` has position `base position + b`. Headers say how far the journal is synced, which is lost
with them. The mark stands beside them, so a missing end is noticed; an old mark says less, and never anything wrong.
"""

import re
from typing import NamedTuple

from danube.runtime.checksum import FixedRecord

VERSION = 1
FILE_MAGIC = b"DnJf"
ROUND_MAGIC = b"DnRd"
FIRST_MAGIC = b"DnJ1"
HEADER_BYTES = 52
"""Of a file's header, and of a round's."""
FIRST_SEQUENCE = 1
FIRST_NAME = "first"
FIRST_BYTES = 44
MARK_NAME = "mark"
MARK_BYTES = 36
SMALL_FILE_BYTES_MAX = 4_096
"""Of the files `first` and `mark`, in any version."""

_NAME = re.compile(r"(\d{10})\.journal")
_INDEX_NAME = re.compile(r"(\d{10})\.index")


class FileHeader(NamedTuple):
    """Header of a journal file."""

    journal_id: int
    broker_id: int
    sequence: int
    base_position: int
    synced_to: int


class RoundHeader(NamedTuple):
    """Header of a round."""

    number: int
    position: int
    synced_to: int
    journal_id: int
    content_bytes: int
    envelopes: int

    @property
    def end_position(self) -> int:
        """The position after the round."""
        return self.position + HEADER_BYTES + self.content_bytes


class FirstFile(NamedTuple):
    """Begin of a journal whose first files were removed."""

    journal_id: int
    sequence: int
    base_position: int
    rounds_before: int


class Mark(NamedTuple):
    """Position up to which a journal is synced at least."""

    journal_id: int
    sequence: int
    synced_to: int


_FILE = FixedRecord(FILE_MAGIC, VERSION, "QQQQQ", FileHeader._make)
_ROUND = FixedRecord(ROUND_MAGIC, VERSION, "QQQQII", RoundHeader._make)
_FIRST = FixedRecord(FIRST_MAGIC, VERSION, "QQQQ", FirstFile._make)
_MARK = FixedRecord(b"DnJm", VERSION, "QQQ", Mark._make)

encode_file_header, decode_file_header, newer_version = _FILE.encode, _FILE.decode, _FILE.newer_version
encode_round_header, decode_round_header = _ROUND.encode, _ROUND.decode
encode_first, decode_first = _FIRST.encode, _FIRST.decode_whole
encode_mark, decode_mark = _MARK.encode, _MARK.decode_whole
refuse_other_first, refuse_other_mark = _FIRST.refuse_other_version, _MARK.refuse_other_version


def file_name(sequence: int) -> str:
    """The name of a journal file within the journal's folder."""
    return f"{sequence:010d}.journal"


def file_sequence(name: str) -> int | None:
    """The sequence of the journal file with this name, or None when it is none."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def index_name(sequence: int) -> str:
    """The name of the index of a journal file."""
    return f"{sequence:010d}.index"


def index_sequence(name: str) -> int | None:
    """The sequence of the file whose index has this name, or None when it is none."""
    match = _INDEX_NAME.fullmatch(name)
    return int(match[1]) if match else None
