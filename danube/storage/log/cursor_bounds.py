"""Keeps cursors within their log after a power cut.

A manifest holds cursors, while the log's newest batches are in the journal. With a durability other than fsync a power
cut may take those batches and leave the manifest. A cursor beyond the end would skip messages that are yet to come; so
it is moved back, and written before anything is appended.
"""

import asyncio
import logging
from collections.abc import Iterable

from danube.model.errors import DanubeError
from danube.model.subscription import Cursor
from danube.storage.journal import Journal
from danube.storage.journal.journal import JournalTopicLog
from danube.storage.quarantine import TopicNames, called
from danube.storage.segment.manifest import Manifest

_log = logging.getLogger(__name__)


async def keep_cursors_within(journal: Journal, manifests: Iterable[Manifest], names: TopicNames) -> None:
    """Write the cursors that were beyond the end of their log; returns when it is done.

    The journal has moved them back in memory when it was opened. A failed write is logged, and tried again.
    """
    waiting: list[asyncio.Future[DanubeError | None]] = []
    for manifest in manifests:
        log = journal.topic(manifest.topic_id, epoch=0)
        beyond = [each for each, cursor in manifest.cursors.items() if _end_of(cursor) > log.durable_end]
        if beyond:
            waiting += [_save(log, subscription_id) for subscription_id in beyond]
            _log.warning(
                "%s ends at offset %d: %d subscriptions stood beyond it and were brought back",
                called(log.topic_id, names),
                log.durable_end,
                len(beyond),
            )
    errors = [error for saved in waiting if (error := await saved) is not None]
    if errors:
        _log.warning("%d subscriptions that were brought back could not be saved: %s", len(errors), errors[0])


def _save(log: JournalTopicLog, subscription_id: int) -> "asyncio.Future[DanubeError | None]":
    saved: asyncio.Future[DanubeError | None] = asyncio.get_running_loop().create_future()
    log.save_cursor(subscription_id, log.cursor(subscription_id) or Cursor(log.start_offset), saved.set_result)
    return saved


def _end_of(cursor: Cursor) -> int:
    return cursor.beyond[-1].end if cursor.beyond else cursor.position
