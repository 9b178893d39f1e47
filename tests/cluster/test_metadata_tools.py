"""Metadata taken out of real brokers, members and services, and put into others; the way back from a lost quorum."""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import danube
from danube.admin.grpc_gateway.gateway import opened
from danube.admin.target import Target
from danube.metadata.backup.shared_log import begin_log, read_log
from danube.metadata.shared_log.sequencer import open_shared_log
from danube.metadata.state import StateSnapshot
from danube.metadata.store import Entry
from danube.model.calls.admin import AddNode
from danube.model.errors import DanubeError, MetadataError, PreconditionFailedError, UnavailableError
from danube.model.exit_codes import ExitCode
from danube.model.limits.broker import MIB
from danube.model.topic import TopicName
from danube.runtime.clock import SystemClock
from danube.runtime.rng import SystemRng
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.broker_cluster import BrokerCluster
from danube.testing.processes.free_ports import free_port
from danube.testing.processes.service import ServiceProcess
from lab.failover.administration import Administration
from lab.metadata.clusters import write_secret
from lab.metadata.servers import SERVERS, backend_at, new_root
from tests.cluster.raft_group import RaftGroup
from tests.plugins import fork_server

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

TOPIC = "/default/orders"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    error: str

    @property
    def answer(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.out)
        return parsed


async def metadata(*words: object, flags: tuple[str, ...] = (), variables: Mapping[str, str] | None = None) -> Ended:
    """`danube-broker metadata`, as a process of its own that answers JSON."""
    command = [sys.executable, "-m", "danube.broker", *flags, "metadata", *map(str, words), "-o", "json"]
    environment = {"PATH": os.environ["PATH"], **(variables or {})}
    ended = await asyncio.to_thread(fork_server.run_text, command, variables=environment, timeout_s=PATIENCE_S)
    return Ended(ended.returncode, ended.stdout, ended.stderr)


