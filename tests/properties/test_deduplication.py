"""Any interleaving of sends, breaks, repeats, restarts and failed rounds stores each message once and in order."""

import asyncio
import errno
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from danube.model.limits.stream import DEDUPLICATION_BATCHES_MAX, DEDUPLICATION_PRODUCERS_MAX
from danube.model.message import SEQUENCED_BIT
from danube.storage.batches.producer_state import SequencedBatch, StoredProducerStates
from danube.testing.simulated.disk import Operation
from tests.simulation.numbered_world import NumberedWorld

Step = tuple[str, int]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(1, 4)),
        st.tuples(st.just("deliver"), st.integers(1, 6)),
        st.tuples(st.sampled_from(["read", "cut", "cut unnoticed", "restart", "kill", "power cut"]), st.just(0)),
        st.tuples(st.just("wait"), st.sampled_from([1, 4, 50])),
        st.tuples(st.just("fail a round"), st.integers(1, 3)),
        st.tuples(st.just("fail a sync"), st.integers(1, 3)),
    ),
    max_size=40,
)


async def run(steps: Sequence[Step]) -> list[str]:
    """What is wrong after these steps."""
    world = NumberedWorld(0)
    await world.restart()
    for name, number in steps:
        match name:
            case "send":
                world.send(number)
            case "deliver":
                world.deliver(number)
            case "read":
                world.read()
            case "wait":
                await world.wait(number / 1_000)
            case "cut" | "cut unnoticed":
                world.flush(unnoticed=name != "cut")
            case "restart":
                await world.restart()
            case "kill" | "power cut":
                await world.kill(power_cut=name != "kill")
            case "fail a round" | "fail a sync":
                failing = Operation.APPEND if name == "fail a round" else Operation.SYNC
                world.disk.fail(failing, number, error=errno.ENOSPC)
    return world.violations(await world.drain())


@given(STEPS)
def test_each_message_is_stored_once_and_in_order(steps: Sequence[Step]) -> None:
    assert asyncio.run(run(steps)) == []


BATCHES = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 3)), max_size=60)


@given(BATCHES, st.integers(1, 4), st.integers(1, 4))
def test_what_is_remembered_is_what_was_stored_last(
    batches: Sequence[tuple[int, int]], rows_max: int, batches_max: int
) -> None:
    remembered = StoredProducerStates(rows_max, batches_max)
    stored: list[SequencedBatch] = []
    # Of each row, its batches by their place in `stored`; the row used last stands last.
    kept: dict[int, list[int]] = {}
    for row, count in batches:
        mine = kept.pop(row, [])
        first = stored[mine[-1]].end_sequence if mine else 0
        stored.append(SequencedBatch(SEQUENCED_BIT | row, first, count, len(stored)))
        remembered.add(stored[-1], 100 + len(stored) - 1)
        kept[row] = [*mine, len(stored) - 1][-batches_max:]
        if len(kept) > rows_max:
            del kept[next(iter(kept))]
    known = {place for mine in kept.values() for place in mine}
    found = {place for place, batch in enumerate(stored) if remembered.offset_of(batch) == 100 + place}
    assert found == known
    assert len(remembered) == len(kept)
    assert all(remembered.next_sequence(SEQUENCED_BIT | row) == stored[kept[row][-1]].end_sequence for row in kept)


def test_bounds_hold_for_a_producer_that_is_forgotten() -> None:
    remembered = StoredProducerStates()
    for row in range(DEDUPLICATION_PRODUCERS_MAX + 1):
        remembered.add(SequencedBatch(SEQUENCED_BIT | row, 0, 1, 0), row)
    assert (len(remembered), remembered.next_sequence(SEQUENCED_BIT), remembered.next_sequence(SEQUENCED_BIT | 1)) == (
        DEDUPLICATION_PRODUCERS_MAX,
        0,
        1,
    )
    for number in range(1, DEDUPLICATION_BATCHES_MAX + 1):
        remembered.add(SequencedBatch(SEQUENCED_BIT | 1, number, 1, 0), 5_000 + number)
    assert remembered.offset_of(SequencedBatch(SEQUENCED_BIT | 1, 0, 1, 0)) is None
    assert remembered.offset_of(SequencedBatch(SEQUENCED_BIT | 1, 1, 1, 0)) == 5_001
