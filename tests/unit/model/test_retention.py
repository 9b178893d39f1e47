"""Changes of retention as their arguments say them."""

from typing import Any

import pytest

from danube.model.errors import InvalidRequestError
from danube.model.plans.policy_changes import RETENTION_ARGUMENTS, retention_change
from danube.model.policies import RETENTION_NAMES, Policies


def test_what_is_given_is_set_and_the_rest_stays() -> None:
    change = retention_change({"topic": "/default/x", "time_s": 5, "bytes": None, "drops_unread": True})
    assert change.given == Policies(retention_time_s=5, retention_drops_unread=1)
    assert [type(value) for value in change.given.given().values()] == [int, int]
    assert change.unset == frozenset()


def test_what_is_cleared_is_unset_but_what_is_given_with_it() -> None:
    assert retention_change({"clear": True}).unset == frozenset(RETENTION_NAMES)
    change = retention_change({"clear": True, "bytes": 0})
    assert change.given == Policies(retention_bytes=0)
    assert change.unset == {"retention_time_s", "retention_drops_unread"}


def test_every_limit_of_retention_has_its_argument() -> None:
    for argument, name in zip(RETENTION_ARGUMENTS, RETENTION_NAMES, strict=False):
        value = argument == "drops_unread" or 7
        assert retention_change({argument: value}).names == {name}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "Nothing to change"),
        ({"clear": False, "time_s": None}, "Nothing to change"),
        ({"clear": 1}, "clear '1' cannot be"),
        ({"time_s": True}, "time_s 'True' cannot be: use a whole number"),
        ({"time_s": 1.5}, "time_s"),
        ({"time_s": -1}, "retention_time_s -1"),
        ({"bytes": "7"}, "bytes '7' cannot be"),
        ({"drops_unread": 1}, "drops_unread '1' cannot be: use true or false"),
    ],
)
def test_what_is_no_change_is_refused(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidRequestError, match=problem):
        retention_change(arguments)