@pytest.fixture(params=["etcd", pytest.param("zookeeper", marks=pytest.mark.nightly)])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServiceProcess]:
    """An etcd, or a ZooKeeper."""
    try:
        process = SERVERS[request.param](tmp_path / "server")
    except UnavailableError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    with process:
        yield process


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where members of a Raft group keep what they have."""
    write_secret(tmp_path)
    return tmp_path


@pytest.fixture
async def group(folder: Path) -> AsyncIterator[RaftGroup]:
    """Three members of a Raft group that run."""
    three = RaftGroup(folder, 3, flags=("--time-scale", "0.5"))
    await three.start(range(3))
    yield three
    await three.close()


def service_variables(server: ServiceProcess, root: str) -> Mapping[str, str]:
    """Settings that have a broker keep its metadata there."""
    place = {"etcd": "ENDPOINTS", "zookeeper": "HOSTS"}[server.name]
    settings = {"TYPE": server.name, place: server.address, "ROOT": root}
    return {f"DANUBE_META_STORE_{name}": value for name, value in settings.items()}


async def publish(broker: BrokerProcess, messages: int, topic: str = TOPIC, *, message_bytes: int = 0) -> None:
    async with await danube.DanubeClient.builder().service_url(broker.endpoints.service_url).build() as client:
        producer = client.new_producer().with_topic(topic).with_name("p")
        sender = producer.with_dispatch_strategy(danube.DispatchStrategy.RELIABLE).build()
        await sender.create()
        await sender.send_many(b"message %d" % number + bytes(message_bytes) for number in range(messages))


async def stored(broker: BrokerProcess, topic: str = TOPIC) -> int:
    """How many messages a topic has."""
    async with await danube.DanubeClient.builder().service_url(broker.endpoints.service_url).build() as client:
        return len([one async for one in client.fetch(topic)])


@pytest.mark.slow
def test_a_broker_that_stood_alone_goes_on_with_a_service_with_all_its_messages(
    server: ServiceProcess, tmp_path: Path
) -> None:
    data, file, root = tmp_path / "data", tmp_path / "backup", new_root()
    variables = service_variables(server, root)
    with BrokerProcess(data) as broker:
        asyncio.run(publish(broker, 20))
        broker.terminate()
    assert asyncio.run(metadata("backup", file, "--data-dir", data)).code == 0
    done = asyncio.run(metadata("restore", file, variables=variables))
    assert (done.code, done.error) == (0, "")
    with BrokerProcess(data, settings=settings_of(variables)) as broker:
        asyncio.run(publish(broker, 5))
        assert asyncio.run(stored(broker)) == 25
        running = asyncio.run(metadata("inspect", variables=variables)).answer  # while it runs
        assert len(running["leases"]) == 1


def test_a_broker_that_stood_alone_goes_on_as_a_cluster_with_all_its_messages(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "backup"
    with BrokerProcess(data) as broker:
        asyncio.run(publish(broker, 20))
        running = asyncio.run(metadata("backup", file, "--data-dir", data))
        assert (running.code, "stop that broker first" in running.error) == (ExitCode.DATA_FOLDER, True)
        broker.kill()
    address = f"127.0.0.1:{free_port()}"
    assert asyncio.run(metadata("backup", file, "--data-dir", data)).code == 0
    flags = ("--meta-store-type", "raft", "--raft-addr", address)
    done = asyncio.run(metadata("restore", file, "--data-dir", data, "--force", "--yes", flags=flags))
    assert (done.code, done.error) == (0, "")
    with BrokerProcess(data, flags=flags) as broker:
        assert asyncio.run(stored(broker)) == 20
        asyncio.run(publish(broker, 5))
        assert asyncio.run(stored(broker)) == 25
        assert not told_of_metadata(broker.log())
        broker.terminate()
    found = asyncio.run(metadata("inspect", "--data-dir", data, "--key", "/topics" + TOPIC)).answer
    assert found["entries"][0]["value"]["broker"]


@pytest.mark.nightly
async def test_after_a_lost_quorum_the_survivor_goes_on_and_others_join_it(group: RaftGroup, tmp_path: Path) -> None:
    survivor = (await group.leader() + 1) % 3
    for number in range(50):
        await group[survivor].put(f"/k/{number}", b"%d" % number)
    lease_id = await group[survivor].grant_lease(60.0)
    await group[survivor].put("/held", b"x", lease_id=lease_id)
    before = await group[survivor].list("/k")
    await group.kill(0, 1, 2)
    folder, file = tmp_path / f"member-{survivor}", tmp_path / "backup"

    taken = await metadata("backup", file, "--data-dir", folder)
    assert taken.code == 0
    assert taken.answer["origin"]["position"] > taken.answer["origin"]["agreed_position"]
    assert (await metadata("restore", file, "--data-dir", folder)).code == ExitCode.REFUSED
    assert (await metadata("restore", file, "--data-dir", folder, "--force")).code == ExitCode.NEEDS_YES
    done = await metadata("restore", file, "--data-dir", folder, "--force", "--yes")
    assert (done.code, done.answer["left_out"]["leased_keys"]) == (0, 1)

    await group.start([survivor])
    for number in (3, 4):
        starting = asyncio.create_task(group.start([number]))  # on a folder of its own
        added = await group.added(survivor, number)
        await starting
        await group.promoted(survivor, added["node_id"])
    await group.kill(survivor)
    assert await group.leader(but=survivor) in {3, 4}
    await group[3].put("/after", b"x")
    assert await group[4].list("/k", linearizable=True) == before
    assert await group[4].get("/held") is None
    assert await group[4].get("/after") is not None


async def test_members_of_the_lost_group_are_not_let_into_the_new_one(group: RaftGroup, tmp_path: Path) -> None:
    survivor = await group.leader()
    other = (survivor + 1) % 3
    await group[survivor].put("/k", b"x")
    await group.kill(0, 1, 2)
    folder, file = tmp_path / f"member-{survivor}", tmp_path / "backup"
    assert (await metadata("backup", file, "--data-dir", folder)).code == 0
    assert (await metadata("restore", file, "--data-dir", folder, "--force", "--yes")).code == 0
    await group.start([survivor])
    stray = await asyncio.create_subprocess_exec(*group.command(other), stderr=asyncio.subprocess.DEVNULL)
    try:
        with pytest.raises((MetadataError, UnavailableError), match="belongs to another cluster"):
            await _added_once(group, survivor, group.address(other))
        status = await group.status(survivor)
        assert (len(status["members"]), status["has_quorum"]) == (1, True)
    finally:
        stray.kill()
        await stray.wait()


async def _added_once(group: RaftGroup, asked: int, address: str) -> None:
    """Ask until somebody answers there: then it says yes, or why not."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await group[asked].call("add", address)
            except UnavailableError as error:
                if "another cluster" in str(error):
                    raise
                await asyncio.sleep(0.1)
            else:
                return


