"""Metadata in a real etcd and a real ZooKeeper that are killed, paused, full or asked by the wrong people."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from danube.metadata.replication.replicated import ReplicatedStore
from danube.metadata.shared_log.backend import LogBackend, Snapshot
from danube.metadata.shared_log.etcd import etcd_backend
from danube.metadata.shared_log.etcd.client import EtcdSettings
from danube.metadata.shared_log.etcd.etcd_backend import EtcdBackend
from danube.metadata.shared_log.sequencer import open_shared_log
from danube.metadata.shared_log.snapshots import SnapshotRule
from danube.metadata.shared_log.zookeeper import zookeeper_backend
from danube.metadata.shared_log.zookeeper.client import ZookeeperSettings
from danube.metadata.shared_log.zookeeper.zookeeper_backend import ZookeeperBackend
from danube.metadata.store import Changed, Entry, Resync
from danube.model.errors import MetadataError, UnavailableError, UnknownOutcomeError
from danube.runtime.clock import SystemClock
from danube.runtime.rng import SystemRng
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.etcd import EtcdServer, find_etcd
from danube.testing.processes.free_ports import free_port
from danube.testing.processes.service import ServiceProcess
from lab.metadata.servers import SERVERS, backend_at, new_root
from tests.cluster.seeing import refusal, take

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(180)]

_WAIT_S = PATIENCE_S
CERTIFICATES = Path(__file__).parents[1] / "unit" / "rpc" / "certificates"


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServiceProcess]:
    """A server of the test's own."""
    try:
        process = SERVERS[request.param](tmp_path / "server")
    except UnavailableError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    with process:
        yield process


@asynccontextmanager
async def members(
    server: ServiceProcess,
    count: int,
    *,
    entries_max: int = 2_000,
    wrap: Callable[[LogBackend], LogBackend] | None = None,
) -> AsyncIterator[Sequence[ReplicatedStore]]:
    """So many members on one root."""
    async with AsyncExitStack() as stack:
        root, stores = new_root(), []
        for _ in range(count):
            rng = SystemRng()
            backend: LogBackend = backend_at(server.name, server.address, root, rng)
            backend = wrap(backend) if wrap else backend
            rule = SnapshotRule(rng, entries_max=entries_max)
            stores.append(await open_shared_log(backend, SystemClock(), rng, snapshots=rule))
            stack.push_async_callback(stores[-1].close)
        yield stores


class Writers:
    """They write until told to stop, each key once, and remember what they were told."""

    def __init__(self, stores: Sequence[ReplicatedStore]) -> None:
        self._stores = stores
        self._stopped = False
        self.acknowledged: dict[str, int] = {}
        self.refused: set[str] = set()
        self._news = asyncio.Condition()

    async def write(self, store: ReplicatedStore, name: int) -> None:
        number = 0
        while not self._stopped:
            number += 1
            key = f"/written/{name}/{number}"
            try:
                self.acknowledged[key] = await store.put(key, b"x")
            except UnknownOutcomeError:
                continue
            except MetadataError:
                self.refused.add(key)
            async with self._news:
                self._news.notify_all()

    async def see(self, more: int) -> None:
        """Return when so many more were acknowledged."""
        enough = len(self.acknowledged) + more
        async with self._news:
            await self._news.wait_for(lambda: len(self.acknowledged) >= enough)

    async def during(self, faults: Callable[["Writers"], Awaitable[None]]) -> None:
        """Write while the faults happen; then everything acknowledged must be there, once, for all."""
        tasks = [asyncio.create_task(self.write(store, name)) for name, store in enumerate(self._stores)]
        try:
            async with asyncio.timeout(_WAIT_S):
                await self.see(20)
                await faults(self)
                await self.see(20)
        finally:
            self._stopped = True
            await asyncio.gather(*tasks)
        async with asyncio.timeout(_WAIT_S):
            await self.judge()

    async def judge(self) -> None:
        pictures = [await everything(store) for store in self._stores]
        assert all(picture == pictures[0] for picture in pictures)
        entries = {entry.key: entry for entry in pictures[0]}
        assert {key: entries[key].revision for key in self.acknowledged} == self.acknowledged
        assert all(entry.created_revision == entry.revision for entry in pictures[0])
        assert not self.refused & entries.keys()


async def everything(store: ReplicatedStore) -> Sequence[Entry]:
    """All that it has, once its connection is back."""
    while True:
        try:
            return await store.list("/", linearizable=True)
        except MetadataError:
            await asyncio.sleep(0.05)


async def test_a_server_that_is_killed_in_the_middle_of_writes_loses_nothing(server: ServiceProcess) -> None:
    async def kill_twice(writers: Writers) -> None:
        for _ in range(2):
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            await writers.see(10)

    async with members(server, 2) as stores:
        await Writers(stores).during(kill_twice)


