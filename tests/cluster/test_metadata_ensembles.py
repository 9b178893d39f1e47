"""Metadata in etcd and ZooKeeper as people run them: three servers, one of which leads and dies; TLS, users, roles."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from danube.metadata.replication import replicated
from danube.metadata.replication.replicated import ReplicatedStore
from danube.metadata.shared_log import appender
from danube.metadata.shared_log.etcd.client import EtcdSettings
from danube.metadata.shared_log.etcd.etcd_backend import EtcdBackend
from danube.metadata.shared_log.sequencer import open_shared_log
from danube.metadata.shared_log.zookeeper.client import ZookeeperSettings
from danube.metadata.shared_log.zookeeper.zookeeper_backend import ZookeeperBackend
from danube.metadata.store import Changed, Put, Removed, SnapshotEnd, Transaction
from danube.model.errors import MetadataError, SettingsError, UnavailableError, UnknownOutcomeError
from danube.model.limits.metadata import METADATA_ATTEMPT_TIMEOUT_S
from danube.runtime.clock import SystemClock
from danube.runtime.rng import SystemRng
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.etcd import EtcdServer, find_etcd
from danube.testing.processes.free_ports import free_port
from danube.testing.processes.zookeeper import ZookeeperServer, ZookeeperTls
from lab.metadata.load import Life
from lab.metadata.nemesis import Cluster, FaultKind
from lab.metadata.round import Environment, Measure, Round
from lab.metadata.servers import SERVERS, backend_among, new_root
from tests.cluster.ensembles import Ensemble
from tests.cluster.seeing import refusal, take

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(240)]

T = TypeVar("T")
_WAIT_S = PATIENCE_S
_SLACK_S = 20.0
"""For a machine that is busy with other tests. What is never answered is waited for in vain for longer."""
_MEMBERS = 3
_ROUNDS_MAX = 3
"""Until one has a history that can be judged: a machine that stands still leaves many outcomes unknown."""
_TTLS_S = (6.0, 12.0, 24.0)
"""Of leases; another one where the machine stood still for longer than the first lives."""
CERTIFICATES = Path(__file__).parents[1] / "unit" / "rpc" / "certificates"
CA, CERTIFICATE, KEY = (str(CERTIFICATES / name) for name in ("ca.pem", "client.pem", "client.key"))


@pytest.fixture(scope="module", params=SERVERS)
def started(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """Three servers for the tests of this module."""
    with or_skip(lambda: Ensemble(request.param, tmp_path_factory.mktemp(request.param))) as ensemble:
        yield ensemble


@pytest.fixture
def ensemble(started: Ensemble) -> Iterator[Ensemble]:
    """The three, all of which run."""
    started.start()
    yield started
    for server in started.servers:
        server.resume()


def or_skip(make: Callable[[], T]) -> T:
    """What is made; skips the test where the service cannot be had, which is a failure in CI."""
    try:
        return make()
    except UnavailableError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@asynccontextmanager
async def members(ensemble: Ensemble, *places: Sequence[str]) -> AsyncIterator[Sequence[ReplicatedStore]]:
    """Members on one root, one for each of these places; without any: three, each of which knows all servers."""
    async with AsyncExitStack() as stack:
        root, stores = new_root(), []
        for addresses in places or [ensemble.addresses] * _MEMBERS:
            rng = SystemRng()
            backend = backend_among(ensemble.name, addresses, root, rng)
            stores.append(await open_shared_log(backend, SystemClock(), rng))
            stack.push_async_callback(stores[-1].close)
        yield stores


@asynccontextmanager
async def running(work: Coroutine[Any, Any, T]) -> AsyncIterator["asyncio.Task[T]"]:
    """Its task, which is cancelled if it has not ended behind."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


# A leader that dies


class LedCluster(Cluster):
    """Members in this process; all it can suffer is the loss of the service's leader."""

    def __init__(self, ensemble: Ensemble, stores: Sequence[ReplicatedStore], *, dies: bool) -> None:
        """A leader that does not die stands still until another one leads, and goes on as if nothing had been."""
        self._ensemble = ensemble
        self._lives = [Life(member, 0, store) for member, store in enumerate(stores)]
        self._dies = dies

    async def transfer(self) -> None:
        await asyncio.to_thread(self._lose_leader)

    def _lose_leader(self) -> None:
        leader = self._ensemble.leader()
        if self._dies:
            leader.kill()
            self._ensemble.leader()
        else:
            leader.pause()
            self._ensemble.leader(besides=leader)
            leader.resume()

    def members(self) -> Sequence[int]:
        return range(len(self._lives))

    def faults(self) -> Sequence[FaultKind]:
        return (FaultKind.TRANSFER,)

    def life(self, member: int) -> Life | None:
        return self._lives[member]


