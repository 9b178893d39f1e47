"""The fence of a journal in a shared folder: a file that ends its owner's right to acknowledge.

The owner creates the file, empty, with the journal. A broker that takes topics over writes into it and syncs it before
it reads the journal; the owner opens it afresh after each sync and before it acknowledges. Any byte in it is a fence,
which is never taken back, and a file that was removed counts as one. The new owners' records are drawn in
`docs/formats/fence.md`.

The file is there from the beginning because network file systems cache absence for longer than the content of a file
that is opened anew.
"""

import contextlib
from typing import NamedTuple

from danube.model.limits.broker import FENCE_BYTES_MAX
from danube.runtime.disk import Disk, File
from danube.storage.fixed_record import FixedRecord

NAME = "fence"
RECORD_BYTES = 20


class _NewOwner(NamedTuple):
    broker_id: int


_RECORD = FixedRecord(b"DnFe", 1, "Q", _NewOwner._make)


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
    def refusal(self) -> str:
        """The reason that a broker with a fenced journal writes no more."""
        return (
            f"another broker has taken over the topics of {self._folder}, and nothing more is written to it. This "
            "broker goes on in a new journal once it is restarted"
        )

    def prepare(self) -> None:
        """For the owner: create the file, empty, before the journal's first file. Idempotent."""
        if self._made:
            return
        self._disk.make_folder(self._folder)
        if not self._disk.exists(self._name):
            with contextlib.suppress(FileExistsError), contextlib.closing(self._disk.create(self._name)) as file:
                file.sync()
        self._disk.sync_folder(self._folder)

    def is_up(self, *, counts_missing: bool = True) -> bool:
        """True if the journal is fenced, by the file as it is now; `counts_missing` is for a missing file."""
        try:
            with contextlib.closing(self._disk.open_read(self._name)) as file:
                return bool(file.read(0, 1))
        except FileNotFoundError:
            return counts_missing

    def put_up(self, broker_id: int) -> None:
        """For the new owner: once this returns, nothing that the owner syncs later is ever acknowledged. Idempotent."""
        with contextlib.closing(self._open()) as file:
            if file.size() + RECORD_BYTES <= FENCE_BYTES_MAX:
                file.append([_RECORD.encode(_NewOwner(broker_id))])
            file.sync()  # that of another broker, too: it may have died before its own sync
        self._disk.sync_folder(self._folder)

    def new_owners(self) -> list[int]:
        """Broker ids of the new owners, as far as their records are whole; for people."""
        with contextlib.closing(self._disk.open_read(self._name)) as file:
            content = file.read(0, FENCE_BYTES_MAX)
        records = (_RECORD.decode(content, at) for at in range(0, len(content), RECORD_BYTES))
        return [record.broker_id for record in records if record is not None]

    def _open(self) -> File:
        try:
            return self._disk.open_append(self._name)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                self._disk.create(self._name).close()
            return self._disk.open_append(self._name)
