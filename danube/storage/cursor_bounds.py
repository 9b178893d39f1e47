"""Keeping cursors within the log they stand in.

A manifest holds cursors as they stood when it was made, and the log's newest batches are in the journal. With a
durability other than fsync a power cut may take those batches and leave the manifest. A cursor beyond the end would
then pass over messages that are yet to come; so it is brought back, durably before anything is appended.
"""

import logging
from collections.abc import Mapping

from danube.model.errors import DanubeError
from danube.model.subscription import Cursor
from danube.storage.topic_log import JournalTopicLog

_log = logging.getLogger(__name__)


def keep_cursors_within(log: JournalTopicLog, kept: Mapping[int, Cursor]) -> None:
    """Have those of a manifest's cursors that stood beyond the log's end written as they stand now, with a first round.

    The journal has brought them back in memory when it was opened.
    """
    beyond = [subscription_id for subscription_id, cursor in kept.items() if _end_of(cursor) > log.durable_end]
    for subscription_id in beyond:
        cursor = log.cursor(subscription_id)
        if cursor is not None:
            log.save_cursor(subscription_id, cursor, _said)
    if beyond:
        _log.warning(
            "topic %d ends at offset %d: %d subscriptions stood beyond it and were brought back",
            log.topic_id,
            log.durable_end,
            len(beyond),
        )


def _end_of(cursor: Cursor) -> int:
    return cursor.beyond[-1].end if cursor.beyond else cursor.position


def _said(error: DanubeError | None) -> None:
    if error is not None:
        _log.warning("a subscription that was brought back could not be saved: %s", error)
