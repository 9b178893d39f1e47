"""What log and image of a member mean together at a start, whatever a crash left of them. Pure."""

from collections.abc import Iterable, Sequence

from danube.metadata.raft.core.encoding import EncodingError, loads
from danube.metadata.raft.folder.damage import damaged
from danube.metadata.raft.folder.vote import Vote
from danube.metadata.raft.log.format import Entry
from danube.metadata.raft.log.recovery import RecoveredLog
from danube.metadata.raft.log.snapshot import HeldSnapshot
from danube.model.errors import MetadataError

MEMBERSHIP = 2
"""First byte of a command that changes who has a vote (pysyncobj's `_COMMAND_TYPE.MEMBERSHIP`)."""


def check_together(found: RecoveredLog, snapshot: HeldSnapshot | None, vote: Vote, folder: str) -> None:
    """Raise DamagedDataError when something is missing that was there: no crash leaves files like this."""
    covered = snapshot.index if snapshot is not None else 0
    if snapshot is None and any(header.voids for header in found.headers):
        raise damaged(f"{folder}/image-*", 0, "the image that the log begins with is missing")
    if found.headers and found.first_index > max(covered, 1):
        name = f"{folder}/log-*"
        raise damaged(name, 0, f"entries {covered + 1} to {found.first_index - 1} are missing, and no image has them")
    if vote.synced_index > covered and found.term_of(vote.synced_index) != vote.synced_term:
        raise damaged(f"{folder}/log-*", 0, f"entry {vote.synced_index} was synced and is not there any more")
    newest = max((snapshot.term if snapshot is not None else 0, *(term for _, _, term in found.entries[-1:])))
    if vote.term < newest:
        raise damaged(f"{folder}/vote", 0, f"it says term {vote.term}, and the log is in term {newest} already")


def aligned(found: RecoveredLog, snapshot: HeldSnapshot | None) -> list[Entry] | None:
    """The log as Raft goes on from the image: its two entries and what follows them. None when the files hold nothing
    that goes on from the image: the log is those two entries then, and has to be written anew.

    An image that another member sent is on the disk before the log begins anew with it; the crash may come between.
    """
    if snapshot is None:
        return list(found.entries)
    if found.term_of(snapshot.index) != snapshot.term:
        return None
    return [snapshot.prev, snapshot.last, *found.entries[snapshot.index + 1 - found.first_index :]]


def members_after(members: Sequence[str], entries: Iterable[Entry]) -> tuple[str, ...]:
    """Who has a vote after these entries, sorted, if it was `members` before them.

    The newest configuration in the log counts, committed or not (Ongaro, Consensus: Bridging Theory and Practice, 4.1).
    Raises MetadataError for an entry that changes the members and cannot be read.
    """
    voters = set(members)
    for command, index, _ in entries:
        if command[:1] == bytes([MEMBERSHIP]):
            kind, member = _change_of(command, index)
            voters = voters | {member} if kind == "add" else voters - {member}
    return tuple(sorted(voters))


def _change_of(command: bytes, index: int) -> tuple[str, str]:
    try:
        kind, member, *_ = loads(command[1:])
    except (EncodingError, TypeError, ValueError) as error:
        raise MetadataError(f"entry {index} changes the members and cannot be read: {error}") from error
    if kind not in ("add", "rem") or not isinstance(member, str):
        raise MetadataError(f"entry {index} changes the members in a way that this Danube does not know")
    return kind, member
