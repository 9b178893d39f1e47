"""Offsets of a stream, which Spark writes into its checkpoint, and the rules by which they advance. Pure.

As JSON, version 1: a flat object, since Spark takes no other. One entry for each topic or partition, and the version:

    {"version": 1, "/default/orders-part-0": "1200@7", "/default/orders-part-1": "800@8"}

`1200@7` is offset 1200 (the next to be read) of the topic with id 7. An id is never used again, so a topic that was
deleted and created again is noticed. What lies between two of these objects is decided by them alone: a topic that
appears is entered with its first offset and read from the next batch on. So a batch that is repeated reads the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from danube.model.errors import InvalidRequestError, PreconditionFailedError
from danube.tables.planning import (
    DATA_LOSS_ADVICE,
    OffsetRange,
    Positions,
    TopicState,
    fair_shares,
    first_readable,
)

VERSION = 1
_VERSION_KEY = "version"

OffsetJson = dict[str, int | str]


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """Position of a stream in one topic."""

    topic_id: int
    offset: int
    """The next one to be read."""


@dataclass(frozen=True, slots=True)
class StreamOffsets:
    """Positions of a stream in all its topics."""

    by_topic: Mapping[str, StreamPosition]

    @classmethod
    def initial(cls, states: Sequence[TopicState], starting: Positions, *, fail_on_data_loss: bool) -> "StreamOffsets":
        """Start of a new stream. Raises as `batch_ranges`."""
        starting.refuse_strangers(states)
        return cls({state.topic: _initial(state, starting, fail_on_data_loss) for state in states})

    @classmethod
    def ends(cls, states: Sequence[TopicState]) -> "StreamOffsets":
        """After all that is there."""
        return cls({state.topic: StreamPosition(state.topic_id, state.end) for state in states})

    @classmethod
    def from_json(cls, found: Mapping[str, object]) -> "StreamOffsets":
        """Decode the output of `to_json`. Raises InvalidRequestError for anything else."""
        version = found.get(_VERSION_KEY)
        if version != VERSION:
            raise InvalidRequestError(
                f"the checkpoint's offsets have version {str(version)[:20]}, this release reads {VERSION}: "
                "use the release that wrote it, or a new checkpoint"
            )
        return cls({topic: _position(topic, text) for topic, text in found.items() if topic != _VERSION_KEY})

    def to_json(self) -> OffsetJson:
        """A flat object of numbers and strings."""
        entries = {topic: f"{at.offset}@{at.topic_id}" for topic, at in sorted(self.by_topic.items())}
        return {_VERSION_KEY: VERSION, **entries}

    def advanced(
        self, states: Sequence[TopicState], rows_max: int | None, *, fail_on_data_loss: bool
    ) -> "StreamOffsets":
        """End of the next batch: the end of the topics now, or `rows_max` rows further if that is less.

        Raises PreconditionFailedError for a topic that is gone, was created again or has lost records.
        """
        if fail_on_data_loss:
            self._refuse_losses(states)
        starts = {state.topic: self._resume(state) for state in states}
        backlogs = {state.topic: max(0, state.end - starts[state.topic]) for state in states if self._knows(state)}
        shares = backlogs if rows_max is None else fair_shares(backlogs, rows_max)
        return StreamOffsets(
            {
                state.topic: StreamPosition(state.topic_id, starts[state.topic] + shares.get(state.topic, 0))
                for state in states
            }
        )

    def capped(self, target: "StreamOffsets", since: "StreamOffsets") -> "StreamOffsets":
        """No further than `target`; topics that it does not know stay where they are in `since`, or are left out."""
        ends = {**since.by_topic, **target.by_topic}
        return StreamOffsets({topic: _lower(at, ends[topic]) for topic, at in self.by_topic.items() if topic in ends})

    def states_of(self, topics: Sequence[str]) -> list[TopicState]:
        """Topics that cannot be asked now, as if they ended where they were read to."""
        known = [(topic, self.by_topic[topic]) for topic in topics if topic in self.by_topic]
        return [TopicState(topic, at.topic_id, at.offset, at.offset) for topic, at in known]

    def ranges_to(self, end: "StreamOffsets") -> Iterator[OffsetRange]:
        """Ranges of a batch from here to `end`; empty ranges are left out."""
        for topic, until in sorted(end.by_topic.items()):
            since = self.by_topic.get(topic)
            if since is not None and since.topic_id == until.topic_id and since.offset < until.offset:
                yield OffsetRange(topic, until.topic_id, since.offset, until.offset)

    def _knows(self, state: TopicState) -> bool:
        known = self.by_topic.get(state.topic)
        return known is not None and known.topic_id == state.topic_id

    def _resume(self, state: TopicState) -> int:
        """Next position in one topic; a topic that is new, or was trimmed past it, begins at its start offset."""
        if not self._knows(state):
            return state.start
        return min(max(self.by_topic[state.topic].offset, state.start), state.end)

    def _refuse_losses(self, states: Sequence[TopicState]) -> None:
        here = {state.topic: state for state in states}
        gone = sorted(self.by_topic.keys() - here.keys())
        if gone:
            raise PreconditionFailedError(
                f"{gone[0]} is in the checkpoint and is not there any more: if the query reads another topic now, "
                f"give it a new checkpoint; {DATA_LOSS_ADVICE}"
            )
        for topic, at in self.by_topic.items():
            _refuse_loss(here[topic], at)


def _initial(state: TopicState, starting: Positions, fail_on_data_loss: bool) -> StreamPosition:  # noqa: FBT001 - passed on
    offset = first_readable(state, starting.of(state), fail_on_data_loss=fail_on_data_loss)
    if offset > state.end:
        raise InvalidRequestError(f"{state.topic} ends at {state.end}, and {offset} is past it: start at its end")
    return StreamPosition(state.topic_id, offset)


def _refuse_loss(state: TopicState, at: StreamPosition) -> None:
    if state.topic_id != at.topic_id:
        raise PreconditionFailedError(
            f"{state.topic} was deleted and created again since the checkpoint was written: what it held is gone. "
            f"Start with a new checkpoint; {DATA_LOSS_ADVICE}"
        )
    if state.end < at.offset:
        raise PreconditionFailedError(
            f"{state.topic} ends at {state.end}, before offset {at.offset} of the checkpoint: it was restored to an "
            f"older state. Start with a new checkpoint; {DATA_LOSS_ADVICE}"
        )
    first_readable(state, at.offset, fail_on_data_loss=True)


def _lower(at: StreamPosition, target: StreamPosition) -> StreamPosition:
    return StreamPosition(at.topic_id, min(at.offset, target.offset)) if at.topic_id == target.topic_id else at


def _position(topic: str, text: object) -> StreamPosition:
    offset, separator, topic_id = str(text).partition("@")
    if not (separator and offset.isdecimal() and topic_id.isdecimal()):
        raise InvalidRequestError(f"the checkpoint's offset of {topic[:80]} cannot be read: use a new checkpoint")
    return StreamPosition(int(topic_id), int(offset))
