"""Topics move by plan: no fence, and the old_owner goes on with what it keeps."""

import pytest

from danube.model.errors import StorageChangedError, StorageUnavailableError, TopicNotServedError
from danube.model.message import SEQUENCED_BIT
from danube.model.subscription import Cursor
from danube.storage.batches.batch import BatchOrigin, encode_messages
from danube.storage.batches.producer_state import sequenced_batch
from danube.storage.journal.folder import Fence
from danube.storage.takeover.release import Release
from tests.unit.storage.journal_world import Told
from tests.unit.storage.takeover.shared_world import SharedWorld

A, B = 1, 2


async def test_a_given_topic_goes_on_elsewhere_and_its_giver_keeps_the_others(world: SharedWorld) -> None:
    first, second = await world.start(1), await world.start(2)
    await first.acquire(A, B)
    await first.store(A, [b"0", b"1"])
    await first.release(A, {5: Cursor(1)})
    await second.acquire(A)
    assert await second.content(A) == [b"0", b"1"]
    assert second.position(A) == 1
    assert await second.store(A, [b"2"]) == [2]
    assert await first.store(B, [b"b"]) == [0]
    assert not Fence(world.disk, first.folder).is_up()


async def test_a_topic_comes_back_to_a_journal_that_it_was_in_before(world: SharedWorld) -> None:
    first, second = await world.start(1), await world.start(2)
    await first.acquire(A)
    await first.store(A, [b"0"])
    await first.release(A, {5: Cursor(1)})
    await second.acquire(A)
    await second.store(A, [b"1", b"2"])
    await second.release(A, {5: Cursor(3)})
    await first.acquire(A)
    assert await first.store(A, [b"3"]) == [3]
    first.kill()
    again = await world.start(1)
    assert await again.content(A) == [b"0", b"1", b"2", b"3"]
    assert again.position(A) == 3


async def test_a_topic_that_comes_back_survives_the_closing_of_its_file(world: SharedWorld) -> None:
    first, second = await world.start(1), await world.start(2)
    await first.acquire(A)
    await first.store(A, [b"0" * 500])
    await first.release(A)
    await second.acquire(A)
    await second.store(A, [b"1"])
    await second.release(A)
    await first.acquire(A)
    several = [b"%d" % number * 900 for number in range(8)]
    await first.store(A, several)
    assert first.journal.stats.files > 2
    first.kill()
    again = await world.start(1)
    assert await again.content(A) == [b"0" * 500, b"1", *several]


async def test_numbered_batches_are_known_to_the_next_owner_and_after_its_restart(world: SharedWorld) -> None:
    first, second = await world.start(1), await world.start(2)
    await first.acquire(A)
    body = encode_messages([b"0", b"1"], BatchOrigin(producer_id=SEQUENCED_BIT | 7, base_sequence=0))
    batch = sequenced_batch(body)
    assert batch is not None
    told = Told()
    first.topics[A].log.append_batch(body, told)
    assert await told.offset() == 0
    await second.acquire(A)
    assert second.topics[A].log.offset_of(batch) == 0
    second.kill()
    again = await world.start(2)
    assert again.topics[A].log.offset_of(batch) == 0


async def test_a_giver_that_was_overtaken_by_force_seals_nothing(world: SharedWorld) -> None:
    first, second = await world.start(1), await world.start(2)
    await first.acquire(A)
    await first.store(A, [b"0"])
    await second.acquire(A)
    with pytest.raises((StorageChangedError, StorageUnavailableError)):
        await first.release(A, {5: Cursor(1)})
    assert (await world.records.get(A)).epochs[-1].end_offset is None


async def test_what_is_sealed_is_opened_by_anybody_though_its_giver_died(world: SharedWorld) -> None:
    first = await world.start(1)
    await first.acquire(A)
    await first.store(A, [b"0"])
    await first.release(A)
    await world.power_cut()
    third = await world.start(3)
    await third.acquire(A)
    assert await third.content(A) == [b"0"]


async def test_a_topic_of_another_journal_cannot_be_given(world: SharedWorld) -> None:
    first, second = await world.start(1), await world.start(2)
    await first.acquire(A)
    old_owner = Release(world.records, second.journal)
    with pytest.raises(TopicNotServedError, match="its owner"):
        await old_owner.run(await world.records.get(A), first.topics[A].log, stop=lambda: pytest.fail("stopped"))


async def test_a_part_in_an_old_journal_answers_for_times_and_reads_in_pieces(world: SharedWorld) -> None:
    first, second = await world.start(1), await world.start(2)
    await first.acquire(A)
    times = []
    for record in (b"0", b"1", b"2"):
        times.append(world.clock.now_ms())
        await first.store(A, [record])
        world.clock.advance(1.0)
    await first.release(A)
    taken = (await second.acquire(A))[A]
    (part,) = taken.parts
    assert (part.start_offset, part.end_offset) == (0, 3)
    assert [await part.offset_at(time_ms) for time_ms in times] == [0, 1, 2]
    assert await part.offset_at(times[-1] + 1) == 3
    assert [await part.append_time_ms(offset) for offset in range(3)] == times
    assert [batch.base_offset for batch in await part.read(1, 1_000)] == [1, 2]
    assert [batch.base_offset for batch in await part.read(1, 1)] == [1]
    assert part.body_bytes == sum([len(batch.body) for batch in await part.read(0, 1_000)])
