import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.broker.dispatch.selection.key_filter import KeyBytes, KeyFilter, check_filters, check_filters_together
from danube.broker.dispatch.selection.key_ring import KeyRing, points_of, ring_hash
from danube.model.errors import InvalidRequestError, LimitReachedError
from danube.model.limits.broker import KEY_CHARS_MAX, KEY_FILTER_BYTES_MAX, KEY_FILTERS_LOOK_BYTES, KEY_FILTERS_MAX
from danube.model.message import consumer_id
from danube.model.topic import TopicName

KEYS = [f"order-{number}" for number in range(5_000)]
CPU_S = 2.0
"""Of a processor, where a second or less is usual and a fault takes minutes."""
IDS = [consumer_id(TopicName.parse("/default/orders"), "s", f"worker-{number}") for number in range(8)]


def ring(*consumer_ids: int) -> KeyRing:
    made = KeyRing()
    for each in consumer_ids:
        made.add(each)
    return made


def test_hashes_are_those_of_the_formula() -> None:
    """FNV-1a of nothing is its offset basis, which folds to 0x484222325's halves; the rest is worked out by hand."""
    folded = 0xCBF29CE4 ^ 0x84222325
    mixed = ((folded ^ folded >> 16) * 0x85EBCA6B) & 0xFFFFFFFF
    mixed = ((mixed ^ mixed >> 13) * 0xC2B2AE35) & 0xFFFFFFFF
    assert ring_hash("") == mixed ^ mixed >> 16
    assert points_of(7) == [ring_hash(f"7-{node}") for node in range(100)]


@pytest.mark.parametrize("count", [2, 3, 5])
def test_keys_are_spread_well_over_a_few_consumers(count: int) -> None:
    made = ring(*IDS[:count])
    shares = Counter(made.owner(key) for key in KEYS)
    assert len(shares) == count
    assert min(shares.values()) > len(KEYS) / count * 0.6
    assert max(shares.values()) < len(KEYS) / count * 1.5


def test_who_joins_takes_its_share_of_keys_and_moves_no_other() -> None:
    made = ring(*IDS[:3])
    before = {key: made.owner(key) for key in KEYS}
    made.add(IDS[3])
    moved = [key for key in KEYS if made.owner(key) != before[key]]
    assert {made.owner(key) for key in moved} == {IDS[3]}
    assert len(KEYS) * 0.1 < len(moved) < len(KEYS) * 0.4
    made.remove(IDS[3])
    assert {key: made.owner(key) for key in KEYS} == before


def test_the_order_of_joining_does_not_matter() -> None:
    here, there = ring(*IDS[:4]), ring(*reversed(IDS[:4]))
    assert [here.owner(key) for key in KEYS] == [there.owner(key) for key in KEYS]


def test_a_key_goes_on_along_the_ring_to_who_takes_it() -> None:
    made = KeyRing()
    made.add(1, ("order-*",))
    made.add(2, ("bill-?",))
    made.add(3, ("order-1*", "bill-*"))
    assert {made.owner(key) for key in KEYS} == {1, 3}
    assert {made.owner(f"bill-{number}") for number in range(10)} == {2, 3}
    assert made.owner("bill-10") == 3
    assert made.owner("else") is None


def test_changed_filters_hold_at_once() -> None:
    made = KeyRing()
    made.add(1, ("a",))
    assert (made.owner("a"), made.owner("b")) == (1, None)
    made.add(1, ("b",))
    assert (made.owner("a"), made.owner("b")) == (None, 1)


def test_an_empty_ring_has_no_owner() -> None:
    assert KeyRing().owner("a") is None


@pytest.mark.parametrize(
    ("pattern", "key", "is_taken"),
    [
        ("user-*", "user-123", True),
        ("user-*", "order-123", False),
        ("us-?", "us-a", True),
        ("us-?", "us-ab", False),
        ("*", "", True),
        ("", "", True),
        ("", "a", False),
        ("exact", "exact", True),
        ("exact", "exactly", False),
        ("eu-*-order", "eu-west-1-order", True),
        ("eu-*-order", "eu-west-1-payment", False),
        ("*-*-*", "a-b-c", True),
        ("*ab*ab", "abab", True),
        ("*ab*ab", "ab", False),
        ("a**b", "ab", True),
        ("?", "ä", False),
        ("??", "ä", True),
        ("a.c", "abc", False),
        ("a*c", "a\nc", True),
        ("a*a", "a", False),
        ("*?b*c", "abc", True),
        ("*?b*c", "bc", False),
        ("?*?", "a", False),
        ("*a?c*?", "zabcx", True),
        ("*a?c*?", "zabc", False),
        ("*?", "", False),
        ("**", "", True),
        ("*b?", "abb", True),
    ],
)
def test_patterns_match_as_in_the_original(pattern: str, key: str, is_taken: bool) -> None:
    assert KeyFilter((pattern,)).takes(KeyBytes(key)) is is_taken


