"""Files that nobody needs: those of a topic's folder that its newest manifest does not name. Pure.

A cut that died on the way, or that lost against another, leaves files behind. They are recognised by the generation in
their name: what is of a generation up to the newest one and not named by it never will be. What is of a later one may
be of a cut that is under way; the next cut of the topic takes a higher number still, and then they go, or when it finds
the disk full.

In a shared folder several brokers may write to one topic's folder: the owner, and former ones that do not know yet.
Each epoch has generations of its own, so no two of them ever write a file of the same name, later owners have the
higher numbers, and the rule above holds for all of them without any clock.
"""

import re
from collections.abc import Iterable, Sequence

from danube.metadata.records.storage import TopicStorage
from danube.storage.segment.manifest import Manifest, folder_of, manifest_name, segment_name

EPOCH_SHIFT = 32
"""Generations of one epoch: 4 billion cuts of one topic by one owner."""

_ANY = range(1 << 64)
_GENERATION = re.compile(r"(?:[0-9]{20}-)?([0-9]{10,})\.(?:segment|manifest)")


def manifest_versions_of(record: TopicStorage) -> range:
    """Those that the topic's present owner may use: nobody else ever does."""
    epoch = record.epochs[-1].epoch if record.epochs else 0
    return range(epoch << EPOCH_SHIFT, (epoch + 1) << EPOCH_SHIFT)


def highest_manifest_version(names: Iterable[str], within: range = _ANY) -> int:
    """The highest generation that a file of a topic's folder names, of those `within`; 0 when none does."""
    found = (_generation(name) or 0 for name in names)
    return max((generation for generation in found if generation in within), default=0)


def of_manifest_version(names: Iterable[str], generation: int) -> list[str]:
    """The files that were written with a generation."""
    return [name for name in names if _generation(name) == generation]


def unfinished(names: Sequence[str], record: TopicStorage) -> list[str]:
    """The segments of cuts that died before their manifest was there: nothing names them, and nothing ever will.

    For the topic's present owner, while it makes no generation. A manifest is put after all that it lists, and stays
    until there is a newer one; so a generation that has none, and is above all that have one, was never whole.
    """
    own = manifest_versions_of(record)
    whole = highest_manifest_version(name for name in names if name.endswith(".manifest"))
    return [
        name for name in names if (found := _generation(name) or 0) in own and found > max(whole, record.generation)
    ]


def orphans(names: Sequence[str], manifest: Manifest) -> list[str]:
    """Those of the files in a topic's folder, as named within the tier, that no manifest needs any more."""
    topic_id = manifest.topic_id
    needed = {segment_name(topic_id, segment) for segment in manifest.segments}
    needed.add(manifest_name(topic_id, manifest.generation))
    gone = [name for name in names if (_generation(name) or manifest.generation + 1) <= manifest.generation]
    return [path for path in (f"{folder_of(topic_id)}/{name}" for name in gone) if path not in needed]


def _generation(name: str) -> int | None:
    found = _GENERATION.fullmatch(name)
    return int(found[1]) if found else None
