"""Changes of what an acknowledgement means, as plans have them: arguments that are JSON values. Pure.

All but the name of what they are for: `durability`, which is a name of one, or `clear`, to inherit it again.
"""

from collections.abc import Mapping
from typing import Any

from danube.model.errors import InvalidRequestError
from danube.model.plans.durability import Durability
from danube.model.policies import DURABILITY_NAME, Policies, PolicyChange

DURABILITY_ARGUMENTS = (DURABILITY_NAME, "clear")


def durability_change(arguments: Mapping[str, Any]) -> PolicyChange:
    """The change that these arguments mean; others are passed over. Raises InvalidRequestError."""
    wanted, is_cleared = arguments.get(DURABILITY_NAME), arguments.get("clear", False)
    if not isinstance(is_cleared, bool):
        raise InvalidRequestError(f"clear {str(is_cleared)[:40]!r} cannot be: use true or false")
    if wanted is not None and is_cleared:
        raise InvalidRequestError("durability cannot be set and cleared at once: do one of them")
    if wanted is not None:
        return PolicyChange(given=Policies(durability=_named(wanted).number))
    if not is_cleared:
        raise InvalidRequestError("nothing is to change: give a durability, or clear")
    return PolicyChange(unset=frozenset({DURABILITY_NAME}))


def _named(wanted: object) -> Durability:
    if not isinstance(wanted, str) or wanted not in {each.value for each in Durability}:
        raise InvalidRequestError(f"durability {str(wanted)[:40]!r} cannot be: use {', '.join(Durability)}")
    return Durability(wanted)
