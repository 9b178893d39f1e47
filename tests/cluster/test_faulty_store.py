"""An object store behind a bad network: SlowDown, resets, lost answers, bodies that end early, silence."""

import itertools
import random
from collections.abc import Iterator

import pytest

from danube.model.errors import StorageUnavailableError
from danube.objects.bill import Bill, Cause
from danube.objects.opening import open_objects, unusable
from danube.objects.place import Adapter
from danube.objects.retrying import Patience, RetryingStore
from danube.objects.store import ObjectStore, StoreBusyError
from danube.runtime.blocking import BlockingThread
from danube.runtime.clock import SystemClock
from danube.runtime.rng import SystemRng
from danube.testing.peers.faulty_store import FaultyStoreProxy, StoreFault
from danube.testing.processes.object_server import MotoServer
from lab.objects.world import NoPause, ObjectsWorld
from tests.unit.storage.journal_world import Told
from tests.unit.storage.store.storage_world import fill, flush_all, read_all

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

SOME_OF_ALL: dict[StoreFault, float] = {fault: 0.06 for fault in StoreFault if fault is not StoreFault.STALLED}
SHORT_S = 1.0
_prefixes = itertools.count()


@pytest.fixture(scope="module")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MotoServer]:
    with MotoServer(tmp_path_factory.mktemp("moto")) as server:
        yield server


@pytest.fixture
def proxy(moto: MotoServer) -> Iterator[FaultyStoreProxy]:
    with FaultyStoreProxy(moto.address, random.Random(7), {}) as found:
        yield found


@pytest.fixture(params=Adapter)
def store(
    request: pytest.FixtureRequest, moto: MotoServer, proxy: FaultyStoreProxy, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ObjectStore]:
    """A way to the store through the proxy, which gives up soon."""
    for module in ("s3", "obstore_store"):
        monkeypatch.setattr(f"danube.objects.{module}.OBJECT_REQUEST_TIMEOUT_S", SHORT_S)
    place = moto.place(f"faults-{next(_prefixes)}", request.param, endpoint=proxy.endpoint)
    opened = open_objects(place)
    yield opened
    proxy.shares = {}
    opened.close()


@pytest.mark.parametrize("fault", StoreFault)
def test_each_fault_is_one_that_may_be_sent_again_and_its_error_says_what_to_do(
    store: ObjectStore, proxy: FaultyStoreProxy, fault: StoreFault
) -> None:
    content = random.Random(1).randbytes(300_000)
    store.put("segment", [content])
    proxy.shares = {fault: 1.0}
    with pytest.raises(StoreBusyError) as raised:
        store.get("segment")
    proxy.shares = {}
    said = unusable(raised.value, "s3://danube/")
    assert isinstance(said, StorageUnavailableError)
    assert "Check object_store.endpoint and the network, then try again" in str(said)
    assert "Traceback" not in str(said)
    assert store.get("segment") == content


def test_a_body_that_ends_early_is_never_taken_for_the_object(store: ObjectStore, proxy: FaultyStoreProxy) -> None:
    chance, contents = random.Random(3), dict[str, bytes]()
    retrying = RetryingStore(
        store,
        SystemClock(),
        SystemRng(seed=1),
        bill=Bill(0.0),
        cause=Cause.SEGMENT,
        patience=Patience(retries_max=50),
        pause=NoPause(),
    )
    proxy.shares = SOME_OF_ALL
    for number in range(40):
        name, content = f"log/{number:012}", chance.randbytes(chance.randrange(1, 60_000))
        retrying.put_if_absent(name, [content])
        contents[name] = content
    for name, content in contents.items():
        start = chance.randrange(len(content))
        assert retrying.get(name) == content
        assert retrying.get(name, start, 1_000) == content[start : start + 1_000]
    assert [one.name for one in retrying.listing("log/")] == sorted(contents)
    assert set(proxy.made) == set(SOME_OF_ALL)


async def world_over(moto: MotoServer, proxy: FaultyStoreProxy, seed: int) -> ObjectsWorld:
    """Storages over the real store, with a topic."""
    world = ObjectsWorld(seed=seed)
    world.runner = BlockingThread("store")
    place = moto.place(f"broker-{next(_prefixes)}", endpoint=proxy.endpoint)
    world.bucket = await world.runner.run(lambda: open_objects(place))
    await world.create(1)
    return world


async def ended(world: ObjectsWorld) -> None:
    await world.end()
    await world.runner.run(world.bucket.close)
    assert isinstance(world.runner, BlockingThread)
    await world.runner.aclose()


@pytest.mark.parametrize("seed", range(3))
async def test_nothing_acknowledged_is_lost_over_a_bad_network(
    moto: MotoServer, proxy: FaultyStoreProxy, seed: int
) -> None:
    """Two owners one after the other, over HTTP: journals, segments and manifests are put, listed, read, deleted."""
    proxy.shares = SOME_OF_ALL
    world = await world_over(moto, proxy, seed)
    first, second = await world.start(1), await world.start(2)
    await first.acquire([1])
    acknowledged = await fill(first.topic(1), 60)
    await flush_all(first)
    acknowledged += await fill(first.topic(1), 20, first=60)
    world.kill(1)
    await second.acquire([1])
    acknowledged += await fill(second.topic(1), 40, first=80)
    await flush_all(second)
    assert await read_all(second.topic(1)) == acknowledged
    await ended(world)
    assert proxy.made.total() > 0


async def test_while_every_answer_is_cut_messages_fail_with_the_reason_and_none_is_lost_after(
    moto: MotoServer, proxy: FaultyStoreProxy
) -> None:
    world = await world_over(moto, proxy, 1)
    owner = await world.start(1, retries_max=2)
    await owner.acquire([1])
    acknowledged = await fill(owner.topic(1), 10)
    proxy.shares = {StoreFault.SLOW_DOWN: 1.0}
    told = Told()
    owner.topic(1).append_record(b"refused", told)
    outcome = await told.outcome()
    assert isinstance(outcome, StorageUnavailableError)
    assert "SlowDown" in str(outcome)
    proxy.shares = {}
    world.kill(1)
    again = await world.start(1)
    assert await read_all(again.topic(1)) == acknowledged
    await ended(world)
