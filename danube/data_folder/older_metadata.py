"""Metadata that has lost its newest changes, by the high-water mark of the data folder: what is lost with them.

An older copy of its file was put back, or its write-ahead log is gone. It is treated as metadata that was restored from
a backup of that age: a broker starts on it only if a person has accepted the loss.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from danube.data_folder.after_restore import LostTopic, lost_topics
from danube.data_folder.data_folder import IDENTITY, METADATA, Identity
from danube.data_folder.findings import Finding, Level
from danube.data_folder.metadata_view import MetadataView
from danube.data_folder.newer_than_metadata import find_newer_than_metadata
from danube.metadata.high_water import HighWaterMark, Reached, Rollback, rollback_of
from danube.metadata.records.record_format import TopicStorage
from danube.metadata.records.restore_mark import RestoreMark
from danube.model.text import count_text
from danube.runtime.disk import LocalDisk


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
    path: Path, identity: Identity, known: MetadataView, found: Reached, mark: RestoreMark
) -> RolledBack | None:
    """What the folder has beyond its own metadata; None where that has lost nothing, or was restored since.

    Blocks. Raises DanubeError, OSError.
    """
    is_accepted = identity.accepted_restore_id == mark.restore_id
    rollback = rollback_of(found, HighWaterMark(path).reached, is_accepted=is_accepted)
    if rollback is None or mark.restore_id != identity.restore_id:
        return None
    ahead = find_newer_than_metadata(LocalDisk(path), known, found.topic_id)
    return RolledBack(rollback, mark, tuple(lost_topics(path, ahead)), tuple(ahead.newer), is_accepted)


def accept(path: Path, identity: Identity, mark: RestoreMark) -> None:
    """Have the broker of a folder go on under this metadata, whatever is lost. Raises OSError."""
    accepted = replace(identity, accepted_restore_id=mark.restore_id)
    LocalDisk(path).replace_file(IDENTITY, accepted.encode())


def _messages(lost: LostTopic) -> str:
    return count_text(lost.messages, "message")
