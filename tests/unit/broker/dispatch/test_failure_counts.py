from hypothesis import given
from hypothesis import strategies as st

from danube.broker.dispatch.progress import FailureCounts
from danube.model.limits.broker import CURSOR_FAILURES_MAX
from danube.model.subscription import FailedRange

SPANS = st.tuples(st.integers(0, 20), st.integers(1, 8))


@given(st.lists(st.tuples(st.sampled_from(["add", "add", "remove"]), SPANS), max_size=30), SPANS)
def test_counts_agree_with_one_number_for_each_message(
    steps: list[tuple[str, tuple[int, int]]], asked: tuple[int, int]
) -> None:
    counts, model = FailureCounts(), dict.fromkeys(range(40), 0)
    for what, (start, length) in steps:
        for offset in range(start, start + length):
            model[offset] = model[offset] + 1 if what == "add" else 0
        if what == "add":
            assert one_by_one(counts.add(start, start + length)) == {
                offset: model[offset] for offset in range(start, start + length)
            }
        else:
            counts.remove(start, start + length)
    assert one_by_one(counts.lowest) == {offset: failures for offset, failures in model.items() if failures}
    assert all(
        low[1:] != (high.start, high.failures) for low, high in zip(counts.lowest, counts.lowest[1:], strict=False)
    )
    start, end = asked[0], sum(asked)
    assert one_by_one(counts.of(start, end)) == {offset: model[offset] for offset in range(start, end)}
    assert bool(counts) is any(model.values())


def one_by_one(ranges: list[FailedRange] | tuple[FailedRange, ...]) -> dict[int, int]:
    return {offset: failures for start, end, failures in ranges for offset in range(start, end)}


def test_a_cursor_gets_the_lowest_and_no_more_than_it_keeps() -> None:
    counts = FailureCounts()
    for offset in reversed(range(CURSOR_FAILURES_MAX + 10)):
        counts.add(2 * offset, 2 * offset + 1)
    assert [each.start for each in counts.lowest] == [2 * offset for offset in range(CURSOR_FAILURES_MAX)]
