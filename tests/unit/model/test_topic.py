import pytest

from danube.model.errors import InvalidNameError
from danube.model.limits.broker import NAME_BYTES_MAX
from danube.model.topic import DispatchStrategy, TopicName, check_name_part


@pytest.mark.parametrize("text", ["/default/topic", "/a/b", "/n_1/t-2", "/größe/テーマ", "/0/0", "/-/_"])
def test_a_topic_name_reads_back_as_it_was_written(text: str) -> None:
    assert str(TopicName.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    ["", "/", "//", "topic", "default/topic", "/default", "/default/", "//topic", "x/default/topic", "/a/b/c", "/a/b/",
     "/a/b\n", "/a b/c", "/a/b.c", "/a/b*", " /a/b", "/a/b\u09cd", "/a/b\u0301", "/a/b\ud800", "/a/²+"],
)  # fmt: skip
def test_anything_else_is_not_a_topic_name(text: str) -> None:
    with pytest.raises(InvalidNameError):
        TopicName.parse(text)


def test_a_name_part_has_a_bound_in_bytes() -> None:
    assert check_name_part("topic", "x" * NAME_BYTES_MAX)
    for too_long in ("x" * (NAME_BYTES_MAX + 1), "ü" * (NAME_BYTES_MAX // 2 + 1)):
        with pytest.raises(InvalidNameError, match=f"longer than {NAME_BYTES_MAX} bytes"):
            check_name_part("topic", too_long)


@pytest.mark.parametrize("text", ["x" * 10_000, "/default/" + "x" * 10_000, "/default/" + " " * 10_000])
def test_an_error_shows_no_more_than_the_beginning_of_a_long_name(text: str) -> None:
    with pytest.raises(InvalidNameError) as raised:
        TopicName.parse(text)
    assert len(str(raised.value)) < 300


def test_a_partition_names_its_base_and_its_index() -> None:
    base = TopicName("default", "orders")
    partition = base.partition(12)
    assert str(partition) == "/default/orders-part-12"
    assert (partition.base_by_form, partition.partition_index) == (base, 12)
    assert TopicName.parse(str(partition)) == partition


@pytest.mark.parametrize("local", ["orders", "orders-part-", "orders-part-01", "orders-part-x", "-part-1", "part-1"])
def test_a_plain_topic_has_no_base(local: str) -> None:
    name = TopicName("default", local)
    assert (name.base_by_form, name.partition_index) == (None, None)


def test_the_last_suffix_of_a_nested_partition_name_counts() -> None:
    name = TopicName("default", "orders-part-1-part-2")
    assert (name.base_by_form, name.partition_index) == (TopicName("default", "orders-part-1"), 2)


def test_a_partition_whose_name_would_be_too_long_is_refused() -> None:
    base = TopicName("default", "x" * (NAME_BYTES_MAX - 5))
    with pytest.raises(InvalidNameError):
        base.partition(0)


def test_dispatch_strategies_have_the_numbers_of_the_wire() -> None:
    assert (DispatchStrategy.NON_RELIABLE, DispatchStrategy.RELIABLE) == (0, 1)


@pytest.mark.parametrize(
    "local", ["বাংলা", "วัน", "ⓐⓩ", "Ⅻ", "½", "\U00016ea0", "\u0345", "\U0001e6c0", "\U0001f150"]
)  # fmt: skip
def test_vowel_signs_and_whatever_else_the_original_counts_as_a_letter_or_digit_are_taken(local: str) -> None:
    """As `char::is_alphanumeric` of Rust 1.95 does; the last ones are newer than Python 3.11, or no letters to it."""
    assert TopicName.parse(f"/default/{local}").local == local
    assert TopicName.parse(f"/{local}/x").namespace == local