@pytest.mark.parametrize(
    "dies",
    [pytest.param(True, id="kill -9"), pytest.param(False, id="stands still", marks=pytest.mark.nightly)],
)
async def test_a_leader_lost_in_the_middle_of_writes_breaks_no_promise(ensemble: Ensemble, dies: bool) -> None:
    """One order explains all answers, watches have no gap, leases end when they should: see `lab.metadata.judge`."""
    async with members(ensemble) as stores:
        cluster = LedCluster(ensemble, stores, dies=dies)
        environment = Environment(store=ensemble.name, cluster=cluster, measure=Measure(faults=1, clients=4))
        for seed in range(1, _ROUNDS_MAX + 1):
            result = await Round(environment, seed).run()
            assert result.what == ()
            if not result.undecided:
                break
            await asyncio.to_thread(ensemble.start)
    assert result.undecided == ()
    assert min(result.changes, result.watch_events) > 10


@pytest.mark.nightly
async def test_a_lease_that_is_renewed_outlives_the_leader(ensemble: Ensemble) -> None:
    for ttl_s in _TTLS_S:
        async with asyncio.timeout(_WAIT_S), members(ensemble) as (holder, other, _):
            if await outlives_the_leader(ensemble, holder, other, ttl_s):
                return
        await asyncio.to_thread(ensemble.start)
    pytest.fail("no lease could be renewed in time")


async def outlives_the_leader(
    ensemble: Ensemble, holder: ReplicatedStore, other: ReplicatedStore, ttl_s: float
) -> bool:
    """Whether a lease does that its holder could renew in time; False if none of the renewals came through so long."""
    held = Held(holder, await holder.grant_lease(ttl_s), ttl_s)
    revision = await holder.put("/leased/key", b"", lease_id=held.lease_id)
    await other.get("/leased/key", linearizable=True)
    watch = other.watch("/leased")
    assert (await take(watch, 2))[1] == SnapshotEnd(revision)
    async with running(held.renew()) as renewing, running(take(watch, 1)) as told:
        leader = await asyncio.to_thread(ensemble.leader)
        await asyncio.to_thread(leader.kill)
        await asyncio.wait([told, renewing], timeout=1.5 * ttl_s, return_when=asyncio.FIRST_COMPLETED)
        if told.done() or renewing.done():
            assert not held.is_live
            return False
        there = await other.get("/leased/key", linearizable=True)
        if there is None:
            assert not held.is_live
            return False
        await holder.revoke_lease(held.lease_id)
        assert [type(event) for event in await told] == [Removed]
    return True


class Held:
    """A lease, and when it was renewed."""

    def __init__(self, store: ReplicatedStore, lease_id: int, ttl_s: float) -> None:
        """It was granted just now; its time began before, at the earliest."""
        self._store = store
        self.lease_id = lease_id
        self._ttl_s = ttl_s
        self._until_s = 0.0

    @property
    def is_live(self) -> bool:
        """Whether its time has surely not run out since the last renewal that was answered."""
        return asyncio.get_running_loop().time() < self._until_s

    async def renew(self) -> None:
        """Until cancelled; raises NotFoundError when the lease has run out."""
        while True:
            sent_s = asyncio.get_running_loop().time()
            with suppress(MetadataError):
                await self._store.renew_lease(self.lease_id)
                self._until_s = sent_s + self._ttl_s
            await asyncio.sleep(self._ttl_s / 6)  # the pace of a holder


# Without a majority


class Settlers:
    """They write until told to stop, each key once, and submit what may have been made until they know."""

    def __init__(self) -> None:
        self.stopped = False
        self.made: dict[str, int] = {}
        self.refused: set[str] = set()
        self.unknown: set[str] = set()
        self.slowest_s = 0.0
        self._news = asyncio.Condition()

    async def write_all(self, stores: Sequence[ReplicatedStore]) -> None:
        """One writer for each store."""
        await asyncio.gather(*(self._write(store, name) for name, store in enumerate(stores)))

    async def _write(self, store: ReplicatedStore, name: int) -> None:
        number = 0
        while not self.stopped:
            number += 1
            key = f"/settled/{name}/{number}"
            await self._settle(store, Transaction(key, (), (Put(key, b"x"),)))

    def made_by(self, name: int) -> list[str]:
        """What one of them has made."""
        return [key for key in self.made if key.startswith(f"/settled/{name}/")]

    async def see(self, holds: Callable[[], bool]) -> None:
        """Return when something holds."""
        async with self._news:
            await self._news.wait_for(holds)

    async def _settle(self, store: ReplicatedStore, change: Transaction) -> None:
        key, settled = change.transaction_id, False
        while not settled:
            began_s = asyncio.get_running_loop().time()
            try:
                self.made[key] = await store.transact(change)
                settled = True
            except UnknownOutcomeError:
                self.unknown.add(key)
            except MetadataError:
                if key not in self.unknown:
                    self.refused.add(key)
                    settled = True
            self.slowest_s = max(self.slowest_s, asyncio.get_running_loop().time() - began_s)
            async with self._news:
                self._news.notify_all()