@pytest.mark.slow
def test_a_broker_that_lost_its_quorum_goes_on_with_its_topics_and_others_join_it(tmp_path: Path) -> None:
    file = tmp_path / "backup"
    with BrokerCluster(tmp_path) as cluster:
        asyncio.run(publish(cluster.brokers[0], 20))
        survivor = asyncio.run(Administration(cluster).owner(TopicName.parse(TOPIC)))
        returning = next(each for each in cluster.brokers if each is not survivor)
        cluster.kill()
        assert asyncio.run(metadata("backup", file, "--data-dir", survivor.data_dir)).code == 0
        done = asyncio.run(metadata("restore", file, "--data-dir", survivor.data_dir, "--force", "--yes"))
        assert (done.code, done.error) == (0, "")
        survivor.start()
        asyncio.run(publish(survivor, 5))
        assert asyncio.run(stored(survivor)) == 25
        shutil.rmtree(returning.data_dir / "raft")
        address = f"127.0.0.1:{free_port()}"
        secret = {"meta_store_secret_file": str(tmp_path / "raft.secret")}
        flags = ("--raft-addr", address, "--join")
        back = BrokerProcess(returning.data_dir, flags=flags, settings=secret)
        try:
            back.launch()
            asyncio.run(_let_in(survivor, address))
            back.wait()
            assert asyncio.run(stored(back)) == 25  # it sends the client to the broker that has the topic
        finally:
            back.kill()


async def _let_in(broker: BrokerProcess, address: str) -> None:
    """Add a broker as soon as it listens."""
    async with (
        opened(Target(endpoint=broker.endpoints.admin_url, timeout_s=PATIENCE_S)) as gateway,
        asyncio.timeout(PATIENCE_S),
    ):
        while True:
            try:
                await gateway.add_node(AddNode(address=address))
            except DanubeError:
                await asyncio.sleep(0.2)
            else:
                return


@pytest.mark.slow
async def test_a_service_is_backed_up_while_brokers_write_and_restored_below_another_root(
    server: ServiceProcess, tmp_path: Path
) -> None:
    root, other, file = new_root(), new_root(), tmp_path / "backup"
    here, there = service_variables(server, root), service_variables(server, other)
    rng = SystemRng()
    store = await open_shared_log(backend_at(server.name, server.address, root, rng), SystemClock(), rng)
    try:
        for number in range(100):
            await store.put(f"/k/{number}", b"x" * 10_000)
        before = await store.list("/k")
        taken = await metadata("backup", file, variables=here)
        assert (taken.code, taken.error) == (0, "")
        await store.put("/later", b"x")
    finally:
        await store.close()
    refused = await metadata("restore", file, "--force", "--yes", variables=here)
    assert (refused.code, "another root" in refused.error) == (ExitCode.REFUSED, True)
    nothing = await metadata("backup", tmp_path / "other", variables=there)
    assert (nothing.code, "check meta_store.root" in nothing.error) == (ExitCode.NOT_FOUND, True)
    done = await metadata("restore", file, variables=there)
    assert (done.code, done.error) == (0, "")
    assert await _two_members(server, other) == before
    assert (await metadata("restore", file, variables=there)).code == ExitCode.REFUSED
    assert (await metadata("inspect", variables=there)).answer["families"] == {
        "/cluster/restored": 1,
        "/k": 100,
        "/new": 1,
    }


