"""Rule of the leading broker: which topics are assigned to another broker, and to which. Pure.

The rule goes by the state as it is, so that a new leader needs no memory of the one before.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice

from danube.metadata.records.cluster import BrokerDrain
from danube.model.ownership import Ownerships, StorageMode, TopicOwnership


@dataclass(frozen=True, slots=True)
class Assignment:
    """A topic, and the broker that it is assigned to from now on."""

    topic: TopicOwnership
    broker: int


def assign(
    topics: Ownerships,
    brokers: Mapping[int, BrokerDrain | None],
    mode: StorageMode,
    *,
    changed: AbstractSet[int] | None = None,
    given_up: Container[int] = (),
) -> Iterator[Assignment]:
    """Missing assignments, those of topics that nobody serves first; none where all is as it should be.

    `brokers` are those that run, each with its drain if it has one. With `changed`, topics on brokers that do not run
    are left out unless they are among these. Topics of owners that are `given_up` go on without what those alone have,
    unless they alone have all.
    """
    counts = _counts(topics.counts, brokers)
    strays = set[int]().union(*map(topics.assigned_to, topics.brokers - brokers.keys()))
    for topic in map(topics.__getitem__, sorted(strays if changed is None else strays & changed)):
        if topic.is_pinned:
            continue
        if topic.owner in brokers:  # it was on its way to a broker that has gone
            yield Assignment(topic, topic.owner)
        elif _is_free(topic, mode, given_up) and (target := _fewest(counts)) is not None:
            counts[target] += 1
            yield Assignment(topic, target)
    for broker_id, drain in brokers.items():
        if drain is not None:
            yield from _drained(broker_id, drain, topics, counts, mode)


def _is_free(topic: TopicOwnership, mode: StorageMode, given_up: Container[int]) -> bool:
    if topic.stays_with_disk(mode):
        return False
    return not topic.waits_for_owner(mode) or topic.owner in given_up


def absent_for(absent_since_s: Mapping[int, float], *, now_s: float, after_s: float) -> set[int]:
    """The owners that have not run for `after_s`."""
    return {broker_id for broker_id, since_s in absent_since_s.items() if now_s - since_s >= after_s}


def lost(topics: Ownerships, given_up: Iterable[int], mode: StorageMode) -> list[TopicOwnership]:
    """Topics that have waited long enough for an owner that is `given_up`, which has their messages on its disk."""
    waiting = (topics[each] for owner in given_up for each in sorted(topics.owned_by(owner)))
    return [one for one in waiting if one.stays_with_disk(mode) and not one.is_pinned]


def fewest_topics(counts: Mapping[int, int], brokers: Mapping[int, BrokerDrain | None], count: int) -> list[int]:
    """The brokers that `count` new topics go to, one after the other; fewer, or none, while no broker takes any.

    `counts` are topics by the broker that they are assigned to.
    """
    takers = _counts(counts, brokers)
    found: list[int] = []
    while len(found) < count and (target := _fewest(takers)) is not None:
        takers[target] += 1
        found.append(target)
    return found


def leaves(topic: TopicOwnership, drain: BrokerDrain, mode: StorageMode) -> bool:
    """True if a topic is to leave the broker of this drain."""
    if topic.owner != drain.broker_id or topic.is_pinned or not drain.covers(topic.namespace):
        return False
    return drain.carries_logs or not topic.stays_with_disk(mode)


def _drained(
    broker_id: int, drain: BrokerDrain, topics: Ownerships, counts: Counter[int], mode: StorageMode
) -> Iterator[Assignment]:
    owned, assigned = topics.owned_by(broker_id), topics.assigned_to(broker_id)
    free = drain.parallel_moves - sum(leaves(topics[each], drain, mode) for each in owned - assigned)
    if free <= 0:
        return
    left = (topic for each in sorted(owned & assigned) if leaves(topic := topics[each], drain, mode))
    for topic in islice(left, free):
        if (target := _fewest(counts)) is None:
            return
        counts[target] += 1
        yield Assignment(topic, target)


def _counts(counts: Mapping[int, int], brokers: Mapping[int, BrokerDrain | None]) -> Counter[int]:
    """Topics that are assigned to each broker that takes new ones."""
    return Counter({broker_id: counts.get(broker_id, 0) for broker_id, drain in brokers.items() if drain is None})


def _fewest(counts: Counter[int]) -> int | None:
    return min(counts, key=lambda broker_id: (counts[broker_id], broker_id), default=None)
