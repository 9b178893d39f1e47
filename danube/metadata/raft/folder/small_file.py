"""Files of a few bytes, replaced whole: what is there was written and synced whole, so another byte is damage."""

import contextlib

from danube.metadata.raft.folder.damage import damaged, too_new
from danube.metadata.raft.log.checksum import CRC_BYTES, is_sealed
from danube.runtime.disk import Disk

_BYTES_MAX = 4_096
_VERSION_AT = 4


def read_small(disk: Disk, name: str, start: bytes, fixed_bytes: int) -> bytes | None:
    """The file's bytes without their checksum, or None when there is no such file.

    They begin with `start` (magic and version) and are at least `fixed_bytes`.

    Raises DamagedDataError, DataFolderError, OSError.
    """
    if not disk.exists(name):
        return None
    with contextlib.closing(disk.open_read(name)) as file:
        packed = file.read(0, _BYTES_MAX)
    if not is_sealed(packed) or len(packed) < fixed_bytes + CRC_BYTES or packed[:_VERSION_AT] != start[:_VERSION_AT]:
        raise damaged(name, 0, "it is not what was written")
    if packed[_VERSION_AT] != start[_VERSION_AT]:
        raise too_new(name, packed[_VERSION_AT])
    return packed[:-CRC_BYTES]
