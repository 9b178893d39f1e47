import pytest

from danube.storage.batches.envelope import ENVELOPE_BYTES
from danube.storage.flush.flush_plan import FULL, GROWTH, merged_bytes, plan_merge
from danube.storage.segment.manifest import Segment
from tests.unit.storage.manifests import sizes

MAX = 1_000


def planned(*file_bytes: int) -> range | None:
    """The plan for segments of these sizes."""
    return plan_merge([Segment(at, at + 1, 1, 0, 0, 0, 0, size) for at, size in enumerate(file_bytes)], MAX)


@pytest.mark.parametrize(
    ("file_bytes", "run"),
    [
        ((), None),
        ((1,), None),
        ((5, 5, 5), None),
        ((5, 5, 5, 5), range(4)),
        ((5, 5, 5, 5, 5, 5), range(6)),
        ((100, 5, 5, 5, 5), range(1, 5)),
        ((400, 400), range(2)),
        ((250, 250, 250, 250), range(4)),
        ((250, 250, 250, 251), range(3)),
        ((800, 5, 800, 5, 800, 5, 5, 5), None),
        ((800, 5, 5, 5, 5, 800), range(1, 5)),
        ((5_000, 700), None),
        ((700, 100), range(2)),
        ((700, 20), None),
        ((64, 16, 4, 1), None),
    ],
)
def test_the_oldest_run_that_grows_enough_is_merged(file_bytes: tuple[int, ...], run: range | None) -> None:
    assert planned(*file_bytes) == run


def test_a_full_segment_is_left_alone() -> None:
    assert planned(int(MAX * FULL), 100) is None
    assert planned(int(MAX * FULL) - 1, 100) == range(2)


def test_what_counts_is_what_a_merge_holds_in_memory() -> None:
    (compressed,) = sizes(500)
    assert merged_bytes(Segment(0, 1, 1, 0, 0, 3, 500, 40)) == 500 + 3 * ENVELOPE_BYTES
    assert merged_bytes(Segment(0, 1, 1, 0, 0, 0, 500, 700)) == 700
    assert merged_bytes(compressed) == 600


def test_a_topic_that_is_cut_evenly_has_few_segments_of_each_size() -> None:
    segments: list[int] = []
    for _ in range(GROWTH**4):
        segments.append(1)
        while (run := planned(*segments)) is not None:
            segments[run.start : run.stop] = [sum(segments[run.start : run.stop])]
        assert all(segments.count(size) < GROWTH for size in segments)
    assert segments == [GROWTH**4]
