"""What a repair writes down before it changes anything: up to where in the damaged journal it takes care of topics.

A manifest that says so was made by that repair. Done again, it passes no offsets over for such a topic: nobody has
written since, as no broker starts on that journal. From the manifest alone this cannot be told: where the end of a
journal is missing, a cut may have come further than what is left of it, too.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from danube.model.untrusted_json import decode_json
from danube.offline.storage.repair.quarantine_folder import PREFIX
from danube.runtime.disk import Disk

NAME = "covered.json"
"""Beside the report, in the folder of what is set aside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveredJournal:
    """A journal that a repair takes care of."""

    journal_id: int
    end_position: int
    """Where what is left of it ends: one that went on since is not the same."""
    covered: int
    """The position that the manifests of the repair say; no cut of this journal has come as far."""

    def encode(self) -> str:
        """The file."""
        return json.dumps(asdict(self)) + "\n"


def covered_to(disk: Disk, journal_id: int, end_position: int) -> int | None:
    """The position that an earlier repair of this journal has its manifests say; None when there was none.

    What cannot be read counts for none: then offsets are passed over once more, and none is given out twice.
    """
    own = (one.covered for one in _written(disk) if (one.journal_id, one.end_position) == (journal_id, end_position))
    return max((covered for covered in own if covered > end_position), default=None)


def _written(disk: Disk) -> Iterator[CoveredJournal]:
    for folder in disk.list(""):
        if not folder.startswith(PREFIX):
            continue
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            fields = decode_json(_content(disk, f"{folder}/{NAME}"))
            yield CoveredJournal(
                journal_id=int(fields["journal_id"]),
                end_position=int(fields["end_position"]),
                covered=int(fields["covered"]),
            )


def _content(disk: Disk, name: str) -> bytes:
    with contextlib.closing(disk.open_read(name)) as file:
        return file.read(0, file.size())
