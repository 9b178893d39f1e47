import pytest

from danube.cli import arguments
from danube.model.errors import InvalidRequestError
from danube.model.subscription import SubscriptionType


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], {}),
        (["a=1", "b=2=3,4"], {"a": "1", "b": "2=3,4"}),
        (["a:1, b:2"], {"a": "1", "b": "2"}),
        (["url=http://x"], {"url": "http://x"}),
        (["a="], {"a": ""}),
    ],
)
def test_attributes_are_read_in_our_form_and_in_the_originals(texts: list[str], expected: dict[str, str]) -> None:
    assert arguments.attributes(texts) == expected


@pytest.mark.parametrize("text", ["a", "=1", ":1", "a:1,b"])
def test_an_attribute_without_key_and_value_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="key=value"):
        arguments.attributes([text])


@pytest.mark.parametrize("text", ["failover", "fail-over", "FailOver", "Fail_Over"])
def test_subscription_types_have_the_originals_spellings_too(text: str) -> None:
    assert arguments.subscription_type(text) is SubscriptionType.FAILOVER


def test_an_unknown_subscription_type_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidRequestError, match="exclusive, shared, failover or key-shared"):
        arguments.subscription_type("topic")


def test_the_originals_short_option_for_the_address_is_told_from_a_subscription() -> None:
    assert arguments.address_and_subscription("http://a:1", ["s"]) == ("http://a:1", "s")
    assert arguments.address_and_subscription("http://a:1", ["http://b:2", "s"]) == ("http://b:2", "s")


def test_two_subscriptions_are_refused_and_none_reads_without_one() -> None:
    assert arguments.address_and_subscription("http://a:1", ["http://b:2"]) == ("http://b:2", None)
    with pytest.raises(InvalidRequestError, match="-s my-subscription"):
        arguments.address_and_subscription("http://a:1", ["s", "t"])
