"""Numbers of batches: read from bodies, found again after a restart, and those of no account left alone."""

from danube.model.message import NUMBERED_BIT
from danube.storage.batch import BatchOrigin, encode_messages, encode_payloads
from danube.storage.log import BatchLog
from danube.storage.numbering import NumberedBatch, StoredNumberings, numbered_batch
from tests.unit.storage.journal_world import Told, World

ROW = NUMBERED_BIT | 5


def body(first: int, count: int, row: int = ROW) -> bytes:
    return encode_payloads(b"", [b"x"] * count, BatchOrigin(producer_id=row, base_sequence=first))


async def store(log: BatchLog, content: bytes) -> int:
    told = Told()
    log.append_batch(content, told)
    return await told.offset()


def known(content: bytes) -> NumberedBatch:
    found = numbered_batch(content)
    assert found is not None
    return found


def test_numbers_stand_in_the_header() -> None:
    assert known(body(7, 3))[:3] == (ROW, 7, 3)
    assert known(body(7, 3)).end_sequence == 10
    assert known(body(7, 3)) != known(encode_payloads(b"", [b"y"] * 3, BatchOrigin(producer_id=ROW, base_sequence=7)))


def test_batches_of_other_producers_have_none() -> None:
    assert numbered_batch(body(0, 1, row=5)) is None
    assert numbered_batch(encode_messages([b"x"])) is None


def test_rows_are_restored_as_they_were_and_go_on() -> None:
    first = StoredNumberings()
    for number, row in enumerate((1, 2, 1, 3)):
        first.add(NumberedBatch(ROW + row, number, 1, 7), number)
    again = StoredNumberings()
    again.restore(first.rows())
    assert (again.rows(), len(again)) == (first.rows(), 3)
    assert [row[-1].batch.numbering_id - ROW for row in again.rows()] == [2, 1, 3]
    for one in (first, again):
        one.add(NumberedBatch(ROW + 2, 4, 1, 7), 4)
    assert again.rows() == first.rows()


def test_batches_that_are_known_change_nothing_when_they_come_again() -> None:
    rows = StoredNumberings(rows_max=2, batches_max=2)
    added = [(NumberedBatch(ROW + number % 3, number, 1, 7), number) for number in range(9)]
    for batch, offset in added:
        rows.add(batch, offset)
    before = rows.rows()
    for batch, offset in added:
        rows.add(batch, offset)
    assert rows.rows() == before


def test_batches_that_are_not_stored_after_all_are_forgotten() -> None:
    rows = StoredNumberings()
    for number in range(4):
        rows.add(NumberedBatch(ROW + number % 2, number, 1, 7), number)
    rows.drop_from(1)
    assert [[one.base_offset for one in row] for row in rows.rows()] == [[0]]
    rows.add(NumberedBatch(ROW, 1, 1, 7), 1)
    assert rows.next_sequence(ROW) == 2


async def test_numbers_are_known_once_they_are_durable(world: World) -> None:
    log = (await world.open()).topic(1, 1)
    world.writes.hold()
    told = Told()
    log.append_batch(body(0, 3), told)
    assert (log.next_sequence(ROW), log.offset_of(known(body(0, 3)))) == (0, None)
    world.writes.release()
    assert await told.offset() == 0
    assert (log.next_sequence(ROW), log.offset_of(known(body(0, 3)))) == (3, 0)


async def test_numbers_of_each_topic_are_found_again(world: World) -> None:
    journal = await world.open()
    await store(journal.topic(1, 1), body(0, 3))
    await store(journal.topic(2, 1), body(0, 1, row=9))
    await store(journal.topic(1, 1), body(3, 2))
    journal = await world.reopen()
    log, other = journal.topic(1, 1), journal.topic(2, 1)
    assert (log.next_sequence(ROW), other.next_sequence(ROW)) == (5, 0)
    assert (log.offset_of(known(body(3, 2))), log.offset_of(known(body(0, 3)))) == (3, 0)


async def test_numbers_of_a_torn_round_are_forgotten_with_it(world: World) -> None:
    log = (await world.open()).topic(1, 1)
    await store(log, body(0, 3))
    world.disk.stop_at(1)
    log.append_batch(body(3, 2), Told())
    later = world.after(world.disk.power_cut())
    log = (await later.open()).topic(1, 1)
    assert (log.next_sequence(ROW), log.offset_of(known(body(3, 2)))) == (3, None)
