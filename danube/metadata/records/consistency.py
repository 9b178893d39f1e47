"""What must hold of the records of the metadata together, whatever wrote them. Pure.

Each key is one of its family, no two topics have the same id, and no id is above the last one that was given out.
"""

from collections.abc import Callable, Iterable, Mapping

from danube.metadata.records import keys
from danube.metadata.records.families import family_of
from danube.metadata.records.record_format import decode_counter, decode_topic
from danube.metadata.store import Entry
from danube.model.errors import MetadataError

_PARSERS: Mapping[str, Callable[[str], object]] = {
    keys.NAMESPACES: keys.parse_namespace,
    keys.TOPICS: keys.parse_topic,
    keys.SUBSCRIPTIONS: keys.parse_subscription,
    keys.CONSUMERS: keys.parse_consumer,
    keys.PLANS: keys.parse_plan,
    keys.STORED_TOPICS: keys.parse_stored_topic,
    keys.DELETED_TOPICS: keys.parse_deleted_topic,
    keys.STORED_JOURNALS: keys.parse_stored_journal,
    keys.REGISTERED: keys.parse_registered_broker,
}


def contradiction_in(entries: Iterable[Entry]) -> str | None:
    """The first thing that cannot be, in a few words; None where there is none. Raises MetadataError for a value that
    cannot be read.
    """
    holders: dict[int, str] = {}
    given_out = 0
    for entry in entries:
        family, key = family_of(entry.key), entry.key
        try:
            _PARSERS.get(family, str)(key)
        except MetadataError:
            return f"the key {key!r} is none of {family}"
        if key == keys.TOPIC_ID_COUNTER:
            given_out = decode_counter(entry)
        elif (topic_id := _topic_id(family, entry)) is not None:
            if topic_id in holders:
                return f"{holders[topic_id]} and {key} have the same topic id {topic_id}"
            holders[topic_id] = key
    highest = max(holders, default=0)
    if highest > given_out:
        return f"{holders[highest]} has topic id {highest}, and the last that was given out is {given_out}"
    return None


def _topic_id(family: str, entry: Entry) -> int | None:
    """The id that an entry stands for alone: of a topic, or of one that was deleted."""
    if family == keys.TOPICS:
        return decode_topic(entry).topic_id
    return keys.parse_deleted_topic(entry.key) if family == keys.DELETED_TOPICS else None
