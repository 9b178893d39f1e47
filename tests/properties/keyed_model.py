"""Messages and consumers of a Key-Shared subscription, as the model of it sees them."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from danube.broker.dispatch.selection.key_ring import points_of


@dataclass
class Message:
    """One message as the model sees it."""

    key: str
    state: str = "open"
    """open (new or ready), in flight, waiting, blocked, letter or done."""
    attempt: int = 0
    failures: int = 0
    """Of deliveries; unlike `attempt` known after a restart."""
    is_recalled: bool = False
    """Whether it failed before a restart and was not sent since."""
    holder: int | None = None
    keeper: "Member | None" = None
    """Who went away while it had this."""
    number: int = 0
    at_s: float = 0.0
    is_asked: bool = False


@dataclass(eq=False)
class Member:
    """A consumer that has keys, attached or away."""

    filters: tuple[str, ...]
    window: int = 0
    is_attached: bool = True
    is_paused: bool = False
    leaves_at_s: float = float("inf")
    front: int = 0
    answered_s: float = float("-inf")


@lru_cache
def points(consumer_id: int) -> tuple[int, ...]:
    return tuple(points_of(consumer_id))


def takes(filters: tuple[str, ...], key: str) -> bool:
    return not filters or any(fnmatchcase(key, each) for each in filters)
