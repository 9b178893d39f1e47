"""Snapshots of the shared log: when a member takes one, and how."""

import logging
from functools import partial

from danube.metadata.shared_log.backend import LogBackend, Snapshot
from danube.metadata.shared_log.entry_format import encode_snapshot
from danube.metadata.shared_log.tail import LogTail
from danube.model.errors import DanubeError
from danube.model.limits.metadata import METADATA_LOG_SNAPSHOT_BYTES, METADATA_LOG_SNAPSHOT_ENTRIES
from danube.runtime.blocking import BlockingRunner
from danube.runtime.rng import Rng

_log = logging.getLogger(__name__)


class SnapshotRule:
    """Rule for when one is due: after so many entries or bytes, and for each member a little later than for another."""

    def __init__(
        self,
        rng: Rng,
        *,
        entries_max: int = METADATA_LOG_SNAPSHOT_ENTRIES,
        bytes_max: int = METADATA_LOG_SNAPSHOT_BYTES,
    ) -> None:
        self._rng = rng
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._number = 0
        self._entries = 0
        self._bytes = 0
        self._factor = rng.uniform(1.0, 1.5)

    def added(self, size: int) -> None:
        """Count an entry of so many bytes."""
        self._entries += 1
        self._bytes += size

    @property
    def is_due(self) -> bool:
        """True if the log has grown enough since the newest snapshot that this member knows of."""
        return self._entries >= self._entries_max * self._factor or self._bytes >= self._bytes_max * self._factor

    def exists(self, number: int, position: int) -> None:
        """There is a snapshot of the state after entry `number`; this member has read up to `position`."""
        if number <= self._number:
            return
        entries = max(0, position - number)
        self._bytes = self._bytes * entries // max(entries, self._entries, 1)  # roughly: entries are alike
        self._number, self._entries = number, entries
        self._factor = self._rng.uniform(1.0, 1.5)

    def saved(self, size: int) -> None:
        """The one that exists has so many bytes; before the log has as many, another one is not worth its while."""
        self._bytes_max = max(self._bytes_max, size)

    def put_off(self) -> None:
        """It could not be taken now."""
        self._factor += 0.5


async def take_snapshot(
    backend: LogBackend, tail: LogTail, runner: BlockingRunner, rule: SnapshotRule, author: int
) -> None:
    """Save the state as it is now, unless another member has done so. A failure is logged: the next one will do."""
    try:
        rule.exists(await backend.snapshot_number(), tail.position)
        if rule.is_due:
            number, link, snapshot = tail.position, tail.link, tail.snapshot()
            pieces = await runner.run(partial(encode_snapshot, author, link, snapshot, backend.entry_bytes_max))
            await backend.save_snapshot(Snapshot(number, pieces))
            rule.exists(number, tail.position)
            rule.saved(sum(map(len, pieces)))
    except DanubeError as error:
        rule.put_off()
        _log.warning("no snapshot of the metadata was taken, it will be tried again: %s", error)
