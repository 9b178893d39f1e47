"""What must hold of the records of the metadata together, whatever wrote them. Pure.

Each key is one of its family, no two topics have the same id, and no id is above the last one that was given out.
"""

from collections.abc import Callable, Iterable, Mapping

from danube.metadata import keys
from danube.metadata.families import family_of
from danube.metadata.record_format import decode_counter, decode_topic
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
    """What cannot be, in a few words; None when nothing contradicts itself. Raises MetadataError for a topic's value."""
    owners: dict[int, str] = {}
    given_out, highest = 0, (0, "")
    for entry in entries:
        family, key = family_of(entry.key), entry.key
        if (parse := _PARSERS.get(family)) is None:
            given_out = decode_counter(entry) if key == keys.TOPIC_ID_COUNTER else given_out
            continue
        try:
            parsed = parse(key)
        except MetadataError:
            return f"the key {key!r} is none of {family}"
        if family == keys.TOPICS or family == keys.DELETED_TOPICS:
            topic_id = decode_topic(entry).topic_id if family == keys.TOPICS else int(str(parsed))
            if topic_id in owners:
                return f"{owners[topic_id]} and {key} have the same topic id {topic_id}"
            owners[topic_id] = key
            highest = max(highest, (topic_id, key))
    if highest[0] > given_out:
        return f"{highest[1]} has topic id {highest[0]}, and the last that was given out is {given_out}"
    return None
