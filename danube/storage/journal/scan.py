"""Going through a journal file round by round. It reads only."""

from dataclasses import dataclass

from danube.runtime.disk import File
from danube.storage.batches.envelope import ENVELOPE_BYTES, Envelope, decode, is_body_of
from danube.storage.journal.format import HEADER_BYTES, ROUND_MAGIC, RoundHeader, decode_round_header

_WINDOW_BYTES = 1024 * 1024  # read at once


@dataclass(frozen=True, slots=True)
class Round:
    """A round whose every byte is sound."""

    header: RoundHeader
    entries: list[tuple[Envelope, int, bytes]]
    """Envelope, its position in the journal, its body."""


class FileScan:
    """The rounds of one file, from the first on. `at` is the byte after the last sound one."""

    def __init__(self, file: File, journal_id: int, base_position: int) -> None:
        self._file = file
        self._journal_id = journal_id
        self._base = base_position
        self._window = b""
        self._window_at = 0
        self.size = file.size()
        self.at = HEADER_BYTES

    def next(self, number: int) -> Round | None:
        """The next round, which must have this number; None at the end of what is sound."""
        header = self._header_at(self.at, self._bytes(self.at, HEADER_BYTES), 0)
        if header is None or header.number != number:
            return None
        content = self._bytes(self.at + HEADER_BYTES, header.content_bytes)
        entries = _entries(header, content)
        if entries is None:
            return None
        self.at += HEADER_BYTES + header.content_bytes
        return Round(header, entries)

    def claimed_beyond(self) -> int | None:
        """The byte up to which a sound header behind `at` says the file was synced, when that is beyond `at`.

        A header counts only with the journal's id and its own position, so that a payload cannot pose as one.
        """
        start = self.at
        while start < self.size:
            content = self._file.read(start, _WINDOW_BYTES)
            found = content.find(ROUND_MAGIC)
            while found >= 0:
                encoded = self._file.read(start + found, HEADER_BYTES)
                header = self._header_at(start + found, encoded, 0)
                if header is not None and header.synced_to > self._base + self.at:
                    return header.synced_to - self._base
                found = content.find(ROUND_MAGIC, found + 1)
            if len(content) < _WINDOW_BYTES:
                return None
            start += len(content) - len(ROUND_MAGIC) + 1
        return None

    def _header_at(self, at: int, encoded: bytes, start: int) -> RoundHeader | None:
        header = decode_round_header(encoded, start)
        if header is None or header.journal_id != self._journal_id or header.position != self._base + at:
            return None
        return header

    def _bytes(self, at: int, length: int) -> bytes:
        start = at - self._window_at
        if start < 0 or start + length > len(self._window):
            self._window = self._file.read(at, max(length, _WINDOW_BYTES))
            self._window_at, start = at, 0
        return self._window[start : start + length]


def _entries(header: RoundHeader, content: bytes) -> list[tuple[Envelope, int, bytes]] | None:
    if len(content) != header.content_bytes:
        return None
    entries: list[tuple[Envelope, int, bytes]] = []
    at = 0
    while at < len(content):
        envelope = decode(content, at)
        if envelope is None:
            return None
        body = content[at + ENVELOPE_BYTES : at + envelope.total_bytes]
        if not is_body_of(envelope, body):
            return None
        entries.append((envelope, header.position + HEADER_BYTES + at, body))
        at += envelope.total_bytes
    return entries if len(entries) == header.envelopes else None
