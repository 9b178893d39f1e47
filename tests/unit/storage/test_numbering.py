"""Numbers of batches: read from bodies, found again after a restart, and those of no account left alone."""

from danube.model.message import SEQUENCED_BIT
from danube.storage.batches.batch import BatchOrigin, encode_messages, encode_payloads
from danube.storage.batches.producer_state import SequencedBatch, StoredProducerStates, sequenced_batch
from danube.storage.log.topic_log import TopicLog
from tests.unit.storage.journal_world import Told, World, log_in

ROW = SEQUENCED_BIT | 5


def body(first: int, count: int, row: int = ROW) -> bytes:
    return encode_payloads(b"", [b"x"] * count, BatchOrigin(producer_id=row, base_sequence=first))


async def store(log: TopicLog, content: bytes) -> int:
    told = Told()
    log.append_batch(content, told)
    return await told.offset()


def known(content: bytes) -> SequencedBatch:
    found = sequenced_batch(content)
    assert found is not None
    return found


def test_numbers_stand_in_the_header() -> None:
    assert known(body(7, 3))[:3] == (ROW, 7, 3)
    assert known(body(7, 3)).end_sequence == 10
    assert known(body(7, 3)) != known(encode_payloads(b"", [b"y"] * 3, BatchOrigin(producer_id=ROW, base_sequence=7)))


def test_batches_of_other_producers_have_none() -> None:
    assert sequenced_batch(body(0, 1, row=5)) is None
    assert sequenced_batch(encode_messages([b"x"])) is None


def test_rows_are_restored_as_they_were_and_go_on() -> None:
    first = StoredProducerStates()
    for number, row in enumerate((1, 2, 1, 3)):
        first.add(SequencedBatch(ROW + row, number, 1, 7), number)
    again = StoredProducerStates()
    again.restore(first.rows())
    assert (again.rows(), len(again)) == (first.rows(), 3)
    assert [row[-1].batch.numbering_id - ROW for row in again.rows()] == [2, 1, 3]
    for one in (first, again):
        one.add(SequencedBatch(ROW + 2, 4, 1, 7), 4)
    assert again.rows() == first.rows()


def test_batches_that_are_known_change_nothing_when_they_come_again() -> None:
    rows = StoredProducerStates(rows_max=2, batches_max=2)
    added = [(SequencedBatch(ROW + number % 3, number, 1, 7), number) for number in range(9)]
    for batch, offset in added:
        rows.add(batch, offset)
    before = rows.rows()
    for batch, offset in added:
        rows.add(batch, offset)
    assert rows.rows() == before


def test_batches_that_are_not_stored_after_all_are_forgotten() -> None:
    rows = StoredProducerStates()
    for number in range(4):
        rows.add(SequencedBatch(ROW + number % 2, number, 1, 7), number)
    rows.drop_from(1)
    assert [[one.base_offset for one in row] for row in rows.rows()] == [[0]]
    rows.add(SequencedBatch(ROW, 1, 1, 7), 1)
    assert rows.next_sequence(ROW) == 2


async def test_numbers_are_known_once_they_are_durable(world: World) -> None:
    log = log_in(await world.open(), 1, 1)
    world.writes.hold()
    told = Told()
    log.append_batch(body(0, 3), told)
    assert (log.next_sequence(ROW), log.offset_of(known(body(0, 3)))) == (0, None)
    world.writes.release()
    assert await told.offset() == 0
    assert (log.next_sequence(ROW), log.offset_of(known(body(0, 3)))) == (3, 0)


async def test_numbers_of_each_topic_are_found_again(world: World) -> None:
    journal = await world.open()
    await store(log_in(journal, 1, 1), body(0, 3))
    await store(log_in(journal, 2, 1), body(0, 1, row=9))
    await store(log_in(journal, 1, 1), body(3, 2))
    journal = await world.reopen()
    log, other = log_in(journal, 1, 1), log_in(journal, 2, 1)
    assert (log.next_sequence(ROW), other.next_sequence(ROW)) == (5, 0)
    assert (log.offset_of(known(body(3, 2))), log.offset_of(known(body(0, 3)))) == (3, 0)


async def test_numbers_of_a_torn_round_are_forgotten_with_it(world: World) -> None:
    log = log_in(await world.open(), 1, 1)
    await store(log, body(0, 3))
    world.disk.stop_at(1)
    log.append_batch(body(3, 2), Told())
    later = world.after(world.disk.power_cut())
    log = log_in(await later.open(), 1, 1)
    assert (log.next_sequence(ROW), log.offset_of(known(body(3, 2)))) == (3, None)