@pytest.mark.parametrize("pause_s", [1.0, 11.0])
async def test_a_server_that_stands_still_loses_nothing(server: ServiceProcess, pause_s: float) -> None:
    """For a moment, and for longer than calls are waited for and sessions live."""

    async def pause(_writers: Writers) -> None:
        server.pause()
        try:
            await asyncio.sleep(pause_s)  # the pause is what is tested
        finally:
            server.resume()

    async with members(server, 2) as stores:
        await Writers(stores).during(pause)


async def test_what_one_member_writes_is_told_to_another_at_once(server: ServiceProcess) -> None:
    """Not when it looks by itself, which is every five seconds: a watch that is taken for alive would cost that."""
    async with asyncio.timeout(_WAIT_S), members(server, 2) as (writer, reader):
        watch = reader.watch("/a")
        await take(watch, 1)
        for number in range(200):
            key = f"/a/{number}"
            revision = await writer.put(key, b"")
            assert await take(watch, 1) == [Changed(Entry(key, b"", revision, revision))]


async def test_nothing_that_may_be_stale_is_answered_while_the_server_is_away(server: ServiceProcess) -> None:
    async with members(server, 1) as (store,):
        await store.put("/a", b"")
        await asyncio.to_thread(server.kill)
        assert await store.get("/a") is not None
        with pytest.raises(MetadataError):
            await store.get("/a", linearizable=True)
        with pytest.raises(MetadataError):
            await store.put("/b", b"")
        await asyncio.to_thread(server.start)
        async with asyncio.timeout(_WAIT_S):
            while not await answers(store):
                pass


async def answers(store: ReplicatedStore) -> bool:
    """Whether it does; after a moment if it does not, as its connection comes back by itself."""
    try:
        return await store.get("/a", linearizable=True) is not None
    except MetadataError:
        await asyncio.sleep(0.05)
        return False


async def test_a_member_that_was_away_for_long_gets_on_by_a_snapshot(
    server: ServiceProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (etcd_backend, zookeeper_backend):
        monkeypatch.setattr(module, "METADATA_LOG_ENTRIES_KEPT", 3)
    gates: list[Gate] = []

    def gated(backend: LogBackend) -> LogBackend:
        gates.append(Gate(backend))
        return gates[-1]

    async with asyncio.timeout(_WAIT_S), members(server, 2, entries_max=20, wrap=gated) as (store, away):
        watch = away.watch("/written")
        await take(watch, 1)
        gates[1].open.clear()
        saved = gates[0].saved
        for number in range(100):
            await store.put(f"/written/{number}", bytes(1_000))
        await saved.wait()
        gates[1].open.set()
        assert await away.list("/", linearizable=True) == await store.list("/")
        assert await take(watch, 1) == [Resync()]
        assert (await gates[0].read(1, 1)) is None


class Gate:
    """A backend that can be shut: who is behind it hears nothing meanwhile."""

    def __init__(self, backend: LogBackend) -> None:
        self._backend = backend
        self.open = asyncio.Event()
        self.open.set()
        self.saved = asyncio.Event()
        self.entry_bytes_max = 64 * 1024
        self.connect, self.close = backend.connect, backend.close
        self.snapshot_number = backend.snapshot_number

    async def head(self) -> int:
        await self.open.wait()
        return await self._backend.head()

    async def add(self, number: int, entry: bytes) -> bool:
        await self.open.wait()
        return await self._backend.add(number, entry)

    async def read(self, first: int, last: int) -> Sequence[bytes] | None:
        await self.open.wait()
        return await self._backend.read(first, last)

    async def moved(self, beyond: int) -> None:
        await self.open.wait()
        await self._backend.moved(beyond)

    async def save_snapshot(self, snapshot: Snapshot) -> None:
        await self._backend.save_snapshot(snapshot)
        self.saved.set()

    async def snapshot(self) -> Snapshot | None:
        await self.open.wait()
        return await self._backend.snapshot()


async def test_a_restored_older_copy_of_the_service_stops_those_who_know_better(
    server: ServiceProcess, tmp_path: Path
) -> None:
    async with members(server, 1) as (store,):
        await store.put("/a", b"")
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(copy_folder, server.folder / "data", tmp_path / "copy")
        await asyncio.to_thread(server.start)
        async with asyncio.timeout(_WAIT_S):
            while not await answers(store):
                pass
            await store.put("/b", b"")
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(copy_folder, tmp_path / "copy", server.folder / "data")
            await asyncio.to_thread(server.start)
            # ZooKeeper lets nobody in who has seen more than it has; etcd does, and then it is for us to notice
            refusals = r"restored from an older copy|is not connected|does not answer"
            with pytest.raises(MetadataError, match=refusals):
                while not await answers(store):
                    await store.get("/a", linearizable=server.name == "zookeeper")


def copy_folder(source: Path, target: Path) -> None:
    subprocess.run(["rm", "-rf", str(target)], check=True)
    subprocess.run(["cp", "-r", str(source), str(target)], check=True)


async def test_an_etcd_whose_quota_is_used_up_refuses_changes_and_says_what_to_do(tmp_path: Path) -> None:
    async with etcd_server(tmp_path, "--quota-backend-bytes=1000000") as server, members(server, 1) as (store,):
        with pytest.raises(MetadataError, match="quota is used up") as refused:
            for number in range(200):
                await store.put(f"/a/{number}", os.urandom(20_000))
        made = len(await store.list("/a", linearizable=True))
        unknown = isinstance(refused.value, UnknownOutcomeError)  # where a slow disk held up an attempt before
        assert made == number or (unknown and made == number + 1)


async def test_etcd_with_users_lets_in_who_has_the_password_and_nobody_else(tmp_path: Path) -> None:
    async with etcd_server(tmp_path) as server:
        for command in ("user add root:secret", "user grant-role root root", "auth enable"):
            await asyncio.to_thread(etcdctl, server, *command.split())
        settings = EtcdSettings(endpoints=[server.address], user="root", password="secret")
        store = await open_shared_log(EtcdBackend(settings, SystemRng()), SystemClock(), SystemRng())
        await store.put("/a", b"")
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)  # its simple tokens are gone with it
        async with asyncio.timeout(_WAIT_S):
            while not await answers(store):
                pass
        await store.put("/a", b"again")
        await store.close()
        for user, password in (("root", "wrong"), ("", "")):
            settings = EtcdSettings(endpoints=[server.address], user=user, password=password)
            backend = partial(EtcdBackend, settings, SystemRng())
            assert "wrong" not in await refusal(backend, "check the user and the password")


