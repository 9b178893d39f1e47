"""What all subscriptions have read and not sent yet: within one bound, and what is beyond it is read again."""

from danube.broker.dispatch.outlets import BatchWindow, BatchWindows
from danube.storage.batches.stored_batch import StoredBatch


def batch(size: int, base_offset: int = 0) -> StoredBatch:
    return StoredBatch(base_offset, 1, 1, bytes(size))


def test_the_windows_filled_longest_ago_give_way() -> None:
    windows = BatchWindows(bytes_max=250)
    first, second, third = (BatchWindow(windows) for _ in range(3))
    for window in (first, second, first, third):
        window.put([batch(100)])
    assert [window.batch_at(0) is not None for window in (first, second, third)] == [True, False, True]
    assert windows.bytes == 200


def test_one_window_may_pass_the_bound_alone() -> None:
    windows = BatchWindows(bytes_max=250)
    first, second = BatchWindow(windows), BatchWindow(windows)
    first.put([batch(10)])
    second.put([batch(200), batch(200, base_offset=1)])
    assert (first.batch_at(0), second.batch_at(1)) == (None, batch(200, base_offset=1))


def test_a_window_that_is_cleared_counts_nothing_and_is_not_kept() -> None:
    windows = BatchWindows()
    window = BatchWindow(windows)
    window.put([batch(100)])
    window.clear()
    assert (windows.bytes, len(windows._filled)) == (0, 0)
