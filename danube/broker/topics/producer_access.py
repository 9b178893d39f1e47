"""Producer access to a topic: shared, or exclusive until the next exclusive producer takes over.

Each exclusive producer gets a new epoch, durable before it may send. It holds the topic while its stream is open. After
that others may publish. It may reconnect with its epoch, unless another exclusive producer has attached: then it is
fenced. So of two that both consider themselves exclusive, only the newer one stores anything.
"""

from dataclasses import dataclass

from danube.broker.topics.publish_stream import PublishSession
from danube.broker.topics.topic import AnyTopic, ReliableTopic
from danube.metadata.records.catalog import ProducerEpoch, ProducerEpochs
from danube.model.calls.stream import ProducerAccess, PublishOpen
from danube.model.errors import ProducerFencedError, TopicHeldError


@dataclass(frozen=True, slots=True, eq=False)
class Hold:
    """Stream of one exclusive producer."""

    topic_id: int
    epoch: int
    producer_name: str


def may_resume(wanted: PublishOpen, newest: ProducerEpoch, *, is_held: bool, has_streams: bool) -> bool:
    """True if an exclusive producer keeps its epoch; False if it gets a new one.

    Raises:
        ProducerFencedError: its epoch is not the newest.
        TopicHeldError: it is new, does not take over, and is not alone.
    """
    if wanted.epoch:
        if (wanted.epoch, wanted.producer_name) != (newest.epoch, newest.producer_name):
            raise ProducerFencedError(
                f"producer {wanted.producer_name!r} had {wanted.topic} with epoch {wanted.epoch}, and the newest epoch "
                f"is {newest.epoch}: another exclusive producer has taken the topic over. Stop, or take it over again"
            )
        return True
    if wanted.access is ProducerAccess.EXCLUSIVE and (is_held or has_streams):
        raise TopicHeldError(
            f"producer {newest.producer_name!r} has {wanted.topic} for itself: try when it is gone, or take it over"
            if is_held
            else f"others publish to {wanted.topic} on streams of batches: try when they are gone, or take it over"
        )
    return False


class ProducerAccesses:
    """The exclusive producers of this broker's topics."""

    def __init__(self, epochs: ProducerEpochs) -> None:
        self._epochs = epochs
        self._holds: dict[int, Hold] = {}
        """By topic id."""

    def refuse_if_held(self, topic: AnyTopic) -> None:
        """Raise TopicHeldError while an exclusive producer has the topic. Called for each single message."""
        hold = self._holds.get(topic.record.topic_id) if self._holds else None
        if hold is not None:
            raise TopicHeldError(
                f"the exclusive producer {hold.producer_name!r} has {topic.name} for itself: publish when it is gone"
            )

    async def claim(self, topic: ReliableTopic, wanted: PublishOpen) -> Hold | None:
        """Accept a stream; answers what an exclusive one must `release` when it ends.

        All other streams of batches to the topic end, fenced: of their batches, only those already appended are stored.
        The caller opens its stream before anything else happens. Raises as `may_resume` and `Topic.check_open`, and
        MetadataError.
        """
        if wanted.access is ProducerAccess.SHARED:
            self.refuse_if_held(topic)
            return None
        async with topic.changing:
            topic.check_open()
            newest = await self._epochs.newest(topic.record)
            is_held = topic.record.topic_id in self._holds
            if not may_resume(wanted, newest, is_held=is_held, has_streams=any(_publishing(topic))):
                newest = await self._epochs.begin(newest, topic.record, wanted.producer_name)
            hold = Hold(topic.record.topic_id, newest.epoch, wanted.producer_name)
            self._fence(topic, hold)
            return hold

    def release(self, hold: Hold) -> None:
        """End a stream: others may publish, unless another exclusive producer already has the topic."""
        if self._holds.get(hold.topic_id) is hold:
            del self._holds[hold.topic_id]

    def _fence(self, topic: ReliableTopic, hold: Hold) -> None:
        self._holds[hold.topic_id] = hold
        error = ProducerFencedError(
            f"the exclusive producer {hold.producer_name!r} has taken {topic.name} over with epoch {hold.epoch}: stop, "
            "or take it over again"
        )
        for session in _publishing(topic):
            session.stop(error)


def _publishing(topic: ReliableTopic) -> list[PublishSession]:
    return [stream for stream in topic.streams if isinstance(stream, PublishSession)]
