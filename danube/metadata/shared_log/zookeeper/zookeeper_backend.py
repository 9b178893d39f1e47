"""A shared log in ZooKeeper: https://zookeeper.apache.org/doc/current/zookeeperInternals.html.

An entry is created by a multi that sets `head`, if that has the version at which it held the number before. Reads go to
the server that we are connected with, which may be behind. So a read that must not miss anything comes after a
transaction that only checks: it is agreed on by a majority, while `sync` asks a leader that may not know that it is
none any more. Requests take up to 1 MiB (`jute.maxbuffer`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from danube.metadata.shared_log.backend import LogKeys, Pause, Snapshot, number_of, padded
from danube.metadata.shared_log.zookeeper.client import ZookeeperClient, ZookeeperSettings
from danube.model.errors import MetadataError, UnknownOutcomeError
from danube.model.limits.metadata import (
    METADATA_LOG_DELETES_MAX,
    METADATA_LOG_ENTRIES_KEPT,
    METADATA_LOG_LEAPS_MAX,
    METADATA_LOG_RUN_MAX,
    ZOOKEEPER_ENTRY_BYTES_MAX,
)
from danube.runtime.rng import Rng

T = TypeVar("T")


class ZookeeperBackend:
    """A `LogBackend` in ZooKeeper."""

    def __init__(
        self, settings: ZookeeperSettings, rng: Rng, *, entry_bytes_max: int = ZOOKEEPER_ENTRY_BYTES_MAX
    ) -> None:
        """Raises SettingsError for settings that cannot work, and without the extra `zookeeper`."""
        self._keys = LogKeys(settings.root)
        self._client = ZookeeperClient(settings, self._connected_again)
        self._errors = self._client.errors
        self._rng = rng
        self.entry_bytes_max = entry_bytes_max
        self._version = (-1, -1)
        """A number that `head` had, and the node's version then."""
        self._seen = 0
        self._watch: asyncio.Event | None = None
        """Our watch in ZooKeeper; set when it told of a change, after which there is none."""
        self._arming = asyncio.Lock()
        self._news = asyncio.Event()
        self._closed = False

    async def connect(self) -> None:
        await self._client.connect()
        for path in (self._keys.log, self._keys.snapshots):
            await _certainly(partial(self._client.call, _do("ensure_path", path)))
        await self._ensure(self._keys.head, b"0")
        await self._ensure(self._keys.current, padded(0).encode())

    async def head(self) -> int:
        return await _certainly(self._head)

    async def add(self, number: int, entry: bytes) -> bool:
        if self._version[0] != number - 1:
            await _certainly(self._read_head)
        if self._version[0] != number - 1:
            return False
        create = ("create", self._keys.entry(number), entry)
        move = ("set_data", self._keys.head, b"%d" % number, self._version[1])
        created, moved = await self._client.call(_together(create, move))
        refusals = [each for each in (created, moved) if isinstance(each, Exception)]
        if refusals:
            return self._refused(refusals)
        self._saw(number, moved.version)
        return True

    async def read(self, first: int, last: int) -> Sequence[bytes] | None:
        last = max(first, min(last, first + METADATA_LOG_RUN_MAX - 1, self._seen))
        paths = [self._keys.entry(number) for number in range(first, last + 1)]
        try:
            found = await _certainly(partial(self._client.calls, [_do("get", path) for path in paths]))
        except self._errors.NoNodeError:
            if last == first:
                return None
            return await self.read(first, first + (last - first) // 2)  # from some number on there is nothing (yet)
        return [value for value, _ in found]

    async def moved(self, beyond: int) -> None:
        pause = Pause(self._rng)
        while not self._closed:
            self._news.clear()
            try:
                await self._arm()
            except MetadataError:
                await pause()
                continue
            if self._seen > beyond:
                return
            await self._news.wait()
        raise MetadataError("the connection to ZooKeeper is closed: this broker is going down")

    async def save_snapshot(self, snapshot: Snapshot) -> None:
        number = snapshot.number
        try:
            await self._create(self._keys.snapshot(number), b"")
        except self._errors.NodeExistsError:
            return  # somebody else saves one with this number
        for index, piece in enumerate(snapshot.pieces):
            await self._create(self._keys.piece(number, index), piece)
        if await self._make_current(number):
            await self._remove_older(number)
        else:
            await self._remove_snapshot(number)

    async def snapshot_number(self) -> int:
        value, _ = await self._get(self._keys.current)
        return number_of(value, "ZooKeeper")

    async def snapshot(self) -> Snapshot | None:
        for _ in range(METADATA_LOG_LEAPS_MAX):
            number = await self.snapshot_number()
            if number == 0:
                return None
            try:
                return Snapshot(number, await self._pieces(number))
            except self._errors.NoNodeError:
                continue
        raise MetadataError("the snapshot of the shared log is replaced faster than it can be read")

    async def plant(self, snapshot: Snapshot) -> bool:
        number, above = snapshot.number, self._keys.snapshot(snapshot.number)
        (_, head), (_, current) = await self._get(self._keys.head), await self._get(self._keys.current)
        if await self.head() != 0 or await self.snapshot_number() != 0:
            return False
        await _certainly(partial(self._client.call, _do("ensure_path", above)))
        await self._remove([f"{above}/{name}" for name in sorted(await self._children(above))])
        for index, piece in enumerate(snapshot.pieces):
            await self._create(self._keys.piece(number, index), piece)
        move = ("set_data", self._keys.head, b"%d" % number, head.version)
        name = ("set_data", self._keys.current, padded(number).encode(), current.version)
        answers = await self._client.call(_together(move, name))
        return not any(isinstance(each, Exception) for each in answers)

    async def close(self) -> None:
        self._closed = True
        self._news.set()
        await self._client.close()

    # The head

    async def _head(self) -> int:
        check = _together(("check", self._keys.head, -1))
        (checked,), (value, stat) = await self._client.calls([check, _do("get", self._keys.head)])
        if isinstance(checked, Exception):
            raise self._gone(self._keys.head) from checked
        return self._saw(number_of(value, "ZooKeeper"), stat.version)

    async def _read_head(self) -> None:
        value, stat = await self._get(self._keys.head)
        self._saw(number_of(value, "ZooKeeper"), stat.version)

    async def _arm(self) -> None:
        """Have a watch on the head; ZooKeeper tells of one change for each."""
        async with self._arming:
            if self._watch is not None and not self._watch.is_set():
                return
            # The change is told by another thread than the answer, and may come here before it.
            watch = asyncio.Event()
            told = partial(self._client.tell, partial(self._changed, watch))
            value, stat = await self._client.call(
                lambda kazoo: kazoo.get_async(self._keys.head, watch=lambda _event: told())
            )
            self._watch = watch
            self._saw(number_of(value, "ZooKeeper"), stat.version)

    def _changed(self, watch: asyncio.Event) -> None:
        watch.set()
        self._news.set()

    def _connected_again(self) -> None:
        """The watch went with the connection, and what it would have told may be missed."""
        self._watch = None
        self._news.set()

    def _saw(self, head: int, version: int) -> int:
        self._version = (head, version)
        self._seen = max(self._seen, head)
        return head

    def _refused(self, refusals: Sequence[Exception]) -> bool:
        self._version = (-1, -1)
        expected = (self._errors.NodeExistsError, self._errors.BadVersionError, self._errors.RolledBackError)
        for refusal in refusals:
            if isinstance(refusal, self._errors.NoNodeError):
                raise self._gone(self._keys.head) from refusal
            if not isinstance(refusal, (*expected, self._errors.RuntimeInconsistency)):
                raise MetadataError(f"ZooKeeper refused an entry: {type(refusal).__name__}") from refusal
        return False

    # Snapshots

    async def _make_current(self, number: int) -> bool:
        """Set `current`, unless a newer one is."""
        for _ in range(METADATA_LOG_LEAPS_MAX):
            value, stat = await self._get(self._keys.current)
            if number_of(value, "ZooKeeper") >= number:
                return number_of(value, "ZooKeeper") == number
            try:
                await self._client.call(_do("set", self._keys.current, padded(number).encode(), stat.version))
            except (self._errors.BadVersionError, UnknownOutcomeError):
                continue
            return True
        raise MetadataError("others save snapshots of the shared log all the time")

    async def _pieces(self, number: int) -> Sequence[bytes]:
        above = self._keys.snapshot(number)
        names = sorted(await self._children(above))
        pieces: list[bytes] = []
        for start in range(0, len(names), METADATA_LOG_RUN_MAX):
            paths = [f"{above}/{name}" for name in names[start : start + METADATA_LOG_RUN_MAX]]
            found = await _certainly(partial(self._client.calls, [_do("get", path) for path in paths]))
            pieces.extend(value for value, _ in found)
        if await self.snapshot_number() != number:
            raise self._errors.NoNodeError
        return pieces

    async def _remove_older(self, number: int) -> None:
        for name in await self._children(self._keys.snapshots):
            if name.isdigit() and int(name) < number:
                await self._remove_snapshot(int(name))
        cut = number - METADATA_LOG_ENTRIES_KEPT
        old = [name for name in await self._children(self._keys.log) if name.isdigit() and int(name) <= cut]
        await self._remove([f"{self._keys.log}/{name}" for name in sorted(old)])

    async def _remove_snapshot(self, number: int) -> None:
        above = self._keys.snapshot(number)
        names = await self._children(above)
        await self._remove([f"{above}/{name}" for name in sorted(names)])
        await self._remove([above])

    # Nodes

    async def _get(self, path: str) -> Any:  # noqa: ANN401 - as above
        try:
            return await _certainly(partial(self._client.call, _do("get", path)))
        except self._errors.NoNodeError as error:
            raise self._gone(path) from error

    async def _children(self, path: str) -> Sequence[str]:
        names: Sequence[str] = await _certainly(partial(self._client.call, _do("get_children", path)))
        return names

    async def _create(self, path: str, value: bytes) -> None:
        await self._client.call(_do("create", path, value))

    async def _ensure(self, path: str, value: bytes) -> None:
        try:
            await _certainly(partial(self._create, path, value))
        except self._errors.NodeExistsError:
            return

    async def _remove(self, paths: Sequence[str]) -> None:
        """Remove these nodes, and take no offence at those that are gone."""
        for start in range(0, len(paths), METADATA_LOG_DELETES_MAX):
            some = paths[start : start + METADATA_LOG_DELETES_MAX]
            await self._client.calls([_do("delete", path) for path in some], ignoring=self._errors.NoNodeError)

    def _gone(self, path: str) -> MetadataError:
        return MetadataError(f"ZooKeeper has no node {path} any more: somebody removed it; restore ZooKeeper's data")


async def _certainly(call: Callable[[], Awaitable[T]]) -> T:
    """Repeat a call that may be made twice when its outcome is unknown. Raises MetadataError after that."""
    try:
        return await call()
    except UnknownOutcomeError:
        pass
    try:
        return await call()
    except UnknownOutcomeError as error:
        raise MetadataError(str(error)) from error


def _do(what: str, path: str, *arguments: object) -> Callable[[Any], Any]:
    """One of kazoo's calls for a node, started."""
    return lambda kazoo: getattr(kazoo, f"{what}_async")(path, *arguments)


def _together(*steps: tuple[object, ...]) -> Callable[[Any], Any]:
    """Several changes, each with its arguments, in one transaction of ZooKeeper; its answers are theirs."""

    def start(kazoo: Any) -> Any:  # noqa: ANN401 - kazoo has no types
        multi = kazoo.transaction()
        for what, *arguments in steps:
            getattr(multi, str(what))(*arguments)
        return multi.commit_async()

    return start
