"""The fence of a journal in a folder that several brokers reach: a file that ends its owner's right to acknowledge.

The owner makes the file, empty, with the journal. Whoever takes topics over writes into it and syncs it before it reads
the journal; the owner opens it afresh after each sync and before it acknowledges. A byte in it, whichever, is a fence:
it is never taken back, and a file that is not there any more counts as one.

The file is there from the beginning because network file systems remember what is not there for longer than what is in
a file that is opened anew. Little-endian, 20 bytes for each taker:

    at  bytes  field
    0   4      magic "DnFe"
    4   1      version, 1
    5   3      reserved, 0
    8   8      broker id of the taker
    16  4      CRC-32C of the 16 bytes before it
"""

import contextlib
import struct

from danube.model.limits.broker import FENCE_BYTES_MAX
from danube.runtime.disk import Disk, File
from danube.storage.checksum import is_intact, with_crc

NAME = "fence"
RECORD_BYTES = 20

_RECORD = struct.Struct("<4sB3sQ")
_MAGIC = b"DnFe"
_VERSION = 1


class Fence:
    """The fence of the journal in `folder`. All of it blocks, and raises OSError.

    One that was `made` before is never made again: where it is missing, the journal was removed.
    """

    def __init__(self, disk: Disk, folder: str, *, made: bool = False) -> None:
        self._disk = disk
        self._made = made
        self._folder = folder
        self._name = f"{folder}/{NAME}"

    @property
    def told(self) -> str:
        """What a broker says whose journal is fenced."""
        return (
            f"another broker has taken over the topics of {self._folder}, and nothing more is written to it. This "
            "broker goes on in a new journal once it is restarted"
        )

    def prepare(self) -> None:
        """For the owner: have the file there, empty, before the journal's first file is. Idempotent."""
        if self._made:
            return
        self._disk.make_folder(self._folder)
        if not self._disk.exists(self._name):
            with contextlib.suppress(FileExistsError), contextlib.closing(self._disk.create(self._name)) as file:
                file.sync()
        self._disk.sync_folder(self._folder)

    def is_up(self) -> bool:
        """Whether somebody has fenced the journal: looked up in the file as it is now."""
        try:
            with contextlib.closing(self._disk.open_read(self._name)) as file:
                return bool(file.read(0, 1))
        except FileNotFoundError:
            return True

    def is_put_up(self) -> bool:
        """Whether somebody has put it up; one that is missing may be about to be made."""
        try:
            with contextlib.closing(self._disk.open_read(self._name)) as file:
                return bool(file.read(0, 1))
        except FileNotFoundError:
            return False

    def put_up(self, broker_id: int) -> None:
        """For a taker: once this returns, nothing that the owner syncs later is ever acknowledged. Idempotent."""
        with contextlib.closing(self._open()) as file:
            if file.size() + RECORD_BYTES <= FENCE_BYTES_MAX:
                file.append([with_crc(_RECORD.pack(_MAGIC, _VERSION, bytes(3), broker_id))])
            file.sync()  # that of another taker, too: it may have died before its own sync
        self._disk.sync_folder(self._folder)

    def takers(self) -> list[int]:
        """The broker ids of those who put it up, as far as their records are whole; for people."""
        with contextlib.closing(self._disk.open_read(self._name)) as file:
            content = file.read(0, FENCE_BYTES_MAX)
        records = (content[at : at + RECORD_BYTES] for at in range(0, len(content), RECORD_BYTES))
        return [
            _RECORD.unpack_from(record)[3] for record in records if len(record) == RECORD_BYTES and is_intact(record)
        ]

    def _open(self) -> File:
        try:
            return self._disk.open_append(self._name)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                self._disk.create(self._name).close()
            return self._disk.open_append(self._name)