async def _two_members(server: ServiceProcess, root: str) -> list[Entry]:
    """What the second of two members finds, after the first has written."""
    rng = SystemRng()
    first = await open_shared_log(backend_at(server.name, server.address, root, rng), SystemClock(), rng)
    second = await open_shared_log(backend_at(server.name, server.address, root, rng), SystemClock(), rng)
    try:
        revision = await first.put("/new", b"x")
        found = await second.get("/new", linearizable=True)
        assert found is not None
        assert found.revision == revision
        return list(await second.list("/k"))
    finally:
        await first.close()
        await second.close()


@pytest.mark.slow
async def test_a_restore_into_a_service_that_is_cut_off_leaves_nothing_and_is_done_again(
    server: ServiceProcess,
) -> None:
    root, rng = new_root(), SystemRng()
    value = os.urandom(2_000)
    state = StateSnapshot(7, 0, tuple(Entry(f"/k/{number:06}", value, 1, 7) for number in range(3_000)))
    larger = replace(state, entries=(*state.entries, Entry("/l", os.urandom(500_000), 7, 7)))
    for cut_s in (0.02, 0.05, 0.1, 0.2):
        with suppress(TimeoutError, PreconditionFailedError):  # the latter where the one before was done all the same
            async with asyncio.timeout(cut_s):
                await begin_log(backend_at(server.name, server.address, root, rng), larger, rng)
        found = (await read_log(backend_at(server.name, server.address, root, rng), SystemClock(), rng)).snapshot
        assert found in (StateSnapshot(), larger)
    if found != larger:
        with suppress(PreconditionFailedError):  # the last one was done all the same, a moment later
            await begin_log(backend_at(server.name, server.address, root, rng), state, rng)
        found = (await read_log(backend_at(server.name, server.address, root, rng), SystemClock(), rng)).snapshot
        assert found in (state, larger)
    with pytest.raises(PreconditionFailedError):
        await begin_log(backend_at(server.name, server.address, root, rng), state, rng)


@pytest.mark.slow
async def test_metadata_goes_from_a_service_to_raft(server: ServiceProcess, folder: Path) -> None:
    root, file = new_root(), folder / "backup"
    rng = SystemRng()
    store = await open_shared_log(backend_at(server.name, server.address, root, rng), SystemClock(), rng)
    await store.put("/k", b"x")
    before = await store.list("/")
    await store.close()
    group = RaftGroup(folder, 1, flags=("--time-scale", "0.5"))
    assert (await metadata("backup", file, variables=service_variables(server, root))).code == 0
    flags = ("--meta-store-type", "raft", "--raft-addr", group.address(0))
    assert (await metadata("restore", file, "--data-dir", folder / "member-0", flags=flags)).code == 0
    try:
        await group.start([0])
        after = await group[0].list("/", linearizable=True)
        assert [entry for entry in after if entry.key != "/cluster/restored"] == before
    finally:
        await group.close()


def told_of_metadata(log: str) -> list[str]:
    """Lines that say that metadata and folder do not fit. Of a slow or a full machine there may be others."""
    return [
        line for line in log.splitlines() if "metadata is older" in line or "what the metadata does not know" in line
    ]


CLICKS = "/default/clicks"
CUTTING = {"journal_file_bytes_max": MIB, "cache_bytes_max": 0, "telemetry_interval_s": 0}


def refused_start(broker: BrokerProcess) -> str:
    """What a broker says that does not start."""
    with pytest.raises(UnavailableError, match=f"exit code {ExitCode.DATA_FOLDER:d}"):
        broker.start()
    return broker.log().rstrip().splitlines()[-1]


async def is_flushed(broker: BrokerProcess) -> None:
    """Wait until the topic is in segments, and what it had in the journal is gone from there."""
    first = broker.data_dir / "journal" / "0000000001.journal"
    async with asyncio.timeout(PATIENCE_S):
        while first.exists() or not list(broker.data_dir.glob("segments/*/*.manifest")):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("store", ["alone", pytest.param("raft", marks=pytest.mark.nightly)])
