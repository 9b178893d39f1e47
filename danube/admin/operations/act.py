"""Act of now: one call of an operation, and whether the broker records what it does."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from danube.model.plans.plan import Caller


@dataclass(slots=True)
class Act:
    """One call of an operation, and whether the broker records what it does."""

    caller: Caller
    is_recorded: bool = False
    """True once a broker recorded each change of it."""
    is_unrecorded: bool = False
    """True once it made a change, or was refused one, without a broker's record."""
    begin: Callable[[], Awaitable[object]] | None = None
    """Writes the record of its beginning, which only a change needs that no broker records."""

    async def before_unrecorded(self) -> None:
        """Put the beginning on record before the first change that no broker records. Raises DanubeError."""
        self.is_unrecorded = True
        begin, self.begin = self.begin, None
        if begin is not None:
            await begin()


ACT: ContextVar[Act | None] = ContextVar("act", default=None)


async def before_unrecorded() -> None:
    """Put the beginning of the act of now, if there is one, on record before a change that no broker records."""
    act = ACT.get()
    if act is not None:
        await act.before_unrecorded()


@contextmanager
def acting(caller: Caller) -> Iterator[None]:
    """One act of this caller: all that is asked of brokers within."""
    kept = ACT.set(Act(caller))
    try:
        yield
    finally:
        ACT.reset(kept)
