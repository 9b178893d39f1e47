"""Headers of journal files and rounds, and the files `first` and `mark`, version 1. Pure.

The layouts are drawn in `docs/formats/journal.md`. A position counts bytes from the journal's first file on, headers
included: a file's byte `b` has position `base position + b`. Headers say how far the journal is synced, which is lost
with them. The mark stands beside them, so a missing end is noticed; an old mark says less, and never anything wrong.
"""

import re
from typing import NamedTuple, TypeVar

from danube.runtime.checksum import FixedRecord, other_version
from danube.runtime.sealed import OtherVersionError, Sealed, UnsealError

T = TypeVar("T")

VERSION = 1
FILE_MAGIC = b"DnJf"
ROUND_MAGIC = b"DnRd"
HEADER_BYTES = 52
"""Of a file's header, and of a round's."""
FIRST_SEQUENCE = 1
FIRST_NAME = "first"
MARK_NAME = "mark"
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
ROUND = FixedRecord(ROUND_MAGIC, VERSION, "QQQQII", RoundHeader._make)
_FIRST = Sealed(b"DnJ1", FirstFile)
MARK = Sealed(b"DnJm", Mark)

encode_file_header, decode_file_header, newer_version = _FILE.encode, _FILE.decode, _FILE.newer_version
encode_round_header, decode_round_header = ROUND.encode, ROUND.decode
encode_first, encode_mark = _FIRST.seal, MARK.seal


def decode_first(content: bytes, name: str = FIRST_NAME) -> FirstFile | None:
    """Content of the file `first`; None when it is not valid. Raises NewerDataFolderError for another version."""
    return _decoded(_FIRST, content, name)


def decode_mark(content: bytes, name: str = MARK_NAME) -> Mark | None:
    """Content of the file `mark`, as `decode_first`."""
    return _decoded(MARK, content, name)


def _decoded(sealed: Sealed[T], content: bytes, name: str) -> T | None:
    try:
        return sealed.unseal(content)
    except OtherVersionError as error:
        raise other_version(name, error.found, error.known) from error
    except UnsealError:
        return None


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
