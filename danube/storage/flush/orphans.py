"""Orphans: files of a topic's folder that its newest manifest does not name. Pure.

A flush that died or lost against another leaves files behind. The manifest version in their name tells them: one up to
the newest that the newest does not name is never needed. A later one may be of a flush under way; the topic's next
flush takes a higher number, and then it is removed, or when the disk is full.

In a shared folder the owner and former owners may write to one topic's folder. Each epoch has manifest versions of its
own: no two owners write a file of the same name, later owners have higher numbers, and the rule needs no clock.
"""

import re
from collections.abc import Iterable, Sequence

from danube.metadata.records.storage import TopicStorage
from danube.storage.segment.manifest import Manifest, folder_of, manifest_name, segment_name

EPOCH_SHIFT = 32
"""Bits of an epoch's manifest versions: 4 billion flushes of one topic by one owner."""

_ANY = range(1 << 64)
_MANIFEST_VERSION = re.compile(r"(?:[0-9]{20}-)?([0-9]{10,})\.(?:segment|manifest)")


def manifest_versions_of(record: TopicStorage) -> range:
    """Manifest versions of the topic's present owner, which no other broker uses."""
    epoch = record.epochs[-1].epoch if record.epochs else 0
    return range(epoch << EPOCH_SHIFT, (epoch + 1) << EPOCH_SHIFT)


def highest_manifest_version(names: Iterable[str], within: range = _ANY) -> int:
    """The highest manifest version that a file of a topic's folder names, of those `within`; 0 when none does."""
    found = (_manifest_version(name) or 0 for name in names)
    return max((manifest_version for manifest_version in found if manifest_version in within), default=0)


def of_manifest_version(names: Iterable[str], manifest_version: int) -> list[str]:
    """The files that were written with a manifest version."""
    return [name for name in names if _manifest_version(name) == manifest_version]


def unfinished(names: Sequence[str], record: TopicStorage) -> list[str]:
    """Segments of flushes that died before their manifest was written; nothing will ever name them.

    For the topic's present owner, while it builds nothing. A manifest is written after all that it lists, and stays
    until there is a newer one: segments above all manifests are of a version that was never whole.
    """
    own = manifest_versions_of(record)
    whole = highest_manifest_version(name for name in names if name.endswith(".manifest"))
    return [
        name
        for name in names
        if (found := _manifest_version(name) or 0) in own and found > max(whole, record.manifest_version)
    ]


def orphans(names: Sequence[str], manifest: Manifest) -> list[str]:
    """Files of a topic's folder that no manifest needs any more, named as within the tier."""
    topic_id = manifest.topic_id
    needed = {segment_name(topic_id, segment) for segment in manifest.segments}
    needed.add(manifest_name(topic_id, manifest.version))
    gone = [name for name in names if (_manifest_version(name) or manifest.version + 1) <= manifest.version]
    return [path for path in (f"{folder_of(topic_id)}/{name}" for name in gone) if path not in needed]


def _manifest_version(name: str) -> int | None:
    found = _MANIFEST_VERSION.fullmatch(name)
    return int(found[1]) if found else None
