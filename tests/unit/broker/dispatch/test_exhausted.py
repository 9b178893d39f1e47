"""What is kept of messages whose redeliveries are used up."""

from random import Random

from danube.broker.dispatch.exhausted import ExhaustedDeliveries
from danube.broker.dispatch.redelivery import ACK_TIMEOUT_REASON
from danube.model.limits.broker import BATCH_RECORDS_MAX

OFFSETS = 40


def test_the_reason_of_a_refused_range_is_kept_once_however_long_the_range_is() -> None:
    exhausted = ExhaustedDeliveries()
    exhausted.block(0, BATCH_RECORDS_MAX, "no such customer")
    exhausted.remove(10, 20)
    assert len(exhausted._reasons) == 2
    told = [exhausted.reason(offset) for offset in (0, 9, 10, 19, 20, BATCH_RECORDS_MAX - 1, BATCH_RECORDS_MAX)]
    refused, timed_out = "no such customer", ACK_TIMEOUT_REASON
    assert told == [refused, refused, timed_out, timed_out, refused, refused, timed_out]


def test_each_message_has_the_reason_of_its_last_refusal_until_it_is_removed() -> None:
    rng = Random(7)
    for _ in range(200):
        exhausted, expected = ExhaustedDeliveries(), dict[int, str]()
        for step in range(30):
            start = rng.randrange(OFFSETS)
            end = rng.randint(start, OFFSETS)
            what = rng.choice(["refused", "timed out", "dead letter", "gone"])
            if what == "gone":
                exhausted.remove(start, end)
                expected = {each: why for each, why in expected.items() if not start <= each < end}
            elif what == "timed out":
                exhausted.block(start, end)
            else:
                (exhausted.block if what == "refused" else exhausted.queue_dead_letter)(start, end, f"step {step}")
                expected.update(dict.fromkeys(range(start, end), f"step {step}"))
            found = {offset: exhausted.reason(offset) for offset in range(OFFSETS)}
            assert found == {offset: expected.get(offset, ACK_TIMEOUT_REASON) for offset in range(OFFSETS)}
