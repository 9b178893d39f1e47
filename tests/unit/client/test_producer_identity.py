"""The identity of a producer across publish streams."""

import pytest

from danube.client.publish.accumulator import ProducerIdentity
from danube.model.calls.stream import ProducerAccess, PublishOpen, PublishOpened
from danube.model.errors import UnrecoverableError
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.rng import SystemRng

PLAIN = PublishOpen(topic=TopicName("default", "orders"), producer_name="p", strategy=DispatchStrategy.RELIABLE)


def identity(access: ProducerAccess = ProducerAccess.SHARED, *, deduplicates: bool = False) -> ProducerIdentity:
    return ProducerIdentity(access, SystemRng(seed=1), deduplicates=deduplicates)


def answer(*, numbering_id: int = 0, epoch: int = 0) -> PublishOpened:
    return PublishOpened(producer_id=1, window_bytes=1, batch_bytes_max=1, numbering_id=numbering_id, epoch=epoch)


def test_plain_producer_opens_as_ever() -> None:
    plain = identity()
    assert plain.acquire_sequence() is None
    plain.opened(answer(), None)
    assert plain.opening(PLAIN, None) == PLAIN


def test_a_sequence_is_used_by_one_stream_at_a_time_and_again_once_it_is_released() -> None:
    sequenced = identity(deduplicates=True)
    first, second = sequenced.acquire_sequence(), sequenced.acquire_sequence()
    assert first is not None
    assert second is not None
    assert first.key != second.key
    sequenced.release_sequence(first)
    assert sequenced.acquire_sequence() is first
    assert sequenced.opening(PLAIN, first).deduplication_key == first.key


def test_epoch_that_was_given_is_said_when_coming_back() -> None:
    alone = identity(ProducerAccess.EXCLUSIVE)
    assert (alone.opening(PLAIN, None).access, alone.opening(PLAIN, None).epoch) == (ProducerAccess.EXCLUSIVE, 0)
    alone.opened(answer(epoch=7), None)
    assert alone.opening(PLAIN, None).epoch == 7


@pytest.mark.parametrize(
    "one",
    [identity(deduplicates=True), identity(ProducerAccess.EXCLUSIVE), identity(ProducerAccess.EXCLUSIVE_TAKE_OVER)],
)
def test_broker_that_overlooks_what_is_asked_for_is_not_used(one: ProducerIdentity) -> None:
    with pytest.raises(UnrecoverableError, match="use a newer one"):
        one.opened(answer(), one.acquire_sequence())
