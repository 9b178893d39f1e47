"""Inspection of the folder `raft/` of a broker that does not run: changes nothing, whatever is wrong."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from danube.metadata.raft.folder.folder import newest_snapshot
from danube.metadata.raft.folder.format import FILE_HEADER_BYTES, FOLDER, damaged, decode_file_header, file_sequence
from danube.metadata.raft.folder.recovery import (
    LogRecovery,
    RecoveredLog,
    Scan,
    aligned,
    check_together,
    members_after,
    scan_file,
)
from danube.metadata.raft.folder.small_files import IDENTITY, MARK, VOTE, Vote, read_identity, read_vote
from danube.metadata.raft.folder.snapshot import HeldSnapshot
from danube.model.errors import DanubeError
from danube.runtime.disk import PARTIAL_SUFFIX, Disk, file_size, is_environment

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RaftFile:
    """One file of the folder."""

    name: str
    size_bytes: int
    holds: str
    """Contents in words."""


@dataclass(slots=True)
class RaftReport:
    """Contents of a folder, as far as it can be read."""

    node_id: int = 0
    """0 when it cannot be read."""
    cluster_id: str = ""
    term: int = 0
    voted_for: str | None = None
    snapshot_index: int = 0
    """0 without a snapshot."""
    snapshot_term: int = 0
    first_index: int = 0
    """First index of the log as the next start uses it; 0 when it has no entry, or cannot be read."""
    last_index: int = 0
    last_term: int = 0
    members: tuple[str, ...] = ()
    """Ids of those with a vote by the newest configuration in the log; empty while that is unknown."""
    files: list[RaftFile] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    """Reasons why the broker would not start on it: sentences with file, byte and the next step."""


def inspect_folder(disk: Disk) -> RaftReport:
    """Read everything in `raft/`. Raises FileNotFoundError when there is no such folder."""
    report = RaftReport()
    report.files = [_file(disk, name) for name in disk.list(FOLDER)]
    owner = _tried(report, lambda: read_identity(disk))
    if owner is not None:
        report.node_id, report.cluster_id = owner.node_id, owner.cluster_id
    read = _tried(report, lambda: read_vote(disk))
    vote = Vote() if read is None else read[1]
    report.term, report.voted_for = vote.term, vote.voted_for
    snapshot = _tried(report, lambda: newest_snapshot(disk))
    found = RecoveredLog()
    if owner is not None:  # it has to be known for that
        found = _tried(report, LogRecovery(disk, owner).run) or found
    _find_missing_files(report)
    if not report.findings:
        _tried(report, lambda: check_together(found, snapshot, vote))
    _report_log(report, found, snapshot)
    return report


def _find_missing_files(report: RaftReport) -> None:
    names = {file.name for file in report.files}
    missing = [name for name in (IDENTITY, VOTE) if name not in names]
    if missing and names:
        report.findings += [str(damaged(name, 0, "the file is missing")) for name in missing]


def _report_log(report: RaftReport, found: RecoveredLog, snapshot: HeldSnapshot | None) -> None:
    if snapshot is not None:
        report.snapshot_index, report.snapshot_term = snapshot.index, snapshot.term
        report.members = snapshot.members
    entries = aligned(found, snapshot)
    if entries is None and snapshot is not None:
        entries = [snapshot.prev, snapshot.last]
    if entries and not report.findings:
        report.first_index, (_, report.last_index, report.last_term) = entries[0][1], entries[-1]
    if snapshot is not None and entries:
        behind = [entry for entry in entries if entry[1] > snapshot.index]
        members = _tried(report, lambda: members_after(snapshot.members, behind))
        report.members = members if members is not None else snapshot.members


def _tried(report: RaftReport, read: Callable[[], T]) -> T | None:
    try:
        return read()
    except (DanubeError, OSError) as error:
        if isinstance(error, OSError) and is_environment(error):
            raise
        report.findings.append(str(error))
        return None


def _file(disk: Disk, name: str) -> RaftFile:
    path = f"{FOLDER}/{name}"
    size = file_size(disk, path)
    if name.endswith(PARTIAL_SUFFIX):
        return RaftFile(path, size, "a file that was being written; it does not count")
    if file_sequence(name) is not None:
        return RaftFile(path, size, _log_file(disk, path))
    return RaftFile(path, size, "a snapshot" if name.startswith("image-") else _KNOWN.get(path, "not Danube's"))


_KNOWN = {
    IDENTITY: "who this member is",
    VOTE: "its term and its vote",
    MARK: "how far its log is synced",
}


def _log_file(disk: Disk, path: str) -> str:
    with contextlib.closing(disk.open_read(path)) as file:
        header = decode_file_header(file.read(0, FILE_HEADER_BYTES))
        if header is None:
            return "no sound header"
        scan = scan_file(header, file)
    end = f"nothing from entry {header.first_index} on"
    if scan.entries:
        end = f"entries {scan.entries[0][1]} to {scan.entries[-1][1]}"
    return f"{end}{_rest(scan)}"


def _rest(scan: Scan) -> str:
    if scan.fault is not None:
        return f", then damage at byte {scan.end}"
    if not scan.is_whole:
        return f", then {scan.size - scan.end} bytes that are not what was written"
    return ""
