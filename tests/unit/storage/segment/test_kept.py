"""The bounded memory of a reader."""

from hypothesis import given
from hypothesis import strategies as st

from danube.storage.segment.reader_cache import LruCache


def test_what_was_not_asked_for_longest_goes_first() -> None:
    kept: LruCache[int, str] = LruCache(30)
    for key in (1, 2, 3):
        kept.put(key, str(key), 10)
    assert kept.get(1) == "1"
    kept.put(4, "4", 10)
    assert ([kept.get(key) for key in (1, 2, 3, 4)], kept.bytes) == (["1", None, "3", "4"], 30)


def test_one_value_larger_than_all_room_stays_until_the_next() -> None:
    kept: LruCache[int, str] = LruCache(30)
    kept.put(1, "1", 100)
    assert kept.get(1) == "1"
    kept.put(2, "2", 10)
    assert (kept.get(1), kept.get(2), kept.bytes) == (None, "2", 10)


def test_a_value_takes_the_place_of_the_last_one_with_its_key() -> None:
    kept: LruCache[int, str] = LruCache(30)
    kept.put(1, "old", 20)
    kept.put(1, "new", 5)
    assert (kept.get(1), kept.bytes, len(kept)) == ("new", 5, 1)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 40)), max_size=30))
def test_the_bound_holds_whatever_is_put(puts: list[tuple[int, int]]) -> None:
    kept: LruCache[int, int] = LruCache(50)
    for key, cost in puts:
        kept.put(key, cost, cost)
        assert kept.get(key) == cost
        assert kept.bytes == sum(found for number in range(6) if (found := kept._values.get(number, (0, 0))[1]))
        assert kept.bytes <= 50
    kept.drop_all(lambda key: key != 3)
    assert kept.bytes == (kept.get(3) or 0)
