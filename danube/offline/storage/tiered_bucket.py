"""Verification of segments that a disk has moved into a bucket: by the manifests on the disk, and what none names.

It changes nothing, and the broker may run meanwhile: what is missing is looked up once more in the newest manifest.
"""

from danube.model.errors import DanubeError, NewerDataFolderError
from danube.objects.store import ObjectStore
from danube.offline.storage.bucket import BucketFinding, BucketScan, topic_of
from danube.runtime.disk import Disk
from danube.storage.flush.manifest_lookup import load_manifest, manifest_versions_there
from danube.storage.object_store.object_tier import ObjectTier
from danube.storage.object_store.tiered_tier import TieredTier
from danube.storage.segment.manifest import SEGMENTS, Manifest, Segment, folder_of, segment_name
from danube.storage.segment.reader import SegmentReader
from danube.storage.tiers.directory import DirectoryTier


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
            found.topics.append(topic_of(manifest))
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
    except NewerDataFolderError:
        raise
    except DanubeError as error:
        newest = _newest(disk, topic_id)
        if newest is not None and segment in newest.segments:
            found.findings.append(BucketFinding(name=name, what=str(error), is_damage=True))


def _newest(disk: Disk, topic_id: int) -> Manifest | None:
    """The newest manifest on the disk; None without one. Raises DamagedDataError, OSError."""
    tier = DirectoryTier(disk)
    try:
        versions = manifest_versions_there(tier, topic_id)
        return load_manifest(tier, topic_id, versions[0]) if versions else None
    finally:
        tier.close_folder(folder_of(topic_id))
