"""Topics in a bucket: their manifests, and the epochs that journals have of them. It reads only, and blocks."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from danube.model.errors import DamagedDataError
from danube.objects.store import ObjectStore
from danube.runtime.disk import Disk
from danube.storage.batches.cursors import decode_cursor
from danube.storage.batches.envelope import Envelope, Kind
from danube.storage.flush.manifest_lookup import load_manifest, manifest_versions_there
from danube.storage.flush.orphans import EPOCH_SHIFT
from danube.storage.journal.folder import JournalFolder, listed_journals
from danube.storage.journal.walker import JournalWalker, SoundRound
from danube.storage.segment.manifest import SEGMENTS, Manifest, folder_of, segment_name
from danube.storage.tiers.tier import SegmentTier


@dataclass(slots=True)
class EpochRun:
    """Records of one epoch of a topic in one journal."""

    epoch: int
    journal_id: int
    position: int
    first_offset: int | None = None
    """None while there are only cursors."""
    end_offset: int = 0
    records: int = 0
    cursors: set[int] = field(default_factory=set)
    """Ids of the subscriptions."""

    def add(self, envelope: Envelope, position: int, body: bytes) -> None:
        """Count a record. One that goes back began another attempt to own the topic: what was before is void."""
        self.records += 1
        if envelope.kind is Kind.CURSOR:
            if (decoded := decode_cursor(body)) is not None:
                self.cursors.add(decoded[0])
            return
        if self.first_offset is None:
            self.first_offset = envelope.base_offset
        elif envelope.base_offset < self.end_offset:
            self.first_offset, self.position = envelope.base_offset, position
        self.end_offset = envelope.base_offset + envelope.count


@dataclass(slots=True)
class FoundTopic:
    """One topic in a bucket."""

    topic_id: int
    manifest: Manifest
    """Of version 0 where there is none."""
    runs: tuple[EpochRun, ...]
    """In journals, by epoch, one of each."""

    @property
    def cursors(self) -> frozenset[int]:
        """Ids of the subscriptions that have a position."""
        newest = self.runs[-1].cursors if self.runs else ()
        return frozenset({*self.manifest.cursors, *newest})

    @property
    def end_offset(self) -> int:
        """The offset after its last message."""
        return max([self.manifest.end_offset, *(one.end_offset for one in self.runs)])


def read_topics(store: ObjectStore, disk: Disk, tier: SegmentTier) -> dict[int, FoundTopic]:
    """All topics with manifests or records in journals, by id.

    Raises OSError, DamagedDataError for a journal or a topic of which something is missing, DataFolderError.
    """
    runs: dict[int, dict[int, EpochRun]] = {}
    for journal_id, folder in listed_journals(disk).items():
        for run in _runs_of(disk, journal_id, folder):
            topic_id, found = run
            known = runs.setdefault(topic_id, {})
            if found.epoch not in known or _size(known[found.epoch]) < _size(found):
                known[found.epoch] = found  # the other one is of an attempt to own the topic that failed
    stored = {int(name) for name in store.folders(f"{SEGMENTS}/") if name.isdecimal()}
    return {one: _topic(tier, one, runs.get(one, {})) for one in sorted({*stored, *runs})}


def _topic(tier: SegmentTier, topic_id: int, runs: Mapping[int, EpochRun]) -> FoundTopic:
    ordered = tuple(runs[epoch] for epoch in sorted(runs))
    return FoundTopic(topic_id, _manifest(tier, topic_id, ordered), ordered)


def _manifest(tier: SegmentTier, topic_id: int, runs: tuple[EpochRun, ...]) -> Manifest:
    """The newest whole manifest that no later owner contradicts. Raises DamagedDataError where none of them is."""
    versions = manifest_versions_there(tier, topic_id)
    fault = ""
    for version in versions:
        try:
            manifest = load_manifest(tier, topic_id, version)
            names = (segment_name(topic_id, one) for one in manifest.segments)
            missing = [name for name in names if not _is_there(tier, name)]
        except DamagedDataError as error:
            fault = fault or str(error)
            continue
        if missing:
            fault = fault or f"{missing[0]} is missing"
        elif not _is_contradicted(manifest, runs):
            return manifest
    if fault:
        raise DamagedDataError(
            f"no manifest in {folder_of(topic_id)} is whole ({fault}): restore it by the versions that the bucket keeps"
        )
    return Manifest(topic_id=topic_id, version=0)


def _is_there(tier: SegmentTier, name: str) -> bool:
    try:
        tier.size(name)
    except FileNotFoundError:
        return False
    return True


def _is_contradicted(manifest: Manifest, runs: tuple[EpochRun, ...]) -> bool:
    """True if a later owner begins below its end: it is of an owner that did not know yet that it was none."""
    epoch = manifest.version >> EPOCH_SHIFT
    later = (one.first_offset for one in runs if one.epoch > epoch and one.first_offset is not None)
    return any(first < manifest.end_offset for first in later)


def _runs_of(disk: Disk, journal_id: int, folder: str) -> list[tuple[int, EpochRun]]:
    walker = JournalWalker(JournalFolder(disk, folder), journal_id=journal_id)
    walker.list_files()
    found: dict[tuple[int, int], EpochRun] = {}
    for event in walker.events():
        if not isinstance(event, SoundRound):
            continue
        for envelope, position, body in event.entries:
            if envelope.kind not in {Kind.DATA, Kind.CURSOR}:
                continue
            key = (envelope.topic_id, envelope.epoch)
            run = found.setdefault(key, EpochRun(envelope.epoch, journal_id, position))
            run.add(envelope, position, body)
    return [(topic_id, run) for (topic_id, _), run in found.items()]


def _size(run: EpochRun) -> tuple[int, int]:
    return run.end_offset, run.records
