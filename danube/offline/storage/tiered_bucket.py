"""Verification of segments that a disk has moved into a bucket: by the manifests on the disk, and what none names.

It changes nothing, and the broker may run meanwhile: what is missing is looked up once more in the newest manifest.
"""

from danube.model.errors import DamagedDataError, DanubeError
from danube.objects.store import ObjectStore
from danube.offline.storage.bucket import BucketFinding, BucketScan, BucketTopic
from danube.runtime.disk import Disk
from danube.storage.object_store.object_tier import ObjectTier
from danube.storage.object_store.tiered_tier import TieredTier
from danube.storage.segment.manifest import SEGMENTS, Manifest, Segment, folder_of, segment_name
from danube.storage.segment.manifest_format import decode_manifest
from danube.storage.segment.reader import SegmentReader
from danube.storage.tiers.directory import DirectoryTier

_MANIFEST = ".manifest"


def verify_tiered(store: ObjectStore, disk: Disk, remote: ObjectTier, below: str) -> BucketScan:
    """Read every object below the prefix `below` that a manifest on the disk names. Raises OSError."""
    found, tier = BucketScan(), TieredTier(disk, remote)
    reader = SegmentReader(tier)
    on_disk = disk.list(SEGMENTS) if disk.exists(SEGMENTS) else []
    names = {*store.folders(f"{below}{SEGMENTS}/"), *on_disk}
    for topic_id in sorted(int(name) for name in names if name.isdecimal()):
        listed = store.listing(f"{below}{folder_of(topic_id)}/")
        manifest = _newest(disk, topic_id)
        if manifest is not None:
            for segment in manifest.segments:
                _verify(disk, reader, topic_id, segment, found)
            tier.close_folder(folder_of(topic_id))
            found.topics.append(_topic(manifest))
        named = {below + segment_name(topic_id, one) for one in manifest.segments} if manifest is not None else set()
        what = "no manifest on the disk names its {:,} bytes: a deletion under way, or an orphan"
        found.findings += [
            BucketFinding(name=one.name, what=what.format(one.size), is_damage=False)
            for one in listed
            if one.name not in named
        ]
    return found


def _verify(disk: Disk, reader: SegmentReader, topic_id: int, segment: Segment, found: BucketScan) -> None:
    name = segment_name(topic_id, segment)
    if disk.exists(name):  # the verification of the disk reads it
        return
    try:
        reader.verify(topic_id, segment)
    except DanubeError as error:
        newest = _newest(disk, topic_id)
        if newest is not None and segment in newest.segments:
            found.findings.append(BucketFinding(name=name, what=str(error), is_damage=True))


def _newest(disk: Disk, topic_id: int) -> Manifest | None:
    """The newest manifest on the disk; None without one. Raises DamagedDataError."""
    folder = folder_of(topic_id)
    versions = [one for one in disk.list(folder) if one.endswith(_MANIFEST)] if disk.exists(folder) else []
    if not versions:
        return None
    name, tier = f"{folder}/{max(versions)}", DirectoryTier(disk)
    manifest = decode_manifest(tier.read(name, 0, tier.size(name)))
    tier.close_folder(folder)
    if manifest is None or manifest.topic_id != topic_id:
        raise DamagedDataError(f"{name} is not what was written: verify the disk first, with --tier disk")
    return manifest


def _topic(manifest: Manifest) -> BucketTopic:
    return BucketTopic(
        topic_id=manifest.topic_id,
        manifest_version=manifest.version,
        start_offset=manifest.start_offset,
        end_offset=manifest.end_offset,
        segments=len(manifest.segments),
        segment_bytes=sum(one.file_bytes for one in manifest.segments),
    )
