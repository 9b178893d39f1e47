"""What a start has made is left alone by the garbage collector."""

import gc
from collections.abc import Iterator

import pytest

from danube.runtime.process import settle_memory


@pytest.fixture
def frozen() -> Iterator[int]:
    """How much the test run itself has set aside."""
    yield gc.get_freeze_count()
    gc.collect()


def test_what_is_there_is_not_looked_at_again_and_what_comes_later_is(frozen: int) -> None:
    made: list[list[int]] = [[] for _ in range(1_000)]
    settle_memory()
    assert gc.get_freeze_count() >= frozen + len(made)
    later: list[object] = []
    later.append(later)
    del later
    assert gc.collect() >= 1
