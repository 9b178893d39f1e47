"""A metadata store over lines: a member in a process of its own serves it, the process that judges it calls it.

Each line is a pickled tuple in base64: between two processes of one test this needs no authentication. A request is
`(number, method, arguments, named arguments)`, its answer `(number, "ok", value)` or `(number, "error", class,
sentence)`. A watch is the request `watch`; its events come as `(number, "event", event)`, and `unwatch` with that
number ends it. A member sends `(0, "ok", None)` when it serves, and ends when its standard input does. A member that
has to find others first may send `(-1, "ok", None)` before, when it can be found itself.
"""

import asyncio
import base64
import pickle
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from danube.metadata.store import Condition, Delete, Entry, MetadataStore, Put, Transaction, Write
from danube.model.errors import DanubeError
from danube.model.limits.metadata import METADATA_SUBMISSIONS_MAX, METADATA_VALUE_BYTES_MAX
from danube.runtime.tasks import TaskScope

LINE_BYTES_MAX = 16 * METADATA_VALUE_BYTES_MAX
"""Largest line: a value of the largest size, encoded, and much around it."""
SERVES, OPEN = 0, -1  # numbers of what a member sends without being asked
READS = {"get", "list", "watch", "unwatch", "status", "look"}
"""Methods that change nothing: their outcome is never unknown."""

Method = Callable[..., Awaitable[Any]]


def encode(line: tuple[Any, ...]) -> bytes:
    """A line, with its end."""
    return base64.b64encode(pickle.dumps(line)) + b"\n"


def decode(line: bytes) -> tuple[Any, ...]:
    """The tuple that `encode` was given. Raises ValueError for a line that is torn."""
    if not line.endswith(b"\n"):
        raise ValueError("the line is torn")
    decoded: tuple[Any, ...] = pickle.loads(base64.b64decode(line))  # noqa: S301 - from a process of this test
    return decoded


class CalledStore(ABC):
    """The calls of a `MetadataStore`, all made by `call`."""

    @abstractmethod
    async def call(self, method: str, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - of any method
        """Call the store behind. Raises what it raises."""

    async def get(self, key: str, *, linearizable: bool = False) -> Entry | None:
        entry: Entry | None = await self.call("get", key, linearizable=linearizable)
        return entry

    async def list(self, prefix: str, *, linearizable: bool = False) -> Sequence[Entry]:
        entries: Sequence[Entry] = await self.call("list", prefix, linearizable=linearizable)
        return entries

    async def put(self, key: str, value: bytes, *, lease_id: int = 0) -> int:
        return await self._write((), Put(key, value, lease_id))

    async def compare_and_set(self, key: str, value: bytes, *, revision: int, lease_id: int = 0) -> int:
        return await self._write((Condition(key, revision),), Put(key, value, lease_id))

    async def delete(self, key: str, *, revision: int | None = None) -> None:
        await self._write(() if revision is None else (Condition(key, revision),), Delete(key))

    async def transact(self, transaction: Transaction) -> int:
        revision: int = await self.call("transact", transaction)
        return revision

    async def grant_lease(self, ttl_s: float) -> int:
        lease_id: int = await self.call("grant_lease", ttl_s)
        return lease_id

    async def renew_lease(self, lease_id: int) -> None:
        await self.call("renew_lease", lease_id)

    async def revoke_lease(self, lease_id: int) -> None:
        await self.call("revoke_lease", lease_id)

    async def expire_lease(self, lease_id: int) -> None:
        await self.call("expire_lease", lease_id)

    async def _write(self, conditions: tuple[Condition, ...], write: Write) -> int:
        return await self.transact(Transaction("", conditions, (write,)))


async def serve(store: MetadataStore, more: dict[str, Method] | None = None) -> None:
    """Serve a store over standard input and output, until the input ends. `more` are further methods."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LINE_BYTES_MAX)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, _ = await loop.connect_write_pipe(asyncio.Protocol, sys.stdout)
    service = _Service(store, lambda *line: transport.write(encode(line)), more or {})
    try:
        await service.run(reader)
    finally:
        await service.close()
        transport.close()


class _Service:
    """The requests of one caller."""

    def __init__(self, store: MetadataStore, write: Callable[..., None], more: dict[str, Method]) -> None:
        self._store = store
        self._write = write
        self._more = more
        self._tasks = TaskScope("metadata lines")
        self._turns = asyncio.Semaphore(METADATA_SUBMISSIONS_MAX)
        self._watches: dict[int, asyncio.Task[None]] = {}

    async def run(self, reader: asyncio.StreamReader) -> None:
        self._write(SERVES, "ok", None)
        while line := await reader.readline():
            number, method, arguments, named = decode(line)
            if method == "watch":
                self._watches[number] = self._tasks.spawn(self._watch(number, *arguments), "watch")
            elif method == "unwatch":
                self._watches.pop(*arguments).cancel()
            else:
                await self._turns.acquire()
                call = self._more.get(method) or getattr(self._store, method)
                self._tasks.spawn(self._answer(number, call(*arguments, **named)), method)

    async def close(self) -> None:
        await self._tasks.close()

    async def _answer(self, number: int, call: Awaitable[Any]) -> None:
        try:
            self._write(number, "ok", await call)
        except DanubeError as error:
            self._write(number, "error", type(error).__name__, str(error))
        finally:
            self._turns.release()

    async def _watch(self, number: int, prefix: str) -> None:
        watch = self._store.watch(prefix)
        try:
            async for event in watch:
                self._write(number, "event", event)
        finally:
            await watch.close()
