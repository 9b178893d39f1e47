import pytest

from danube.model.errors import InvalidNameError
from danube.model.limits.broker import NAME_BYTES_MAX
from danube.model.subscription import Cursor, SubscriptionType, check_member_name


@pytest.mark.parametrize("text", ["sub", "my sub", "größe", "a/b", "x" * NAME_BYTES_MAX])
def test_printable_names_are_names_of_members(text: str) -> None:
    assert check_member_name("subscription", text) == text


@pytest.mark.parametrize("text", ["", "a\nb", "\x00", "\ud800", "x" * (NAME_BYTES_MAX + 1), "ü" * NAME_BYTES_MAX])
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(InvalidNameError) as raised:
        check_member_name("subscription", text)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 200


def test_subscription_types_have_the_numbers_of_the_wire() -> None:
    assert [each.name for each in sorted(SubscriptionType)] == ["EXCLUSIVE", "SHARED", "FAILOVER", "KEY_SHARED"]


def test_cursors_are_values() -> None:
    assert Cursor(3) == Cursor(3, ())
    assert Cursor(3) != Cursor(4)
