"""A metadata store over lines: a member in a process of its own serves it, the process that judges it calls it.

Each line is JSON. A request is `[number, method, arguments]`, its answer `[number, "ok", value]` or `[number, "error",
class, sentence]`. A watch is the request `watch`; its events come as `[number, "event", event]`, and `unwatch` with
that number ends it. A member says `[0, "ok", null]` when it serves, and ends when its standard input does. One that has
to find others first may say `[-1, "ok", null]` before, when it can be found itself.

Bytes are carried as text, one character each. Between two processes of one test this needs no authentication.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from danube.metadata.store import (
    Changed,
    Condition,
    Delete,
    DeletePrefix,
    Entry,
    MetadataStore,
    Put,
    Removed,
    Resync,
    SnapshotEnd,
    Transaction,
    WatchEvent,
    Write,
)
from danube.model.errors import DanubeError
from danube.model.limits.metadata import METADATA_SUBMISSIONS_MAX, METADATA_VALUE_BYTES_MAX
from danube.runtime.tasks import TaskScope

Line = list[Any]
LINE_BYTES_MAX = 16 * METADATA_VALUE_BYTES_MAX
"""Of one line: a value of the largest size, escaped, and much around it."""

SERVES, OPEN = 0, -1
"""Numbers of what a member says without being asked."""

Method = Callable[..., Awaitable[Any]]


async def serve(store: MetadataStore, more: dict[str, Method] | None = None) -> None:
    """Serve a store over standard input and output, until the input ends. `more` are further methods, of plain data."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LINE_BYTES_MAX)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, _ = await loop.connect_write_pipe(asyncio.Protocol, sys.stdout)
    service = _Service(store, lambda line: transport.write(encode(line)), more or {})
    try:
        await service.run(reader)
    finally:
        await service.close()
        transport.close()


def encode(line: Sequence[Any]) -> bytes:
    """A line, with its end."""
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def pack_entry(entry: Entry | None) -> Line | None:
    """An entry as plain data."""
    if entry is None:
        return None
    value = entry.value.decode("latin-1")
    return [entry.key, value, entry.created_revision, entry.revision, entry.lease_id]


def unpack_entry(packed: Line | None) -> Entry | None:
    """What `pack_entry` was given."""
    return None if packed is None else _entry(packed)


def pack_event(event: WatchEvent) -> Line:
    """A watch's event as plain data."""
    match event:
        case Changed(entry):
            return ["changed", pack_entry(entry)]
        case Removed(key, revision):
            return ["removed", key, revision]
        case SnapshotEnd(revision):
            return ["snapshot", revision]
        case Resync():
            return ["resync"]


def unpack_event(packed: Line) -> WatchEvent:
    """What `pack_event` was given."""
    kind, *fields = packed
    if kind == "changed":
        return Changed(_entry(fields[0]))
    if kind == "removed":
        return Removed(*fields)
    return SnapshotEnd(*fields) if kind == "snapshot" else Resync()


def pack_transaction(transaction: Transaction) -> Line:
    """A transaction as plain data."""
    conditions = [[condition.key, condition.revision] for condition in transaction.conditions]
    return [transaction.transaction_id, conditions, [_pack_write(write) for write in transaction.writes]]


def unpack_transaction(packed: Line) -> Transaction:
    """What `pack_transaction` was given."""
    transaction_id, conditions, writes = packed
    return Transaction(
        transaction_id,
        tuple(Condition(key, revision) for key, revision in conditions),
        tuple(_unpack_write(*write) for write in writes),
    )


class _Service:
    """The requests of one caller."""

    def __init__(self, store: MetadataStore, write: Callable[[Line], None], more: dict[str, Method]) -> None:
        self._store = store
        self._write = write
        self._tasks = TaskScope("metadata lines")
        self._turns = asyncio.Semaphore(METADATA_SUBMISSIONS_MAX)
        self._watches: dict[int, asyncio.Task[None]] = {}
        self._methods: dict[str, Method] = {**_methods(store), **more}

    async def run(self, reader: asyncio.StreamReader) -> None:
        self._write([SERVES, "ok", None])
        while line := await reader.readline():
            number, method, arguments = json.loads(line)
            if method == "watch":
                self._watches[number] = self._tasks.spawn(self._watch(number, *arguments), "watch")
            elif method == "unwatch":
                self._watches.pop(*arguments).cancel()
            else:
                await self._turns.acquire()
                self._tasks.spawn(self._answer(number, method, arguments), method)

    async def close(self) -> None:
        await self._tasks.close()

    async def _answer(self, number: int, method: str, arguments: Line) -> None:
        try:
            self._write([number, "ok", await self._methods[method](*arguments)])
        except DanubeError as error:
            self._write([number, "error", type(error).__name__, str(error)])
        finally:
            self._turns.release()

    async def _watch(self, number: int, prefix: str) -> None:
        watch = self._store.watch(prefix)
        try:
            async for event in watch:
                self._write([number, "event", pack_event(event)])
        finally:
            await watch.close()


def _methods(store: MetadataStore) -> dict[str, Method]:
    async def get(key: str, linearizable: bool) -> Line | None:  # noqa: FBT001 - as it comes in a line
        return pack_entry(await store.get(key, linearizable=linearizable))

    async def list_below(prefix: str, linearizable: bool) -> list[Line | None]:  # noqa: FBT001 - the same
        return [pack_entry(entry) for entry in await store.list(prefix, linearizable=linearizable)]

    async def transact(packed: Line) -> int:
        return await store.transact(unpack_transaction(packed))

    return {
        "get": get,
        "list": list_below,
        "transact": transact,
        "grant_lease": store.grant_lease,
        "renew_lease": store.renew_lease,
        "revoke_lease": store.revoke_lease,
    }


def _entry(packed: Line) -> Entry:
    key, value, created_revision, revision, lease_id = packed
    return Entry(key, value.encode("latin-1"), created_revision, revision, lease_id)


def _pack_write(write: Write) -> Line:
    match write:
        case Put(key, value, lease_id):
            return ["put", key, value.decode("latin-1"), lease_id]
        case Delete(key):
            return ["delete", key]
        case DeletePrefix(prefix):
            return ["delete_prefix", prefix]


def _unpack_write(kind: str, key: str, value: str = "", lease_id: int = 0) -> Write:
    if kind == "put":
        return Put(key, value.encode("latin-1"), lease_id)
    return Delete(key) if kind == "delete" else DeletePrefix(key)
