"""What a start has made is left alone by the garbage collector, and work with many objects is not interrupted."""

import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from danube.runtime.memory import collections_paused, settle_memory


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


@pytest.fixture
def rounds() -> Iterator[list[str]]:
    """Grows with every round that the collector begins."""
    begun: list[str] = []

    def note(phase: str, _: dict[str, int]) -> None:
        begun.append(phase)

    gc.callbacks.append(note)
    yield begun
    gc.callbacks.remove(note)


def test_no_round_begins_while_they_are_paused_and_they_go_on_after_the_last_has_ended(rounds: list[str]) -> None:
    def make() -> list[list[int]]:
        return [[] for _ in range(10_000)]

    make()
    assert rounds
    with ThreadPoolExecutor(1) as other, collections_paused():
        rounds.clear()
        with collections_paused():
            made = make()
        made += other.submit(make).result()
        assert (rounds, len(made)) == ([], 20_000)
    make()
    assert rounds


def test_a_pause_leaves_a_collector_off_that_was_off_and_ends_with_an_error() -> None:
    gc.disable()
    try:
        with collections_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
    with pytest.raises(KeyError), collections_paused():
        raise KeyError
    assert gc.isenabled()