def test_an_old_backup_below_a_newer_folder_loses_nothing_without_a_word(store: str, tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "backup"
    flags = () if store == "alone" else ("--meta-store-type", "raft", "--raft-addr", f"127.0.0.1:{free_port()}")
    with BrokerProcess(data, flags=flags, settings=CUTTING) as broker:
        asyncio.run(publish(broker, 20))
        broker.terminate()
        assert asyncio.run(metadata("backup", file, "--data-dir", data)).code == 0
        broker.start()
        asyncio.run(publish(broker, 7, CLICKS))
        asyncio.run(publish(broker, 400, message_bytes=10_000))
        asyncio.run(is_flushed(broker))
        broker.kill()

        done = asyncio.run(metadata("restore", file, "--data-dir", data, "--force", "--yes"))
        assert (done.code, [one["messages"] for one in done.answer["lost"]]) == (0, [7])
        assert f"1 topic with 7 messages ({CLICKS}) would be lost" in refused_start(broker)
        shown = asyncio.run(metadata("adopt", "--data-dir", data))
        assert (shown.code, [one["topic"] for one in shown.answer["lost"]]) == (ExitCode.NEEDS_YES, [CLICKS])
        assert "would be lost" in refused_start(broker)
        accepted = asyncio.run(metadata("adopt", "--data-dir", data, "--accept-loss"))
        assert (accepted.code, accepted.answer["accepted"], accepted.answer["newer"]) == (0, True, 1)
        broker.start()
        assert asyncio.run(stored(broker)) == 420
        asyncio.run(publish(broker, 5, CLICKS))
        assert asyncio.run(stored(broker, CLICKS)) == 5


@pytest.mark.slow
def test_an_up_to_date_backup_is_restored_without_a_word(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "backup"
    with BrokerProcess(data, settings=CUTTING) as broker:
        asyncio.run(publish(broker, 20))
        asyncio.run(publish(broker, 400, message_bytes=10_000))
        asyncio.run(is_flushed(broker))
        broker.kill()
        assert asyncio.run(metadata("backup", file, "--data-dir", data)).code == 0
        done = asyncio.run(metadata("restore", file, "--data-dir", data, "--force", "--yes"))
        assert (done.code, done.error, done.answer["lost"]) == (0, "", [])
        before = broker.log()
        broker.start()
        assert asyncio.run(stored(broker)) == 420
        assert not told_of_metadata(broker.log().removeprefix(before))


@pytest.mark.parametrize("server", ["etcd", pytest.param("zookeeper", marks=pytest.mark.nightly)], indirect=True)
@pytest.mark.slow
def test_an_old_backup_of_a_service_is_refused_by_the_broker_whose_folder_is_newer(
    server: ServiceProcess, tmp_path: Path
) -> None:
    data, file, root, other = tmp_path / "data", tmp_path / "backup", new_root(), new_root()
    here, there = service_variables(server, root), service_variables(server, other)
    with BrokerProcess(data, settings=settings_of(here)) as broker:
        asyncio.run(publish(broker, 20))
        assert asyncio.run(metadata("backup", file, variables=here)).code == 0
        asyncio.run(publish(broker, 7, CLICKS))
    assert asyncio.run(metadata("restore", file, variables=there)).code == 0
    with_older = BrokerProcess(data, settings=settings_of(there))
    assert "1 topic with 7 messages (topic id" in refused_start(with_older)
    shown = asyncio.run(metadata("adopt", "--data-dir", data, variables=there))
    assert (shown.code, [one["topic"] for one in shown.answer["lost"]]) == (ExitCode.NEEDS_YES, [None])
    assert asyncio.run(metadata("adopt", "--data-dir", data, "--accept-loss", variables=there)).code == 0
    with with_older as broker:
        assert asyncio.run(stored(broker)) == 20


def settings_of(variables: Mapping[str, str]) -> Mapping[str, str]:
    return {name.removeprefix("DANUBE_").lower(): value for name, value in variables.items()}
