import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import MESSAGE_BYTES_MAX, RETENTION_BYTES_MAX, RETENTION_TIME_S_MAX
from danube.model.policies import (
    NO_LIMITS,
    POLICY_NAMES,
    FailurePolicy,
    Limits,
    PoisonPolicy,
    Policies,
    PolicyChange,
    limits_of,
)
from danube.model.topic import TopicName

VALUES = st.none() | st.integers(0, 9)
TRUTH = st.none() | st.integers(0, 1)
ORDER = st.none() | st.integers(0, 2)
POLICIES = st.builds(
    Policies, **(dict.fromkeys(POLICY_NAMES, VALUES) | {"retention_drops_unread": TRUTH, "durability": ORDER})
)


@given(st.lists(POLICIES, max_size=4))
def test_the_first_who_sets_a_limit_decides_it(asked: list[Policies]) -> None:
    holding = limits_of(*asked)
    for name in POLICY_NAMES:
        said = [value for each in asked if (value := getattr(each, name)) is not None]
        assert getattr(holding, name) == (said[0] if said else getattr(NO_LIMITS, name))


@given(POLICIES, POLICIES)
def test_a_change_sets_what_it_names_and_leaves_the_rest(before: Policies, given_now: Policies) -> None:
    left = [name for name in POLICY_NAMES if getattr(given_now, name) is None]
    unset = frozenset(left[::2])
    after = PolicyChange(given=given_now, unset=unset).applied_to(before)
    for name in POLICY_NAMES:
        kept = None if name in unset else getattr(before, name)
        assert getattr(after, name) == (kept if name in left else getattr(given_now, name))


def test_nothing_is_limited_where_nobody_sets_anything() -> None:
    assert limits_of() == NO_LIMITS
    assert NO_LIMITS.message_bytes_max == MESSAGE_BYTES_MAX


def test_no_policy_lets_through_what_clients_could_not_receive() -> None:
    assert Limits(max_message_size=10 * MESSAGE_BYTES_MAX).message_bytes_max == MESSAGE_BYTES_MAX
    assert Limits(max_message_size=7).message_bytes_max == 7


def test_limits_beyond_their_bounds_are_refused_by_name() -> None:
    with pytest.raises(InvalidRequestError, match="max_publish_rate -1 cannot be"):
        Policies(max_publish_rate=-1)
    with pytest.raises(InvalidRequestError, match="message_ttl_s"):
        Policies(message_ttl_s=2**40)


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("retention_time_s", RETENTION_TIME_S_MAX),
        ("retention_bytes", RETENTION_BYTES_MAX),
        ("retention_drops_unread", 1),
        ("durability", 2),
    ],
)
def test_what_takes_a_plan_is_set_within_bounds_of_its_own(name: str, most: int) -> None:
    for value in (0, most):
        assert Policies(**{name: value}).given() == {name: value}
    with pytest.raises(InvalidRequestError, match=f"{name} {most + 1} cannot be: use 0 to {most}"):
        Policies(**{name: most + 1})


def test_a_topic_keeps_what_is_unread_even_where_its_namespace_does_not() -> None:
    holding = limits_of(Policies(retention_drops_unread=0), Policies(retention_drops_unread=1, retention_time_s=5))
    assert (holding.retention_drops_unread, holding.retention_time_s, holding.retention_bytes) == (0, 5, 0)


def test_nobody_is_said_to_sync_before_somebody_has_said_so() -> None:
    assert NO_LIMITS.durability is None
    assert limits_of(Policies(durability=2), Policies(durability=0)).durability == 2
    assert limits_of(Policies(), Policies(durability=1)).durability == 1


def test_dead_letters_go_somewhere_only_where_the_policy_says_so() -> None:
    topic = TopicName("default", "letters")
    assert FailurePolicy(dead_letter_topic=topic).dead_letters_go_to is None
    assert FailurePolicy(dead_letter_topic=topic, poison=PoisonPolicy.DEAD_LETTER).dead_letters_go_to == topic
