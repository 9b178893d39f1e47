"""A member of a metadata cluster with a bug in it, named by DANUBE_PLANTED: what the soak must find."""

import asyncio
import os
import sys
from typing import Any

from danube.metadata.store import Entry
from danube.runtime.tasks import TaskScope
from lab.metadata.member import open_member
from lab.metadata.wire import serve


class Planted:
    """A store with one promise taken out; the rest is the store's own."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class StaleReads(Planted):
    """Serves linearizable reads from the member's own copy."""

    async def get(self, key: str, *, linearizable: bool = False) -> Entry | None:
        found: Entry | None = await self._store.get(key)
        return found


class EarlyAnswers(Planted):
    """Acknowledges what it has submitted before a majority has it, with the revision that it will likely get."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self._tasks = TaskScope("early")

    async def transact(self, transaction: Any) -> int:
        if transaction.conditions:
            return int(await self._store.transact(transaction))
        self._tasks.spawn(self._store.transact(transaction), "late")
        return int(self._store._replica.snapshot().revision) + 1


BUGS: dict[str, type[Planted]] = {"stale": StaleReads, "early": EarlyAnswers}


async def main() -> None:
    opened = await open_member(sys.argv[1:])
    store: Any = BUGS[os.environ["DANUBE_PLANTED"]](opened.store)
    try:
        await serve(store, opened.methods)
    finally:
        await opened.store.close()


if __name__ == "__main__":
    asyncio.run(main())
