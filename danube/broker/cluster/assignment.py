"""Rule of the leading broker: which topics are assigned to another broker, and to which. Pure.

The rule goes by the whole state each time, so that a new leader needs no memory of the one before.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

from danube.metadata.records.cluster import BrokerDrain
from danube.model.ownership import StorageMode, TopicOwnership


@dataclass(frozen=True, slots=True)
class Assignment:
    """A topic, and the broker that it is assigned to from now on."""

    topic: TopicOwnership
    broker: int


def assign(
    topics: Iterable[TopicOwnership],
    brokers: Mapping[int, BrokerDrain | None],
    mode: StorageMode,
    *,
    given_up: Container[int] = (),
) -> Iterator[Assignment]:
    """Missing assignments, those of topics that nobody serves first; none where all is as it should be.

    `brokers` are those that run, each with its drain if it has one. Topics of owners that are `given_up` go on without
    what those alone have, unless they alone have all.
    """
    known = sorted(topics, key=lambda one: one.topic_id)
    counts = _topic_counts(known, brokers)
    for topic in known:
        if topic.broker in brokers or topic.is_pinned:
            continue
        if topic.owner in brokers:  # it was on its way to a broker that has gone
            yield Assignment(topic, topic.owner)
        elif _is_free(topic, mode, given_up) and (target := _fewest(counts)) is not None:
            counts[target] += 1
            yield Assignment(topic, target)
    for broker_id, drain in brokers.items():
        if drain is not None:
            yield from _drained(broker_id, drain, known, counts, mode)


def _is_free(topic: TopicOwnership, mode: StorageMode, given_up: Container[int]) -> bool:
    if topic.stays_with_disk(mode):
        return False
    return not topic.waits_for_owner(mode) or topic.owner in given_up


def absent_for(absent_since_s: Mapping[int, float], *, now_s: float, after_s: float) -> set[int]:
    """The owners that have not run for `after_s`."""
    return {broker_id for broker_id, since_s in absent_since_s.items() if now_s - since_s >= after_s}


def lost(
    topics: Iterable[TopicOwnership],
    absent_since_s: Mapping[int, float],
    mode: StorageMode,
    *,
    now_s: float,
    after_s: float,
) -> list[TopicOwnership]:
    """Topics that have waited `after_s` for the broker that has their messages on its disk.

    `absent_since_s` are the monotonic times since which brokers have not run.
    """
    given_up = absent_for(absent_since_s, now_s=now_s, after_s=after_s)
    return [one for one in topics if one.owner in given_up and one.stays_with_disk(mode) and not one.is_pinned]


def fewest_topics(topics: Iterable[TopicOwnership], brokers: Mapping[int, BrokerDrain | None], count: int) -> list[int]:
    """The brokers that `count` new topics go to, one after the other; fewer, or none, while no broker takes any."""
    counts = _topic_counts(topics, brokers)
    found: list[int] = []
    while len(found) < count and (target := _fewest(counts)) is not None:
        counts[target] += 1
        found.append(target)
    return found


def leaves(topic: TopicOwnership, drain: BrokerDrain, mode: StorageMode) -> bool:
    """True if a topic is to leave the broker of this drain."""
    if topic.owner != drain.broker_id or topic.is_pinned or not drain.covers(topic.namespace):
        return False
    return drain.carries_logs or not topic.stays_with_disk(mode)


def _drained(
    broker_id: int, drain: BrokerDrain, topics: Iterable[TopicOwnership], counts: Counter[int], mode: StorageMode
) -> Iterator[Assignment]:
    left = [topic for topic in topics if leaves(topic, drain, mode)]
    under_way = sum(topic.broker != broker_id for topic in left)
    for topic in left:
        if under_way >= drain.parallel_moves or (target := _fewest(counts)) is None:
            return
        if topic.broker == broker_id:
            under_way += 1
            counts[target] += 1
            yield Assignment(topic, target)


def _topic_counts(topics: Iterable[TopicOwnership], brokers: Mapping[int, BrokerDrain | None]) -> Counter[int]:
    """Topics that are assigned to each broker that takes new ones."""
    counts = Counter({broker_id: 0 for broker_id, drain in brokers.items() if drain is None})
    for topic in topics:
        if topic.broker in counts and not topic.is_pinned:
            counts[topic.broker] += 1
    return counts


def _fewest(counts: Counter[int]) -> int | None:
    return min(counts, key=lambda broker_id: (counts[broker_id], broker_id), default=None)
