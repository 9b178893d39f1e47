"""Encoding of manifests: sealed. Pure. The fields are in `docs/formats/manifest.md`."""

from collections.abc import Mapping
from dataclasses import replace

from danube.model.errors import LimitReachedError
from danube.model.limits.broker import (
    CURSOR_RANGES_MAX,
    MANIFEST_CURSOR_RANGES_MAX,
    MANIFEST_JOURNALS_MAX,
    MANIFEST_SEGMENTS_MAX,
    SUBSCRIPTIONS_PER_TOPIC_MAX,
)
from danube.model.limits.stream import DEDUPLICATION_BATCHES_MAX, DEDUPLICATION_PRODUCERS_MAX
from danube.model.subscription import Cursor
from danube.runtime.checksum import refuse_other_version
from danube.runtime.sealed import Sealed
from danube.storage.batches.cursors import within_bounds
from danube.storage.segment.manifest import Manifest

_MANIFEST = Sealed(b"DnMf", Manifest)
_BOUNDS = {
    "segments": MANIFEST_SEGMENTS_MAX,
    "cursors": SUBSCRIPTIONS_PER_TOPIC_MAX,
    "rows of numbered batches": DEDUPLICATION_PRODUCERS_MAX,
    "journals": MANIFEST_JOURNALS_MAX,
}


def encode_manifest(manifest: Manifest) -> bytes:
    """A manifest as it is stored.

    Of a cursor with very many ranges the lowest are kept: what the others held is delivered again after a restart.
    Raises LimitReachedError when it has more segments or other parts than a manifest may have, and ValueError for one
    that is not valid.
    """
    _check(manifest)
    journals = dict(sorted(manifest.journals.items()))
    return _MANIFEST.seal(replace(manifest, cursors=_kept(manifest.cursors), journals=journals))


def decode_manifest(data: bytes) -> Manifest | None:
    """The manifest that was stored as `data`, or None when that is not a whole and undamaged one of this version."""
    try:
        manifest = _MANIFEST.unseal(data)
        _check(manifest)
    except (ValueError, LimitReachedError):
        return None
    is_kept = all(cursor == within_bounds(cursor) for cursor in manifest.cursors.values())
    return manifest if is_kept else None


def refuse_other_manifest(name: str, data: bytes) -> None:
    """Raise NewerDataFolderError for a manifest of another version."""
    refuse_other_version(name, data, _MANIFEST.magic, _MANIFEST.version)


def _check(manifest: Manifest) -> None:
    manifest.validate()
    parts = manifest.segments, manifest.cursors, manifest.producer_states, manifest.journals
    for (what, most), part in zip(_BOUNDS.items(), parts, strict=True):
        if len(part) > most:
            raise LimitReachedError(
                f"topic {manifest.topic_id} has {len(part)} {what} and {most} is the most that its manifest holds"
            )
    for row in manifest.producer_states:
        if not 0 < len(row) <= DEDUPLICATION_BATCHES_MAX:
            raise ValueError(f"a row of {len(row)} numbered batches cannot be: 1 to {DEDUPLICATION_BATCHES_MAX} can")
        if len(numbering := {batch.numbering_id for batch, _ in row}) > 1:
            raise ValueError(f"a row of batches has several who numbered them: {sorted(numbering)}")


def _kept(cursors: Mapping[int, Cursor]) -> dict[int, Cursor]:
    total = sum(min(len(cursor.beyond), CURSOR_RANGES_MAX) for cursor in cursors.values())
    many = total > MANIFEST_CURSOR_RANGES_MAX
    ranges_max = MANIFEST_CURSOR_RANGES_MAX // len(cursors) if many else CURSOR_RANGES_MAX
    return {identity: within_bounds(cursor, ranges_max) for identity, cursor in sorted(cursors.items())}