async def test_etcd_by_tls_lets_in_who_has_a_certificate_and_is_not_taken_for_another(tmp_path: Path) -> None:
    pem = {path.name: path for path in CERTIFICATES.iterdir()}
    flags = [f"--trusted-ca-file={pem['ca.pem']}", "--client-cert-auth"]
    flags += [f"--cert-file={pem['server.pem']}", f"--key-file={pem['server.key']}"]
    ca, certificate, key = (pem[name].read_bytes() for name in ("ca.pem", "client.pem", "client.key"))
    async with etcd_server(tmp_path, *flags, scheme="https") as server:
        ours = EtcdSettings(endpoints=[server.address], tls=True, ca=ca, certificate=certificate, key=key)
        store = await open_shared_log(EtcdBackend(ours, SystemRng()), SystemClock(), SystemRng())
        await store.put("/a", b"")
        await store.close()
        for other in (
            replace(ours, ca=None),
            replace(ours, certificate=None, key=None),
            EtcdSettings(endpoints=[server.address]),
        ):
            with pytest.raises(MetadataError, match="does not answer"):
                await open_shared_log(EtcdBackend(other, SystemRng()), SystemClock(), SystemRng())


async def test_the_next_endpoint_of_etcd_is_used_when_one_does_not_answer(tmp_path: Path) -> None:
    async with etcd_server(tmp_path) as server:
        settings = EtcdSettings(endpoints=[f"127.0.0.1:{free_port()}", server.address])
        store = await open_shared_log(EtcdBackend(settings, SystemRng()), SystemClock(), SystemRng())
        await store.put("/a", b"")
        await store.close()


@asynccontextmanager
async def etcd_server(folder: Path, *flags: str, scheme: str = "http") -> AsyncIterator[EtcdServer]:
    try:
        server = await asyncio.to_thread(EtcdServer, folder / "server", flags=flags, scheme=scheme)
    except UnavailableError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    try:
        await asyncio.to_thread(server.start)
        yield server
    finally:
        await asyncio.to_thread(server.kill)


def etcdctl(server: ServiceProcess, *words: str) -> None:
    binary = str(Path(find_etcd()).with_name("etcdctl"))
    subprocess.run(
        [binary, f"--endpoints={server.address}", f"--command-timeout={PATIENCE_S:g}s", *words],
        check=True,
        capture_output=True,
        timeout=PATIENCE_S,
    )


@pytest.mark.parametrize("server", ["zookeeper"], indirect=True)
async def test_what_one_user_of_zookeeper_keeps_is_closed_to_others(server: ServiceProcess) -> None:
    root = new_root()
    mine = ZookeeperSettings(hosts=[server.address], root=root, user="danube", password="secret")
    store = await open_shared_log(ZookeeperBackend(mine, SystemRng()), SystemClock(), SystemRng())
    await store.put("/a", b"")
    for user, password in (("danube", "wrong"), ("", "")):
        other = ZookeeperSettings(hosts=[server.address], root=root, user=user, password=password)
        backend = partial(ZookeeperBackend, other, SystemRng())
        assert "wrong" not in await refusal(backend, "check the user and the password")
    await store.close()
