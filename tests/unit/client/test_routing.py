import pytest

from danube.client.publish.accumulator import Router
from danube.model.message import fnv1a_64


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"", 0xCBF29CE484222325), (b"a", 0xAF63DC4C8601EC8C), (b"foobar", 0x85944171F73967E8)],
)
def test_the_hash_is_the_published_fnv1a(data: bytes, expected: int) -> None:
    assert fnv1a_64(data) == expected


def test_messages_without_a_key_take_the_partitions_in_turn_from_the_first() -> None:
    router = Router(3)
    assert [router.choose(None) for _ in range(5)] == [0, 1, 2, 0, 1]


def test_a_key_always_has_the_same_partition_and_does_not_move_the_turn() -> None:
    router = Router(4)
    expected = fnv1a_64(b"order-1") % 4
    assert [router.choose("order-1"), router.choose(None), router.choose("order-1")] == [expected, 0, expected]


def test_an_empty_key_is_a_key() -> None:
    assert Router(5).choose("") == fnv1a_64(b"") % 5
