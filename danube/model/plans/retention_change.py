"""Changes of how long messages are kept, as plans have them: arguments that are JSON values. Pure.

All but the name of what they are for: `time_s` and `bytes` (0 is no limit), `drops_unread`, and `clear`. What is null
stays as it is; with `clear` it is inherited again.
"""

from collections.abc import Mapping
from typing import Any

from danube.model.errors import InvalidRequestError
from danube.model.policies import RETENTION_NAMES, Policies, PolicyChange

RETENTION_ARGUMENTS = ("time_s", "bytes", "drops_unread", "clear")
"""The first three are those of RETENTION_NAMES, in that order."""


def retention_change(arguments: Mapping[str, Any]) -> PolicyChange:
    """The change that these arguments mean; others are passed over. Raises InvalidRequestError."""
    given = {
        name: _number(argument, arguments[argument])
        for argument, name in zip(RETENTION_ARGUMENTS, RETENTION_NAMES, strict=False)
        if arguments.get(argument) is not None
    }
    is_cleared = arguments.get("clear", False)
    if not isinstance(is_cleared, bool):
        raise InvalidRequestError(f"clear {str(is_cleared)[:40]!r} cannot be: use true or false")
    if not given and not is_cleared:
        raise InvalidRequestError("nothing is to change: give a limit to set, or clear")
    unset = frozenset(RETENTION_NAMES) - given.keys() if is_cleared else frozenset()
    return PolicyChange(given=Policies(**given), unset=unset)


def _number(argument: str, value: object) -> int:
    wants_truth = argument == "drops_unread"
    if not isinstance(value, int) or isinstance(value, bool) != wants_truth:
        wanted = "true or false" if wants_truth else "a whole number"
        raise InvalidRequestError(f"{argument} {str(value)[:40]!r} cannot be: use {wanted}")
    return int(value)
