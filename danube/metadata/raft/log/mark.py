"""The file `mark` of Raft's log, version 1: how far the log is synced at least. Little-endian, no padding, 44 bytes.

    at  bytes  field
    0   4      magic "DnRm"
    4   1      version, 1
    5   3      reserved, 0
    8   8      node id of the member whose log this is
    16  8      sequence of the file of the log that holds the last synced byte
    24  8      file id, as in that file's header
    32  8      synced to: the position in that file up to which it is synced, and all files before it
    40  4      CRC-32C of the 40 bytes before it

What records say of syncs goes with the bytes that they stand in; this stands beside them, so an end that is missing is
noticed. No file of the log is ever made shorter or written over, so an old mark says less, and never anything wrong.
"""

import contextlib
import logging
import struct
from dataclasses import dataclass

from danube.metadata.raft.log.checksum import CRC_BYTES, is_sealed, sealed
from danube.runtime.disk import Disk

MARK_NAME = "mark"

_log = logging.getLogger(__name__)

_START = b"DnRm\x01"
_MARK = struct.Struct("<5s3sQQQQ")


@dataclass(frozen=True, slots=True)
class LogMark:
    """How far a log is synced at least."""

    node_id: int
    sequence: int
    file_id: int
    synced_to: int


def encode_log_mark(mark: LogMark) -> bytes:
    """The bytes of the file `mark`."""
    return sealed(_MARK.pack(_START, bytes(3), mark.node_id, mark.sequence, mark.file_id, mark.synced_to))


def decode_log_mark(packed: bytes) -> LogMark | None:
    """The mark in the file `mark`, or None when that is not a valid one of this version."""
    if len(packed) != _MARK.size + CRC_BYTES or not is_sealed(packed) or not packed.startswith(_START):
        return None
    return LogMark(*_MARK.unpack_from(packed)[2:])


class LogMarkFile:
    """The file `mark` in the folder of one log. All of it blocks."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self.name = f"{folder}/{MARK_NAME}"
        self._disk = disk
        self._is_failing = False
        """Whether the last mark could not be written: said once, not at every try."""

    def read(self) -> LogMark | None:
        """The mark; None for one that is missing, or damaged: the log is none the worse for it. Raises OSError."""
        if not self._disk.exists(self.name):
            return None
        with contextlib.closing(self._disk.open_read(self.name)) as file:
            return decode_log_mark(file.read(0, file.size()))

    def write(self, mark: LogMark) -> bool:
        """Write it, durably; answers whether that worked. After an OSError the mark before it is still true."""
        try:
            self._disk.replace_file(self.name, encode_log_mark(mark))
        except OSError as error:
            if not self._is_failing:
                _log.warning("%s could not be written, so an end that is lost may not be noticed: %s", self.name, error)
            self._is_failing = True
            return False
        self._is_failing = False
        return True
