"""Verification of a bucket: every byte of segments, manifests and numbered objects, and objects that nothing names.

It needs no metadata and no broker, and changes nothing. Brokers may run meanwhile: what they write or delete during the
verification is looked at once more before it counts as damaged.
"""

from dataclasses import dataclass, field

from danube.model.errors import DanubeError, NewerDataFolderError
from danube.objects.store import ObjectInfo, ObjectStore
from danube.storage.journal.folder import JOURNALS
from danube.storage.object_store.part_format import PartKind, decode_part, log_prefix, number_of
from danube.storage.segment.manifest import SEGMENTS, Manifest, folder_of, segment_name
from danube.storage.segment.manifest_format import decode_manifest, refuse_other_manifest
from danube.storage.segment.reader import SegmentReader
from danube.storage.takeover.object_storage import CLUSTER
from danube.storage.tiers.tier import SegmentTier

_MANIFEST = ".manifest"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketTopic:
    """One topic in a bucket."""

    topic_id: int
    manifest_version: int
    start_offset: int
    end_offset: int
    """Later messages are in a journal."""
    segments: int
    segment_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketJournal:
    """One journal in a bucket."""

    journal: str
    objects: int
    object_bytes: int
    is_fenced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFinding:
    """An object, and what is wrong with it."""

    name: str
    what: str
    is_damage: bool


@dataclass(slots=True)
class BucketScan:
    """A bucket as it was read."""

    cluster: str = ""
    topics: list[BucketTopic] = field(default_factory=list)
    journals: list[BucketJournal] = field(default_factory=list)
    findings: list[BucketFinding] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """True when nothing is damaged; orphans are none the worse."""
        return not any(one.is_damage for one in self.findings)


def verify_bucket(store: ObjectStore, tier: SegmentTier) -> BucketScan:
    """Read everything below the prefix. Raises OSError, NewerDataFolderError."""
    found = BucketScan()
    try:
        found.cluster = store.get(CLUSTER).decode(errors="replace")
    except FileNotFoundError:
        found.findings.append(_finding(CLUSTER, "it is missing: no broker has used this prefix"))
    reader = SegmentReader(tier)
    for name in store.folders(f"{SEGMENTS}/"):
        if name.isdecimal():
            _verify_topic(store, tier, reader, int(name), found)
    for name in store.folders(f"{JOURNALS}/"):
        _verify_journal(store, name, found)
    return found


def _verify_topic(
    store: ObjectStore, tier: SegmentTier, reader: SegmentReader, topic_id: int, found: BucketScan
) -> None:
    listed = store.listing(f"{folder_of(topic_id)}/")
    manifest = _newest_manifest(store, topic_id, listed, found)
    if manifest is None:
        return
    for segment in manifest.segments:
        try:
            reader.verify(topic_id, segment)
        except NewerDataFolderError:
            raise
        except DanubeError as error:
            newest = _newest_manifest(store, topic_id, store.listing(f"{folder_of(topic_id)}/"), found)
            if newest is not None and segment in newest.segments:
                found.findings.append(_finding(segment_name(topic_id, segment), str(error)))
        tier.close_folder(folder_of(topic_id))  # nothing is read twice: the cache is for others
    named = {segment_name(topic_id, one) for one in manifest.segments}
    for one in listed:
        if not one.name.endswith(_MANIFEST) and one.name not in named:
            what = f"no manifest names its {one.size:,} bytes: a flush under way, or an orphan that a broker sweeps"
            found.findings.append(_finding(one.name, what, is_damage=False))
    found.topics.append(topic_of(manifest))


def topic_of(manifest: Manifest) -> BucketTopic:
    """The row of a topic, by its newest manifest."""
    return BucketTopic(
        topic_id=manifest.topic_id,
        manifest_version=manifest.version,
        start_offset=manifest.start_offset,
        end_offset=manifest.end_offset,
        segments=len(manifest.segments),
        segment_bytes=sum(one.file_bytes for one in manifest.segments),
    )


def _newest_manifest(store: ObjectStore, topic_id: int, listed: list[ObjectInfo], found: BucketScan) -> Manifest | None:
    versions = sorted(one.name for one in listed if one.name.endswith(_MANIFEST))
    if not versions:
        return None
    try:
        encoded = store.get(versions[-1])
    except FileNotFoundError:  # a newer one is there by now
        return None
    manifest = decode_manifest(encoded)
    if manifest is None:
        refuse_other_manifest(versions[-1], encoded)
    if manifest is None or manifest.topic_id != topic_id:
        found.findings.append(_finding(versions[-1], "it is not what was written"))
        return None
    return manifest


def _verify_journal(store: ObjectStore, name: str, found: BucketScan) -> None:
    listed = store.listing(log_prefix(f"{JOURNALS}/{name}"))
    is_fenced, ends = False, dict[int, int]()
    for one in (one for one in listed if number_of(one.name) is not None):
        try:
            decoded = decode_part(store.get(one.name), one.name)
        except FileNotFoundError:  # its file was flushed meanwhile
            continue
        if decoded is None:
            found.findings.append(_finding(one.name, "it is not what was written: restore it from a backup"))
            continue
        part = decoded[0]
        if is_fenced and part.kind != PartKind.FENCE:
            found.findings.append(_finding(one.name, "it follows a fence, and nothing may"))
        if part.kind == PartKind.DATA:
            if part.position > ends.get(part.sequence, 0):
                found.findings.append(_finding(one.name, "an object before it is missing: restore it from a backup"))
            ends[part.sequence] = part.position + part.length
        is_fenced = is_fenced or part.kind == PartKind.FENCE
    size = sum(one.size for one in listed)
    found.journals.append(BucketJournal(journal=name, objects=len(listed), object_bytes=size, is_fenced=is_fenced))


def _finding(name: str, what: str, *, is_damage: bool = True) -> BucketFinding:
    return BucketFinding(name=name, what=what, is_damage=is_damage)
