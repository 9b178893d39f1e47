"""A shared log in etcd: https://etcd.io/docs/v3.5/learning/api/. All reads and transactions of etcd are linearizable.

An entry is put by a transaction that compares `head` with the number before it. Snapshots are put piece by piece, which
count for nothing until `snapshot/current` names them. etcd keeps old versions of keys until it is compacted:
auto-compaction has to be on.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from danube.metadata.shared_log.backend import LogKeys, Pause, Snapshot, number_in, number_of, padded
from danube.metadata.shared_log.etcd.client import EtcdClient, EtcdSettings
from danube.model.errors import MetadataError
from danube.model.limits.metadata import (
    ETCD_ENTRY_BYTES_MAX,
    METADATA_LOG_ENTRIES_KEPT,
    METADATA_LOG_LEAPS_MAX,
    METADATA_LOG_RUN_MAX,
)
from danube.runtime.rng import Rng
from danube.runtime.tasks import TaskScope


class EtcdBackend:
    """A `LogBackend` in etcd."""

    def __init__(self, settings: EtcdSettings, rng: Rng, *, entry_bytes_max: int = ETCD_ENTRY_BYTES_MAX) -> None:
        """Raises SettingsError for settings that cannot work, and without the extra `etcd`."""
        self._client = EtcdClient(settings)
        self._rpc = self._client.rpc
        self._keys = LogKeys(settings.root)
        self.entry_bytes_max = entry_bytes_max
        self._pause = partial(Pause, rng)
        self._tasks = TaskScope("etcd watch")
        self._seen = 0
        self._wakes = False
        """True if `moved` returns for no reason: the watch begins anew, and something may have been missed."""
        self._news = asyncio.Event()
        self._closed = False

    async def connect(self) -> None:
        head, current = self._keys.head, self._keys.current
        for key, value in ((head, b"0"), (current, padded(0).encode())):
            await self._transact([self._is_missing(key)], self._put(key, value), twice=True)
        self._tasks.spawn(self._watch(), "watch")

    async def head(self) -> int:
        return self._saw(await self._number(self._keys.head))

    async def add(self, number: int, entry: bytes) -> bool:
        compare = [self._has_value(self._keys.head, b"%d" % (number - 1)), self._is_missing(self._keys.entry(number))]
        writes = [self._put(self._keys.entry(number), entry), self._put(self._keys.head, b"%d" % number)]
        added = await self._transact(compare, *writes)
        if added:
            self._saw(number)
        return added

    async def read(self, first: int, last: int) -> Sequence[bytes] | None:
        last = min(last, first + METADATA_LOG_RUN_MAX - 1)
        found = await self._range(self._keys.entry(first), self._keys.entry(last + 1))
        entries = [each.value for number, each in enumerate(found, first) if number_in(each.key.decode()) == number]
        return entries or None

    async def moved(self, beyond: int) -> None:
        while self._seen <= beyond and not self._wakes:
            self._check_open()
            self._news.clear()
            await self._news.wait()
        self._wakes = False
        self._check_open()

    async def save_snapshot(self, snapshot: Snapshot) -> None:
        number = snapshot.number
        if not await self._claim(snapshot):
            return
        for index, piece in enumerate(snapshot.pieces[1:], 1):
            await self._client.kv("Put", self._put(self._keys.piece(number, index), piece).request_put)
        newer = self._rpc.Compare(
            key=self._keys.current.encode(),
            target=self._rpc.Compare.VALUE,
            result=self._rpc.Compare.LESS,
            value=padded(number).encode(),
        )
        write = self._put(self._keys.current, padded(number).encode())
        if await self._transact([newer], write, twice=True) or await self.snapshot_number() == number:
            await self._remove_older(number)
        else:
            await self._delete(f"{self._keys.snapshot(number)}/", f"{self._keys.snapshot(number)}0")

    async def snapshot_number(self) -> int:
        return await self._number(self._keys.current)

    async def snapshot(self) -> Snapshot | None:
        for _ in range(METADATA_LOG_LEAPS_MAX):
            number = await self.snapshot_number()
            if number == 0:
                return None
            pieces = await self._pieces(number)
            if await self.snapshot_number() == number:
                return Snapshot(number, pieces)
        raise MetadataError("the snapshot of the shared log is replaced faster than it can be read")

    async def plant(self, snapshot: Snapshot) -> bool:
        number = snapshot.number
        if await self.head() != 0:
            return False
        await self._delete(f"{self._keys.snapshot(number)}/", f"{self._keys.snapshot(number)}0")
        for index, piece in enumerate(snapshot.pieces):
            await self._client.kv("Put", self._put(self._keys.piece(number, index), piece).request_put)
        compare = [self._has_value(self._keys.head, b"0"), self._has_value(self._keys.current, padded(0).encode())]
        writes = [self._put(self._keys.head, b"%d" % number), self._put(self._keys.current, padded(number).encode())]
        return await self._transact(compare, *writes)

    async def close(self) -> None:
        self._closed = True
        self._news.set()
        await self._tasks.close()
        await self._client.close()

    async def _watch(self) -> None:
        """Keep a watch on the head, anew whenever it is lost."""
        pause = self._pause()
        while True:
            with suppress(MetadataError):  # it is said by whoever calls etcd next
                await self._client.watch(self._keys.head.encode(), partial(self._on_values, pause))
            await pause()

    def _on_values(self, pause: Pause, values: Sequence[bytes]) -> None:
        pause.over()
        self._wakes = self._wakes or not values
        for value in values:
            self._saw(number_of(value, "etcd"))
        self._news.set()

    def _saw(self, head: int) -> int:
        self._seen = max(self._seen, head)
        return head

    async def _claim(self, snapshot: Snapshot) -> bool:
        """Put the first piece, unless somebody puts a snapshot with this number already."""
        key = self._keys.piece(snapshot.number, 0)
        return await self._transact([self._is_missing(key)], self._put(key, snapshot.pieces[0]))

    async def _pieces(self, number: int) -> Sequence[bytes]:
        pieces: list[bytes] = []
        while True:
            found = await self._range(self._keys.piece(number, len(pieces)), f"{self._keys.snapshot(number)}0")
            pieces.extend(each.value for each in found)
            if len(found) < METADATA_LOG_RUN_MAX:
                return pieces

    async def _remove_older(self, number: int) -> None:
        await self._delete(self._keys.snapshot(0), self._keys.snapshot(number))
        await self._delete(self._keys.entry(0), self._keys.entry(max(0, number - METADATA_LOG_ENTRIES_KEPT) + 1))

    async def _number(self, key: str) -> int:
        answer = await self._client.kv("Range", self._rpc.RangeRequest(key=key.encode()))
        if not answer.kvs:
            raise MetadataError(f"etcd has no key {key} any more: somebody removed it; restore etcd's data")
        return number_of(answer.kvs[0].value, "etcd")

    async def _range(self, start: str, end: str) -> Sequence[Any]:
        request = self._rpc.RangeRequest(key=start.encode(), range_end=end.encode(), limit=METADATA_LOG_RUN_MAX)
        answer = await self._client.kv("Range", request)
        found: Sequence[Any] = answer.kvs
        return found

    async def _delete(self, start: str, end: str) -> None:
        request = self._rpc.DeleteRangeRequest(key=start.encode(), range_end=end.encode())
        await self._client.kv("DeleteRange", request)

    async def _transact(self, compare: Sequence[Any], *writes: Any, twice: bool = False) -> bool:  # noqa: ANN401 - without types
        """Make the writes if all comparisons hold; answers whether they do. `twice` for what may be made twice."""
        call = self._client.kv if twice else self._client.change
        answer = await call("Txn", self._rpc.TxnRequest(compare=compare, success=writes))
        return bool(answer.succeeded)

    def _put(self, key: str, value: bytes) -> Any:  # noqa: ANN401 - as above
        return self._rpc.RequestOp(request_put=self._rpc.PutRequest(key=key.encode(), value=value))

    def _is_missing(self, key: str) -> Any:  # noqa: ANN401 - as above
        return self._rpc.Compare(
            key=key.encode(), target=self._rpc.Compare.VERSION, result=self._rpc.Compare.EQUAL, version=0
        )

    def _has_value(self, key: str, value: bytes) -> Any:  # noqa: ANN401 - as above
        return self._rpc.Compare(
            key=key.encode(), target=self._rpc.Compare.VALUE, result=self._rpc.Compare.EQUAL, value=value
        )

    def _check_open(self) -> None:
        if self._closed:
            raise MetadataError("the connection to etcd is closed: this broker is going down")
