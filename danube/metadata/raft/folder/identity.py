"""Who a member is, for as long as its folder `raft/` lives: the file `identity`, replaced whole. Little-endian.

at  bytes  field
0   4      magic "DnRn"
4   1      version, 1
5   1      reserved, 0
6   2      n, length of the cluster id; 0 while it is unknown
8   8      node id
16  n      cluster id, UTF-8
end 4      CRC-32C of all before it
"""

import struct

from danube.metadata.raft.folder.damage import damaged
from danube.metadata.raft.folder.small_file import read_small
from danube.metadata.raft.log.checksum import sealed
from danube.metadata.raft.log.format import Owner
from danube.model.errors import InvalidRequestError
from danube.model.limits.metadata import RAFT_CLUSTER_ID_BYTES_MAX
from danube.runtime.disk import Disk

_FIXED = struct.Struct("<5sBHQ")
_START = b"DnRn\x01"


def read_identity(disk: Disk, name: str) -> Owner | None:
    """Who owns the folder, or None when nobody does yet. Raises DamagedDataError, DataFolderError."""
    packed = read_small(disk, name, _START, _FIXED.size)
    if packed is None:
        return None
    _, _, length, node_id = _FIXED.unpack_from(packed)
    if len(packed) != _FIXED.size + length or not node_id:
        raise damaged(name, 0, "its fields do not fit each other")
    return Owner(node_id, packed[_FIXED.size :].decode())


def write_identity(disk: Disk, name: str, owner: Owner) -> None:
    """Write it, durably. Raises InvalidRequestError for a cluster id that is too long, OSError."""
    cluster_id = owner.cluster_id.encode()
    if len(cluster_id) > RAFT_CLUSTER_ID_BYTES_MAX:
        raise InvalidRequestError(f"a cluster id has at most {RAFT_CLUSTER_ID_BYTES_MAX} bytes")
    disk.replace_file(name, sealed(_FIXED.pack(_START, 0, len(cluster_id), owner.node_id) + cluster_id))
