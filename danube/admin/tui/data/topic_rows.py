"""The topics of a cluster as lines, gathered page by page while the cluster goes on. No I/O."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from danube.admin.broker_names import named
from danube.admin.operations.fields import sum_known
from danube.admin.operations.topics.topic_list import lags_of, largest_lag, summed_lags
from danube.model.calls.admin import TopicDescription, TopicInfo
from danube.model.limits.faces import TUI_TOPICS_MAX
from danube.model.ownership import OwnershipState
from danube.model.records.telemetry import SYSTEM_NAMESPACE
from danube.model.topic import DispatchStrategy, TopicName


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """One topic; None is not known."""

    topic: TopicName
    name: str
    """The topic as text."""
    strategy: DispatchStrategy
    broker_id: str
    state: OwnershipState | None = None
    subscriptions: int | None = None
    lags: Mapping[str, int] = field(default_factory=dict)
    """By subscription, messages."""
    taken: int | None = None
    """Messages taken since its broker started."""
    rate: float | None = None
    """Messages a second, between the last two looks."""
    seen_s: float = 0.0
    """When it was looked at, on the monotonic clock."""
    partitions: int = 0
    """Of a partitioned topic as one row; 0 of any other row."""
    base: TopicName | None = None
    """The partitioned topic that it is a partition of."""

    @property
    def lag(self) -> int | None:
        return largest_lag(self.lags)


class TopicRows:
    """All topics that are known. A sweep replaces them bit by bit; what it has not met is gone when it ends."""

    def __init__(self) -> None:
        self._lines: dict[str, TopicRow] = {}
        self._met: set[str] = set()
        self.is_complete = False
        """Whether a sweep has reached the end."""
        self.beyond = 0
        """Topics left out of the last sweep: there are more than TUI_TOPICS_MAX."""
        self._beyond = 0

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def lines(self) -> Iterable[TopicRow]:
        """In no order that matters."""
        return self._lines.values()

    def get(self, name: str) -> TopicRow | None:
        return self._lines.get(name)

    def start(self) -> None:
        self._met.clear()
        self._beyond = 0

    def add_described(self, topics: Iterable[TopicDescription], now_s: float) -> None:
        """A page of the sweep; a topic may come again with the rest of its subscriptions."""
        for topic in topics:
            self._put(_line_of(topic, now_s))

    def add_listed(self, topics: Iterable[TopicInfo]) -> None:
        """A listing, from a broker that tells no more."""
        for info in topics:
            self._put(_listed(info))

    def finish(self) -> None:
        """End the sweep: topics that it did not meet are gone."""
        for name in self._lines.keys() - self._met:
            del self._lines[name]
        self.is_complete, self.beyond = True, self._beyond

    def _put(self, line: TopicRow) -> None:
        before = self._lines.get(line.name)
        if before is None and len(self._lines) >= TUI_TOPICS_MAX:
            self._beyond += 1
            return
        if line.name in self._met and before is not None:
            line = replace(before, lags={**before.lags, **line.lags})
        elif before is not None:
            line = replace(line, rate=_rate(before, line))
        self._met.add(line.name)
        self._lines[line.name] = line


class Order(StrEnum):
    """The order of topics."""

    NAME = "name"
    LAG = "lag"
    RATE = "rate"

    @property
    def next(self) -> "Order":
        """The order after this one; the first after the last."""
        orders = list(Order)
        return orders[(orders.index(self) + 1) % len(orders)]


def arranged(lines: Iterable[TopicRow], order: Order, words: str) -> list[TopicRow]:
    """The lines that fit the filter, sorted; largest first, except by name.

    Of a filter, each word must be in the name; `@7` means topics of broker 7. Without one those of the system are
    left out.
    """
    wanted = words.lower().split()
    names = [word for word in wanted if not word.startswith("@")]
    brokers = {word[1:] for word in wanted if word.startswith("@") and len(word) > 1}
    found = [
        line
        for line in lines
        if (wanted or line.topic.namespace != SYSTEM_NAMESPACE)
        and (not brokers or line.broker_id in brokers or named(line.broker_id) in brokers)
        and (not names or all(word in line.name.lower() for word in names))
    ]
    match order:
        case Order.NAME:
            found.sort(key=lambda line: line.name)
        case Order.LAG:
            found.sort(key=lambda line: (-1 if line.lag is None else line.lag, line.rate or 0.0), reverse=True)
        case Order.RATE:
            found.sort(key=lambda line: -1.0 if line.rate is None else line.rate, reverse=True)
    return found


def folded(lines: Iterable[TopicRow], unfolded: Collection[str]) -> list[tuple[TopicRow, bool]]:
    """The lines with the partitions of a topic as one row, each with whether it is a partition below its topic.

    Partitions of the topics in `unfolded` follow that row. The order is that of the first partition of each.
    """
    families: dict[TopicName, list[TopicRow]] = {}
    for line in lines:
        families.setdefault(line.base or line.topic, []).append(line)
    found: list[tuple[TopicRow, bool]] = []
    for base, members in families.items():
        partitions = [line for line in members if line.topic != base]
        found += [(line, False) for line in members if line.topic == base]
        if partitions:
            found.append((_family(base, partitions), False))
        if str(base) in unfolded:
            found += [(line, True) for line in sorted(partitions, key=lambda line: line.topic.partition_index or 0)]
    return found


def _family(base: TopicName, partitions: Sequence[TopicRow]) -> TopicRow:
    """One row for all partitions: sums, and the state of one that is not served where there is one."""
    brokers = {line.broker_id for line in partitions}
    odd = [line.state for line in partitions if line.state not in {None, OwnershipState.SERVED}]
    return replace(
        partitions[0],
        topic=base,
        name=str(base),
        broker_id=brokers.pop() if len(brokers) == 1 else f"on {len(brokers)} brokers",
        state=odd[0] if odd else partitions[0].state,
        subscriptions=_largest(line.subscriptions for line in partitions),
        lags=summed_lags(line.lags for line in partitions),
        taken=sum_known(line.taken for line in partitions),
        rate=sum_known(line.rate for line in partitions),
        partitions=len(partitions),
    )


def _largest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _line_of(topic: TopicDescription, now_s: float) -> TopicRow:
    return TopicRow(
        topic=topic.topic,
        name=str(topic.topic),
        strategy=topic.strategy,
        broker_id=topic.broker_id or "",
        state=topic.state.state if topic.state else None,
        subscriptions=topic.subscription_count if topic.is_served else None,
        lags=lags_of(topic),
        taken=topic.messages_in if topic.is_served else None,
        seen_s=now_s,
        base=topic.base,
    )


def _listed(info: TopicInfo) -> TopicRow:
    return TopicRow(
        topic=info.topic,
        name=str(info.topic),
        strategy=info.strategy,
        broker_id=info.broker_id or "",
        base=info.base,
    )


def _rate(before: TopicRow, now: TopicRow) -> float | None:
    passed_s = now.seen_s - before.seen_s
    if before.taken is None or now.taken is None or passed_s <= 0:
        return before.rate
    return (now.taken - before.taken) / passed_s if now.taken >= before.taken else None
