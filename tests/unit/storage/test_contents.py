"""What is noted of a journal file while it is written."""

from danube.model.limits.stream import DEDUPLICATION_BATCHES_MAX, DEDUPLICATION_PRODUCERS_MAX
from danube.storage.batches.producer_state import SequencedBatch, StoredNumbers
from danube.storage.journal.contents import FileContents
from danube.storage.journal.index import FileStart

TOPIC, OTHER = 5, 6


def noted(*rows: tuple[int, int]) -> FileContents:
    """A file in which each of these topics and rows stored one batch, in this order."""
    contents = FileContents(FileStart(1, 0, 0))
    for number, (topic_id, row) in enumerate(rows):
        contents.add_numbers(topic_id, StoredNumbers(SequencedBatch(row, number, 1, 0), number))
    return contents


def test_a_file_keeps_as_many_rows_of_a_topic_as_its_log_remembers() -> None:
    contents = noted((OTHER, 0), *((TOPIC, row) for row in range(DEDUPLICATION_PRODUCERS_MAX + 3)))
    assert list(contents.rows) == [(OTHER, 0), *((TOPIC, row) for row in range(3, DEDUPLICATION_PRODUCERS_MAX + 3))]


def test_the_row_that_stored_nothing_for_longest_is_forgotten_first() -> None:
    contents = noted(*((TOPIC, row) for row in range(DEDUPLICATION_PRODUCERS_MAX)), (TOPIC, 0), (TOPIC, 9_999))
    assert (TOPIC, 0) in contents.rows
    assert (TOPIC, 1) not in contents.rows


def test_a_row_keeps_its_last_batches() -> None:
    contents = noted(*[(TOPIC, 1)] * (DEDUPLICATION_BATCHES_MAX + 2))
    assert [stored.base_offset for stored in contents.rows[TOPIC, 1]] == list(range(2, DEDUPLICATION_BATCHES_MAX + 2))
