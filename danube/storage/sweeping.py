"""Files that nobody needs: those of a topic's folder that its newest manifest does not name. Pure.

A cut that died on the way, or that lost against another, leaves files behind. They are recognised by the generation in
their name: what is of a generation up to the newest one and not named by it never will be. What is of a later one may
be of a cut that is under way; the next cut of the topic takes a higher number still, and then they go.
"""

import re
from collections.abc import Iterable, Sequence

from danube.storage.segment.manifest import Manifest, folder_of, manifest_name, segment_name

_GENERATION = re.compile(r"(?:[0-9]{20}-)?([0-9]{10,})\.(?:segment|manifest)")


def highest_generation(names: Iterable[str]) -> int:
    """The highest generation that a file of a topic's folder names; 0 when none does."""
    return max((_generation(name) or 0 for name in names), default=0)


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