def plain(pattern: str, key: str) -> bool:
    """The same by definition, however long it takes: bytes of `?` and all ways to split at `*`."""
    wanted, there = pattern.encode(), key.encode()
    reached = {0}
    for byte in wanted:
        if byte == ord("*"):
            reached = {end for start in reached for end in range(start, len(there) + 1)}
        else:
            reached = {at + 1 for at in reached if at < len(there) and byte in {there[at], ord("?")}}
    return len(there) in reached


@given(st.text("ab?*ä", max_size=8), st.text("abä", max_size=8))
def test_a_pattern_matches_what_its_definition_says(pattern: str, key: str) -> None:
    assert KeyFilter((pattern,)).takes(KeyBytes(key)) is plain(pattern, key)


HOSTILE = (
    "*a" * 128,
    "*?" * 128,
    "*" + "a" * 254 + "b",
    "*?" + "a" * 253 + "b",
    "*" + "?a" * 127 + "b",
    "*?" + "a" * 252 + "b*",
    "?" * 256,
)


@pytest.mark.parametrize("pattern", HOSTILE)
def test_no_pattern_and_key_take_longer_than_any_other(pattern: str) -> None:
    """Ten keys of the greatest length against a hundred such patterns: backtracking would take hours."""
    filters = KeyFilter((pattern[:KEY_FILTER_BYTES_MAX],) * KEY_FILTERS_MAX)
    began_s = time.process_time()
    for number in range(10):
        filters.takes(KeyBytes("a" * (4 * KEY_CHARS_MAX) + str(number)))
    assert time.process_time() - began_s < CPU_S


def test_a_hundred_consumers_with_a_hundred_filters_do_not_block_for_a_new_key() -> None:
    made = KeyRing()
    for consumer in range(100):
        made.add(consumer, tuple(f"shop-{consumer}-{number}*" for number in range(100)))
    assert made.owner("shop-7-11-order") == 7
    began_s = time.process_time()
    owners = [made.owner(f"shop-{number}-5-{number}") for number in range(20)]
    assert owners == list(range(20))
    assert time.process_time() - began_s < CPU_S
    assert made.looks_a_turn == 1


def test_filters_of_a_subscription_are_bounded_together() -> None:
    check_filters_together("s", [("a*",) * KEY_FILTERS_MAX] * 100)
    with pytest.raises(LimitReachedError, match="'s' would have 10001 key filters of 20002 bytes"):
        check_filters_together("s", [*[("a*",) * KEY_FILTERS_MAX] * 100, ("b*",)])
    with pytest.raises(LimitReachedError, match="use fewer, or shorter ones"):
        check_filters_together("s", [("a" * KEY_FILTER_BYTES_MAX,) * KEY_FILTERS_MAX] * 6)


def test_few_filters_leave_many_looks_and_many_leave_few() -> None:
    made = KeyRing()
    assert made.looks_a_turn == KEY_FILTERS_LOOK_BYTES
    made.add(1, ("a" * 200, "b" * 56))
    assert made.looks_a_turn == KEY_FILTERS_LOOK_BYTES // 256
    made.add(1, ("a" * 128,))
    assert made.looks_a_turn == KEY_FILTERS_LOOK_BYTES // 128
    made.remove(1)
    assert made.looks_a_turn == KEY_FILTERS_LOOK_BYTES


def test_too_many_or_too_long_filters_are_refused() -> None:
    assert check_filters(["a*"]) == ("a*",)
    for filters in (["a"] * (KEY_FILTERS_MAX + 1), ["ä" * KEY_FILTER_BYTES_MAX]):
        with pytest.raises(InvalidRequestError):
            check_filters(filters)
