"""Positions of a source as attributes of its records, and the place to resume at. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from danube.model.untrusted_json import decode_json

SOURCE = "x-connect-source"
"""Name of the connector that stored the record."""
POSITION = "x-connect-position"
"""Position of the record, as JSON."""
BATCH = "x-connect-batch"
"""Of a partitioned topic, the number of the record's batch."""
AFTER = "x-connect-after"
"""Of a partitioned topic, the position before that batch, as JSON."""

_encode = json.JSONEncoder(separators=(",", ":"), sort_keys=True, allow_nan=False).encode


@dataclass(frozen=True, slots=True)
class Mark:
    """The last record that a source has in one partition."""

    position: str
    """As JSON."""
    batch: int = 0
    after: str = "null"
    """As JSON."""


@dataclass(frozen=True, slots=True)
class Resume:
    """The place to resume at."""

    after: Any = None
    """The position that the source is asked to continue after."""
    batch: int = 1
    """Number of the next batch."""
    held: Mapping[int, str] = field(default_factory=dict)
    """By partition, the position, as JSON, of the last record of the batch after `after` that is stored there."""


def encoded(position: Any) -> str:  # noqa: ANN401 - JSON
    """A position as an attribute. Raises ValueError for one that JSON cannot write."""
    try:
        return _encode(position)
    except TypeError as error:
        raise ValueError(f"a position is a value of JSON: {error}") from None


def attributes_of(source: str, mark: Mark, *, is_partitioned: bool) -> dict[str, str]:
    """The attributes of a record."""
    own = {SOURCE: source, POSITION: mark.position}
    return own | {BATCH: str(mark.batch), AFTER: mark.after} if is_partitioned else own


def mark_of(source: str, attributes: Mapping[str, str]) -> Mark | None:
    """The mark that a record has, if it is of this source."""
    if attributes.get(SOURCE) != source or POSITION not in attributes:
        return None
    batch = attributes.get(BATCH, "0")
    return Mark(attributes[POSITION], int(batch) if batch.isdecimal() else 0, attributes.get(AFTER, "null"))


def resume_of(marks: Sequence[Mark | None]) -> Resume:
    """The place to resume at, from the last mark of each partition.

    A batch begins once the one before is stored on all partitions. So the newest batch alone may be incomplete: it is
    read again, and each partition that has a part of it drops that part.
    """
    known = [mark for mark in marks if mark is not None]
    if not known:
        return Resume()
    if len(marks) == 1:
        return Resume(after=decode_json(known[0].position))
    newest = max(mark.batch for mark in known)
    after = next(mark.after for mark in known if mark.batch == newest)
    held = {index: mark.position for index, mark in enumerate(marks) if mark is not None and mark.batch == newest}
    return Resume(after=decode_json(after), batch=newest, held=held)


class Held:
    """Drops the records that partitions hold already, of a batch that is read again."""

    def __init__(self, held: Mapping[int, str]) -> None:
        self._held = dict(held)

    def drops(self, partition: int, position: str) -> bool:
        """Tell whether the partition holds the record at a position."""
        last = self._held.get(partition)
        if last == position:
            del self._held[partition]
        return last is not None
