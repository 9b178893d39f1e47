from danube.broker.dispatch.progress import Progress
from danube.model.limits.broker import CURSOR_RANGES_MAX
from danube.model.ranges import OffsetRange
from danube.model.subscription import Cursor


def test_the_front_moves_over_what_was_acknowledged_beyond_it() -> None:
    progress = Progress(Cursor(0), 100)
    progress.add(1, 2)
    progress.add(4, 6)
    assert progress.cursor == Cursor(0, (OffsetRange(1, 2), OffsetRange(4, 6)))
    progress.add(0, 1)
    assert progress.cursor == Cursor(2, (OffsetRange(4, 6),))
    progress.add(2, 4)
    assert progress.cursor == Cursor(6)


def test_acknowledging_again_below_the_front_moves_nothing_back() -> None:
    progress = Progress(Cursor(10), 100)
    progress.add(2, 5)
    assert progress.cursor == Cursor(10)


def test_a_saved_cursor_is_continued() -> None:
    saved = Cursor(3, (OffsetRange(5, 7),))
    assert Progress(saved, 100).cursor == saved


def test_a_cursor_says_nothing_of_offsets_that_are_not_written_yet() -> None:
    assert Progress(Cursor(50), 20).cursor == Cursor(20)
    assert Progress(Cursor(3, (OffsetRange(5, 30), OffsetRange(40, 50))), 20).cursor == Cursor(3, (OffsetRange(5, 20),))


def test_a_cursor_keeps_the_lowest_ranges_when_there_are_too_many() -> None:
    progress = Progress(Cursor(0), 100_000)
    for offset in range(1, 2 * CURSOR_RANGES_MAX + 20, 2):
        progress.add(offset, offset + 1)
    beyond = progress.cursor.beyond
    assert len(beyond) == CURSOR_RANGES_MAX
    assert beyond[-1] == OffsetRange(2 * CURSOR_RANGES_MAX - 1, 2 * CURSOR_RANGES_MAX)
