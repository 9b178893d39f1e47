"""Metadata that has lost its newest changes, by the high-water mark of the data folder: what is lost with them.

An older copy of its file was put back, or its write-ahead log is gone. It is treated as metadata that was restored from
a backup of that age: a broker starts on it only if a person has accepted the loss.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from danube.broker.after_restore import LostTopic, lost_topics
from danube.broker.answers import counted
from danube.broker.data_folder import IDENTITY, METADATA, Identity
from danube.metadata.high_water import HighWaterMark, Reached, Rollback, rollback_of
from danube.metadata.record_format import TopicStorage
from danube.metadata.restore_mark import RestoreMark
from danube.runtime.disk import LocalDisk
from danube.storage.inspection.ahead import find_ahead
from danube.storage.inspection.finding import Finding, Level
from danube.storage.inspection.known import Known


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The metadata of a data folder, older than the folder."""

    rollback: Rollback
    mark: RestoreMark
    lost: tuple[LostTopic, ...]
    newer: tuple[tuple[TopicStorage, int], ...]
    """Records of known topics, and the newer manifest that each is pointed to at the next start."""
    is_accepted: bool
    """Whether a person has said that the broker is to go on all the same."""

    def findings(self) -> list[Finding]:
        """What is to be told of it."""
        level = Level.NOTE if self.is_accepted else Level.DAMAGE
        what = f"it is older than this folder: {self.rollback}; topics, subscriptions and settings are lost"
        lost = [
            Finding(
                level=level,
                file=METADATA,
                at=0,
                end=0,
                what=f"it does not know this topic, with {_messages(one)}",
                topic_id=one.topic_id,
            )
            for one in self.lost
        ]
        return [Finding(level=level, file=METADATA, at=0, end=0, what=what), *lost]

    def text(self) -> str:
        """What a repair gives up, in lines."""
        topics = [f"  lost: {one}, with {_messages(one)}" for one in self.lost]
        head = f"The metadata is older than this folder: {self.rollback}. Lost with its newest changes:"
        return "\n".join([head, *(topics or ["  no topic with messages; subscriptions and settings may be"])])


def find_rolled_back(
    path: Path, identity: Identity, known: Known, found: Reached, mark: RestoreMark
) -> RolledBack | None:
    """What the folder has beyond its own metadata; None where that has lost nothing, or was restored since.

    Blocks. Raises DanubeError, OSError.
    """
    is_accepted = identity.accepted_restore_id == mark.restore_id
    rollback = rollback_of(found, HighWaterMark(path).reached, is_accepted=is_accepted)
    if rollback is None or mark.restore_id != identity.restore_id:
        return None
    ahead = find_ahead(LocalDisk(path), known, found.topic_id)
    return RolledBack(rollback, mark, tuple(lost_topics(path, ahead)), tuple(ahead.newer), is_accepted)


def accept(path: Path, identity: Identity, mark: RestoreMark) -> None:
    """Have the broker of a folder go on under this metadata, whatever is lost. Raises OSError."""
    accepted = replace(identity, accepted_restore_id=mark.restore_id)
    LocalDisk(path).replace_file(IDENTITY, accepted.encode())


def _messages(lost: LostTopic) -> str:
    return counted(lost.messages, "message")
