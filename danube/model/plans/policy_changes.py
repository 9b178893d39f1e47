"""Changes of policies that a plan alone makes, from arguments that are JSON values. Pure.

Besides the name of a topic or a namespace, `durability` takes `durability` or `clear`. Retention takes `time_s` and
`bytes` (0 is no limit), `drops_unread`, and `clear`: what is null stays as it is, and is inherited again with `clear`.
The message TTL takes `ttl_s` (0 is none) or `clear`. A policy that drops what fails takes DROP_ARGUMENTS.
"""

from collections.abc import Mapping
from typing import Any

from danube.model.errors import InvalidRequestError
from danube.model.plans.durability import Durability
from danube.model.policies import (
    DURABILITY_NAME,
    MESSAGE_TTL_NAME,
    RETENTION_NAMES,
    BackoffStrategy,
    FailurePolicy,
    PoisonPolicy,
    Policies,
    PolicyChange,
)

DURABILITY_ARGUMENTS = (DURABILITY_NAME, "clear")
RETENTION_ARGUMENTS = ("time_s", "bytes", "drops_unread", "clear")
"""The first three are those of RETENTION_NAMES, in that order."""

MESSAGE_TTL_ARGUMENTS = ("ttl_s", "clear")

DROP_ARGUMENTS = (
    "max_redelivery_count",
    "ack_timeout_ms",
    "base_redelivery_delay_ms",
    "max_redelivery_delay_ms",
    "backoff_strategy",
)
"""Of a FailurePolicy; the last is `fixed` or `exponential`."""


def durability_change(arguments: Mapping[str, Any]) -> PolicyChange:
    """The change that these arguments mean; others are passed over. Raises InvalidRequestError."""
    wanted, is_cleared = arguments.get(DURABILITY_NAME), _is_cleared(arguments)
    if wanted is not None and is_cleared:
        raise InvalidRequestError("durability cannot be set and cleared at once: do one of them")
    if wanted is not None:
        if not isinstance(wanted, str) or wanted not in {each.value for each in Durability}:
            raise InvalidRequestError(f"durability {str(wanted)[:40]!r} cannot be: use {', '.join(Durability)}")
        return PolicyChange(given=Policies(durability=Durability(wanted).number))
    if not is_cleared:
        raise InvalidRequestError("Nothing to change: pass a durability or --clear")
    return PolicyChange(unset=frozenset({DURABILITY_NAME}))


def retention_change(arguments: Mapping[str, Any]) -> PolicyChange:
    """The same for retention."""
    given = {
        name: _number(argument, arguments[argument])
        for argument, name in zip(RETENTION_ARGUMENTS, RETENTION_NAMES, strict=False)
        if arguments.get(argument) is not None
    }
    is_cleared = _is_cleared(arguments)
    if not given and not is_cleared:
        raise InvalidRequestError("Nothing to change: pass a limit or --clear")
    unset = frozenset(RETENTION_NAMES) - given.keys() if is_cleared else frozenset()
    return PolicyChange(given=Policies(**given), unset=unset)


def message_ttl_change(arguments: Mapping[str, Any]) -> PolicyChange:
    """The same for the time after which subscriptions pass over a message."""
    wanted, is_cleared = arguments.get("ttl_s"), _is_cleared(arguments)
    if (wanted is None) is not is_cleared:
        raise InvalidRequestError("pass either ttl_s (0 for none) or clear")
    if wanted is None:
        return PolicyChange(unset=frozenset({MESSAGE_TTL_NAME}))
    return PolicyChange(given=Policies(message_ttl_s=_number("ttl_s", wanted)))


def drop_policy(arguments: Mapping[str, Any]) -> FailurePolicy:
    """The failure policy that drops what was sent too often. Raises InvalidRequestError."""
    growth = str(arguments.get("backoff_strategy")).upper()
    if growth not in BackoffStrategy.__members__:
        raise InvalidRequestError(f"backoff_strategy {growth[:40]!r} cannot be: use fixed or exponential")
    times, timeout_ms, base_ms, delay_ms = (_number(name, arguments.get(name)) for name in DROP_ARGUMENTS[:-1])
    return FailurePolicy(
        max_redelivery_count=times,
        ack_timeout_ms=timeout_ms,
        base_redelivery_delay_ms=base_ms,
        max_redelivery_delay_ms=delay_ms,
        backoff=BackoffStrategy[growth],
        poison=PoisonPolicy.DROP,
    )


def _is_cleared(arguments: Mapping[str, Any]) -> bool:
    is_cleared = arguments.get("clear", False)
    if not isinstance(is_cleared, bool):
        raise InvalidRequestError(f"clear {str(is_cleared)[:40]!r} cannot be: use true or false")
    return is_cleared


def _number(argument: str, value: object) -> int:
    wants_truth = argument == "drops_unread"
    if not isinstance(value, int) or isinstance(value, bool) != wants_truth:
        wanted = "true or false" if wants_truth else "a whole number"
        raise InvalidRequestError(f"{argument} {str(value)[:40]!r} cannot be: use {wanted}")
    return int(value)
