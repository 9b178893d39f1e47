"""A file of a write-ahead log: frames behind its header, one after the other. It reads only, and blocks.

A frame is a header with its own checksum, and content. The header says where it stands and how far the log was synced
when it was written. The rules, for every log:

1. A header counts only where it says that it stands, in the file that it was written for: no content passes for one.
2. The first frame that is not sound is *damaged* in a file that is not the last, since the next one is begun only after
   a sync; and where a sound header behind it, or the mark beside the log, says that the log was synced beyond it.
3. Otherwise it is *torn*: it was being written when the power went, and nobody was promised it.
"""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from danube.runtime.checksum import FixedRecord
from danube.runtime.disk import File

_WINDOW_BYTES = 1024 * 1024  # read at once


class FrameHeader(Protocol):
    """Header of a frame. Positions count as the log does."""

    @property
    def position(self) -> int:
        """Position of the header's first byte."""

    @property
    def synced_to(self) -> int:
        """Position up to which the log was known to be synced."""

    @property
    def content_bytes(self) -> int:
        """Length of what follows the header."""


H = TypeVar("H", bound=FrameHeader)


class Known(Enum):
    """Knowledge that what is not sound was synced once."""

    LATER_FILE = 1
    LATER_FRAME = 2
    MARK = 3


class Fault(NamedTuple):
    """Damage at the first byte that is not sound."""

    known: Known
    synced_to: int
    """Byte of the file up to which it is known to have been synced; 0 where later files say so."""


class FrameReader(Generic[H]):
    """Frames of one file, in order. `at` is the byte after the last one that was passed."""

    def __init__(
        self, file: File, record: FixedRecord[Any], is_own: Callable[[H], bool], *, start: int, base_position: int = 0
    ) -> None:
        """`start` is the byte after the file's header; the log counts its first byte as `base_position`.

        `is_own` tells a header that was written for this file.
        """
        self.file = file
        self.size = file.size()
        self.at = start
        self._record = record
        self._is_own = is_own
        self._base = base_position
        self._window = b""
        self._window_at = 0

    @property
    def position(self) -> int:
        """The log's position of `at`."""
        return self._base + self.at

    def header(self) -> H | None:
        """The header at `at`; None where there is no sound one."""
        start = self._fill(self._record.length)
        return self._own(self.at, self._record.decode(self._window, start))

    def content(self, header: H) -> tuple[bytes, int]:
        """Bytes with the content of the frame at `at` in them, as far as there is any, and where it begins."""
        start = self._fill(self._record.length + header.content_bytes)
        return self._window, start + self._record.length

    def go_past(self, header: H) -> None:
        """Go on behind the frame at `at`."""
        self.at += self._record.length + header.content_bytes

    def headers(self, start: int) -> Iterator[tuple[int, H]]:
        """The sound headers from a byte on, wherever they stand, and where that is."""
        magic = self._record.magic
        while start < self.size:
            content = self.file.read(start, _WINDOW_BYTES)
            found = content.find(magic)
            while found >= 0:
                encoded = self.file.read(start + found, self._record.length)
                header = self._own(start + found, self._record.decode(encoded))
                if header is not None:
                    yield start + found, header
                found = content.find(magic, found + 1)
            if len(content) < _WINDOW_BYTES:
                return
            start += len(content) - len(magic) + 1

    def claimed_beyond(self) -> int | None:
        """The byte up to which a sound header behind `at` says the file was synced, when that is beyond `at`."""
        claims = (header.synced_to for _, header in self.headers(self.at) if header.synced_to > self.position)
        return next((synced_to - self._base for synced_to in claims), None)

    def fault(self, *, is_last: bool, marked_to: int | None = None) -> Fault | None:
        """Damage at `at`, by rule 2; None where it is torn. `marked_to` is the position of the log's mark."""
        if not is_last:
            return Fault(Known.LATER_FILE, 0)
        if (claimed := self.claimed_beyond()) is not None:
            return Fault(Known.LATER_FRAME, claimed)
        if marked_to is not None and self.position < marked_to:
            return Fault(Known.MARK, marked_to - self._base)
        return None

    def _own(self, at: int, header: H | None) -> H | None:
        return header if header is not None and header.position == self._base + at and self._is_own(header) else None

    def _fill(self, length: int) -> int:
        """Have so many bytes from `at` on in the window, as far as there are any; answers where in it they begin."""
        start = self.at - self._window_at
        if start < 0 or start + length > len(self._window):
            self._window = self.file.read(self.at, max(length, _WINDOW_BYTES))
            self._window_at, start = self.at, 0
        return start
