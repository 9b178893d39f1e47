"""Writes a backup of version 1 beside this module: `python -m tests.golden.metadata.make`.

Run it for a new version only, into a new folder: files of a version that was released are never written again.
"""

from pathlib import Path

from danube.metadata.backup.format import Backup, Origin, encode_backup
from danube.metadata.commands import Applied, Conflicted, Lease, LeaseGiven, LeaseMissing, TooManyLeases
from danube.metadata.state import StateSnapshot
from danube.metadata.store import Entry

FILE = Path(__file__).parent / "v1" / "metadata.dnbb"
ENTRIES = (
    Entry("/cluster/register/7", b"{}", 300, 310, lease_id=4),
    *(Entry(f"/many/{number:04}", b"%d" % number, number + 1, number + 1) for number in range(300)),
    Entry("/näme", bytes(range(256)), 301, 2**62),
)
LEASES = (Lease(4, 32.0, 2), Lease(5, 0.5))
OUTCOMES = (
    ("done", Applied(310)),
    ("lost", Conflicted("/many/0001", 3, 2)),
    ("given", LeaseGiven(Lease(5, 0.5))),
    ("late", LeaseMissing(3)),
    ("full", TooManyLeases()),
)
BACKUP = Backup(
    Origin(
        kind="raft",
        place="/var/lib/danube",
        taken_ms=1_700_000_000_000,
        danube="0.1.0",
        cluster_id="00000000000000ab",
        broker_id=2**63 - 1,
        position=42,
        agreed_position=40,
        members=("1@10.0.0.1:7650", "2@broker-2.example:7650"),
    ),
    StateSnapshot(2**62, 5, ENTRIES, LEASES, OUTCOMES),
)


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_bytes(b"".join(encode_backup(BACKUP)))
