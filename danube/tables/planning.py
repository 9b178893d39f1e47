"""Planning of reads: positions become offset ranges, and ranges become slices of about equal size. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from danube.model.calls.stream import FetchFrom, FetchStart, FetchTime
from danube.model.errors import InvalidRequestError, PreconditionFailedError

SLICES_MAX = 10_000
"""Slices of one read: Spark's driver keeps each of them in memory; beyond it slices become larger."""
DATA_LOSS_ADVICE = "to go on with what is left, set fail_on_data_loss to false"


@dataclass(frozen=True, slots=True)
class TopicState:
    """One topic, or one partition, as its broker described it."""

    topic: str
    topic_id: int
    """Another one tells a topic that was deleted and created again."""
    start: int
    """The first offset that can be read."""
    end: int
    """After the last durable record."""
    offsets_at: Mapping[int, int] = field(default_factory=dict)
    """The first offset of each time (ms) that was asked for; `end` where nothing was appended since."""


@dataclass(frozen=True, slots=True)
class Positions:
    """A place in every topic behind a name."""

    everywhere: FetchStart | None = None
    """The same word for all of them; None when each has its own."""
    by_topic: Mapping[str, FetchStart] = field(default_factory=dict)

    @property
    def times_ms(self) -> tuple[int, ...]:
        """The append times to ask brokers for."""
        return (self.everywhere.append_time_ms,) if isinstance(self.everywhere, FetchTime) else ()

    def of(self, state: TopicState) -> int:
        """The offset in one topic. Raises InvalidRequestError for a topic without a position."""
        position = self.by_topic.get(state.topic) if self.everywhere is None else self.everywhere
        match position:
            case None:
                raise InvalidRequestError(f"there is no offset for {state.topic}: name all topics, or none")
            case FetchFrom.EARLIEST:
                return state.start
            case FetchFrom.LATEST:
                return state.end
            case FetchTime(append_time_ms):
                return state.offsets_at[append_time_ms]
            case int():
                return position

    def refuse_strangers(self, states: Iterable[TopicState]) -> None:
        """Raise InvalidRequestError when a topic is named that is not read."""
        topics = [state.topic for state in states]
        strangers = sorted(self.by_topic.keys() - set(topics))
        if strangers:
            shown = ", ".join(topics[:3]) + (", ..." if len(topics) > 3 else "")
            raise InvalidRequestError(f"{strangers[0]} is given an offset and is not read: the topics are {shown}")


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Records `[start, end)` of one topic."""

    topic: str
    topic_id: int
    start: int
    end: int

    @property
    def rows(self) -> int:
        """Number of records."""
        return self.end - self.start


def batch_ranges(
    states: Sequence[TopicState], starting: Positions, ending: Positions, *, fail_on_data_loss: bool
) -> list[OffsetRange]:
    """Offset range of each topic in a batch read; empty ranges are left out.

    Raises InvalidRequestError for offsets that are not there, PreconditionFailedError for records that are gone.
    """
    starting.refuse_strangers(states)
    ending.refuse_strangers(states)
    ranges = [
        _range(state, starting.of(state), ending.of(state), fail_on_data_loss=fail_on_data_loss) for state in states
    ]
    return [one for one in ranges if one.rows]


def _range(state: TopicState, start: int, end: int, *, fail_on_data_loss: bool) -> OffsetRange:
    start = first_readable(state, start, fail_on_data_loss=fail_on_data_loss)
    if not start <= end <= state.end:
        raise InvalidRequestError(
            f"{state.topic} can be read from {state.start} to {state.end} (not included), "
            f"and not from {start} to {end}: choose offsets within"
        )
    return OffsetRange(state.topic, state.topic_id, start, end)


def first_readable(state: TopicState, start: int, *, fail_on_data_loss: bool) -> int:
    """The offset to begin with. Raises PreconditionFailedError where records before the first readable are wanted."""
    if start < state.start and fail_on_data_loss:
        raise PreconditionFailedError(
            f"offsets {start} to {state.start} (not included) of {state.topic} are gone, removed by its retention: "
            f"start at {state.start} or later; {DATA_LOSS_ADVICE}"
        )
    return max(start, state.start)


def slices(ranges: Iterable[OffsetRange], rows_per_partition: int) -> list[OffsetRange]:
    """The same records in slices of about equal size, none above `rows_per_partition`, in order.

    They become larger where there would be more than SLICES_MAX of them.
    """
    ranges = list(ranges)
    total = sum(one.rows for one in ranges)
    spare = max(1, SLICES_MAX - len(ranges))  # each range may have one slice that is not full
    rows = max(rows_per_partition, -(-total // spare))
    return [cut for one in ranges for cut in _cut(one, rows)]


def _cut(one: OffsetRange, rows: int) -> Iterator[OffsetRange]:
    count = -(-one.rows // rows)
    bounds = [one.start + one.rows * number // count for number in range(count)] + [one.end]
    for start, end in pairwise(bounds):
        yield OffsetRange(one.topic, one.topic_id, start, end)


def fair_shares(backlogs: Mapping[str, int], rows_max: int) -> dict[str, int]:
    """Rows of each topic, so that all together give at most `rows_max`, and as many as they can.

    The small ones give all they have, the large ones the same each (max-min fairness): none waits for another.
    """
    shares: dict[str, int] = {}
    left = rows_max
    for place, topic in enumerate(sorted(backlogs, key=lambda topic: (backlogs[topic], topic))):
        shares[topic] = min(backlogs[topic], left // (len(backlogs) - place))
        left -= shares[topic]
    return shares
