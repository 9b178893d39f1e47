"""What a producer keeps from one stream of batches to the next."""

import pytest

from danube.client.publish.producer_state import ProducerIdentity
from danube.model.calls.stream import ProducerAccess, PublishOpen, PublishOpened
from danube.model.errors import UnrecoverableError
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.rng import SystemRng

PLAIN = PublishOpen(topic=TopicName("default", "orders"), producer_name="p", strategy=DispatchStrategy.RELIABLE)


def standing(access: ProducerAccess = ProducerAccess.SHARED, *, deduplicates: bool = False) -> ProducerIdentity:
    return ProducerIdentity(access, SystemRng(seed=1), deduplicates=deduplicates)


def opened(*, numbering_id: int = 0, epoch: int = 0) -> PublishOpened:
    return PublishOpened(producer_id=1, window_bytes=1, batch_bytes_max=1, numbering_id=numbering_id, epoch=epoch)


def test_plain_producer_opens_as_ever() -> None:
    plain = standing()
    assert plain.adopt_producer_state() is None
    plain.take_answer(opened(), None)
    assert plain.opening(PLAIN, None) == PLAIN


def test_numbering_is_used_by_one_at_a_time_and_again_once_it_is_given_back() -> None:
    sequenced = standing(deduplicates=True)
    first, second = sequenced.adopt_producer_state(), sequenced.adopt_producer_state()
    assert first is not None
    assert second is not None
    assert first.key != second.key
    sequenced.give_back(first)
    assert sequenced.adopt_producer_state() is first
    assert sequenced.opening(PLAIN, first).deduplication_key == first.key


def test_epoch_that_was_given_is_said_when_coming_back() -> None:
    alone = standing(ProducerAccess.EXCLUSIVE)
    assert (alone.opening(PLAIN, None).access, alone.opening(PLAIN, None).epoch) == (ProducerAccess.EXCLUSIVE, 0)
    alone.take_answer(opened(epoch=7), None)
    assert alone.opening(PLAIN, None).epoch == 7


@pytest.mark.parametrize(
    "one",
    [standing(deduplicates=True), standing(ProducerAccess.EXCLUSIVE), standing(ProducerAccess.EXCLUSIVE_TAKE_OVER)],
)
def test_broker_that_overlooks_what_is_asked_for_is_not_used(one: ProducerIdentity) -> None:
    with pytest.raises(UnrecoverableError, match="use a newer one"):
        one.take_answer(opened(), one.adopt_producer_state())
