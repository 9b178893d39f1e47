"""Changes of what an acknowledgement means, as their arguments say them."""

from typing import Any

import pytest

from danube.model.errors import InvalidRequestError
from danube.model.plans.durability import Durability, durability_of
from danube.model.plans.policy_changes import durability_change
from danube.model.policies import Policies


def test_a_name_is_set_as_its_number() -> None:
    numbers = {name: durability_change({"durability": name}).given for name in ("fsync", "interval", "os")}
    assert numbers == {name: Policies(durability=number) for number, name in enumerate(numbers)}


def test_what_is_cleared_is_unset() -> None:
    change = durability_change({"topic": "/default/x", "durability": None, "clear": True})
    assert (change.given, change.unset) == (Policies(), frozenset({"durability"}))


def test_a_number_that_only_a_later_version_knows_is_not_guessed() -> None:
    assert [durability_of(number) for number in (None, -1, 0, 1, 2, 3)] == [None, None, *Durability, None]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "Nothing to change"),
        ({"clear": False, "durability": None}, "Nothing to change"),
        ({"clear": 1}, "clear '1' cannot be"),
        ({"durability": 0}, "durability '0' cannot be: use fsync, interval, os"),
        ({"durability": True}, "durability 'True' cannot be"),
        ({"durability": "FSYNC"}, "durability 'FSYNC' cannot be"),
        ({"durability": ["os"]}, "cannot be: use fsync, interval, os"),
        ({"durability": "os", "clear": True}, "set and cleared at once"),
    ],
)
def test_what_is_no_change_is_refused(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidRequestError, match=problem):
        durability_change(arguments)