@pytest.mark.nightly
@pytest.mark.parametrize("leader_dies", [True, False], ids=["leader dies", "leader is left"])
async def test_without_a_majority_nothing_is_promised_and_all_goes_on_once_it_is_back(
    ensemble: Ensemble, leader_dies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader that is left by itself has changes in its log that it could not agree on: they may yet be made."""
    submit_timeout_s = 3.0  # instead of ten: what is waited for is the same
    for module in (appender, replicated):
        monkeypatch.setattr(module, "METADATA_SUBMIT_TIMEOUT_S", submit_timeout_s)
    settlers = Settlers()
    async with asyncio.timeout(_WAIT_S), members(ensemble) as stores, running(settlers.write_all(stores)) as writing:
        await settlers.see(lambda: len(settlers.made) >= 30 and bool(settlers.made_by(0)))
        key = settlers.made_by(0)[0]
        await asyncio.to_thread(kill_all_but_one, ensemble, leader_dies=leader_dies)
        assert await stores[0].get(key) is not None
        with pytest.raises(MetadataError, match=r"(etcd|ZooKeeper) at .* (does not answer|is not connected)"):
            await stores[0].get(key, linearizable=True)
        await settlers.see(lambda: len(settlers.refused | settlers.unknown) >= _MEMBERS)
        assert settlers.slowest_s < submit_timeout_s + 2 * METADATA_ATTEMPT_TIMEOUT_S + _SLACK_S
        made = len(settlers.made)
        await asyncio.to_thread(ensemble.start)
        await settlers.see(lambda: settlers.unknown <= settlers.made.keys() and len(settlers.made) >= made + 30)
        settlers.stopped = True
        await writing
        found = [await store.list("/settled", linearizable=True) for store in stores]
    assert found[1:] == found[:-1]
    assert {entry.key: entry.revision for entry in found[0]} == settlers.made
    assert all(entry.created_revision == entry.revision for entry in found[0])
    assert not settlers.refused & settlers.made.keys()


def kill_all_but_one(ensemble: Ensemble, *, leader_dies: bool) -> None:
    leader = ensemble.leader()
    others = [server for server in ensemble.servers if server is not leader]
    for server in [leader, others[0]] if leader_dies else others:
        server.kill()


# Servers that are behind, silent or dead


@pytest.mark.nightly
async def test_a_linearizable_read_through_a_server_that_slept_misses_nothing(ensemble: Ensemble) -> None:
    leader = await asyncio.to_thread(ensemble.leader)
    behind, other = [server for server in ensemble.servers if server is not leader]
    async with asyncio.timeout(_WAIT_S), members(ensemble, [behind.address], [other.address]) as (reader, writer):
        for number in range(20):
            behind.pause()
            try:
                revision = await writer.put("/a", str(number).encode())
                async with running(reader.get("/a", linearizable=True)) as reading:
                    await asyncio.wait([reading], timeout=0.1)  # the question is there before the news is
                    behind.resume()
                    entry = await reading
            finally:
                behind.resume()
            assert entry is not None
            assert entry.revision == revision


@pytest.mark.nightly
@pytest.mark.parametrize("dead", [True, False], ids=["dead", "silent"])
async def test_a_first_endpoint_that_does_not_answer_keeps_nobody_from_starting(ensemble: Ensemble, dead: bool) -> None:
    first = ensemble.servers[0]
    await asyncio.to_thread(first.kill if dead else first.pause)
    await asyncio.to_thread(ensemble.leader, besides=first)
    async with asyncio.timeout(_WAIT_S), members(ensemble) as (writer, reader, _):
        revision = await writer.put("/a", b"")
        entry = await reader.get("/a", linearizable=True)
        assert entry is not None
        assert entry.revision == revision


# TLS, users, roles


@pytest.fixture(scope="module")
def zookeeper_by_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZookeeperServer]:
    """One that asks for a certificate."""
    pem = [CERTIFICATES / name for name in ("ca.pem", "server.pem", "server.key")]
    folder = tmp_path_factory.mktemp("zookeeper-tls")
    with or_skip(lambda: ZookeeperServer(folder, tls=ZookeeperTls(*pem))) as server:
        yield server


def by_tls(server: ZookeeperServer) -> ZookeeperSettings:
    return ZookeeperSettings(
        hosts=[server.address], root=new_root(), tls=True, ca_file=CA, certificate_file=CERTIFICATE, key_file=KEY
    )


async def open_zookeeper(settings: ZookeeperSettings) -> ReplicatedStore:
    return await open_shared_log(ZookeeperBackend(settings, SystemRng()), SystemClock(), SystemRng())


async def test_what_members_write_to_zookeeper_by_tls_is_told_to_others(zookeeper_by_tls: ZookeeperServer) -> None:
    settings = replace(by_tls(zookeeper_by_tls), user="danube", password="secret")
    async with asyncio.timeout(_WAIT_S), AsyncExitStack() as stack:
        stores = [await open_zookeeper(settings) for _ in range(2)]
        for store in stores:
            stack.push_async_callback(store.close)
        watch = stores[1].watch("/a")
        await take(watch, 1)
        values = {f"/a/{number}": os.urandom(30_000) for number in range(60)}  # several frames of TLS each
        await asyncio.gather(*(stores[0].put(key, value) for key, value in values.items()))
        told = await take(watch, len(values))
    assert {event.entry.key: event.entry.value for event in told if isinstance(event, Changed)} == values


async def test_zookeeper_by_tls_is_not_taken_for_another_and_lets_in_who_has_a_certificate(
    zookeeper_by_tls: ZookeeperServer,
) -> None:
    ours = by_tls(zookeeper_by_tls)
    others = [
        (replace(ours, ca_file=CERTIFICATE), ["certificate verify failed"]),
        (replace(ours, ca_file=None), ["certificate verify failed"]),
        # the end of the connection may overtake the words
        (replace(ours, certificate_file=None, key_file=None), ["alert bad certificate", "onnection reset"]),
        (ZookeeperSettings(hosts=ours.hosts, root=ours.root), ["connection"]),
    ]
    backends = [(partial(ZookeeperBackend, settings, SystemRng()), words) for settings, words in others]
    for told in await asyncio.gather(*(refusal(backend, *words) for backend, words in backends)):
        assert "its address, TLS and password are right" in told


async def test_certificates_that_cannot_be_used_are_named_before_anybody_is_asked(tmp_path: Path) -> None:
    settings = ZookeeperSettings(hosts=["127.0.0.1:1"], tls=True, ca_file=str(tmp_path / "none.pem"))
    with pytest.raises(SettingsError, match=r"none.pem holds no certificates"):
        await open_zookeeper(settings)
    with pytest.raises(SettingsError, match="are no certificate and its key"):
        await open_zookeeper(replace(settings, ca_file=CA, certificate_file=CERTIFICATE, key_file=CA))


@pytest.fixture
def etcd_by_tls(tmp_path: Path) -> Iterator[EtcdServer]:
    """One that asks for no certificate."""
    flags = [f"--cert-file={CERTIFICATES / 'server.pem'}", f"--key-file={CERTIFICATES / 'server.key'}"]
    with or_skip(lambda: EtcdServer(tmp_path / "server", flags=flags, scheme="https")) as server:
        yield server


async def test_etcd_by_tls_lets_a_user_work_below_its_root_and_nowhere_else(etcd_by_tls: EtcdServer) -> None:
    root, ca = "/danube/production", await asyncio.to_thread(Path(CA).read_bytes)
    await asyncio.to_thread(let_in, etcd_by_tls, "danube:secret", root)
    endpoints = [f"127.0.0.1:{free_port()}", etcd_by_tls.address]  # at the first one there is no token to be had
    ours = EtcdSettings(endpoints=endpoints, root=root, user="danube", password="secret", tls=True, ca=ca)
    async with asyncio.timeout(_WAIT_S):
        store = await open_etcd(ours)
        assert await store.put("/a", b"") == (await store.list("/", linearizable=True))[0].revision
        await store.close()
        for other, words in (
            (replace(ours, password="wrong"), "check the user and the password"),
            (replace(ours, root="/danube/other"), "grant the user read and write below the root"),
            (replace(ours, ca=None), "does not answer"),
        ):
            told = await refusal(partial(EtcdBackend, other, SystemRng()), words)
            assert not any(secret in told for secret in ("wrong", "secret"))


async def open_etcd(settings: EtcdSettings) -> ReplicatedStore:
    return await open_shared_log(EtcdBackend(settings, SystemRng()), SystemClock(), SystemRng())


def let_in(server: EtcdServer, user: str, root: str) -> None:
    """Turn users on, with this one, who may read and write below the root."""
    name = user.partition(":")[0]
    for words in (
        "user add root:of-the-test",
        "user grant-role root root",
        f"user add {user}",
        f"role add {name}",
        f"role grant-permission {name} readwrite {root}/ --prefix",
        f"user grant-role {name} {name}",
        "auth enable",
    ):
        etcdctl = str(Path(find_etcd()).with_name("etcdctl"))
        patience = f"--command-timeout={PATIENCE_S:g}s"
        command = [etcdctl, f"--endpoints=https://{server.address}", f"--cacert={CA}", patience, *words.split()]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)
