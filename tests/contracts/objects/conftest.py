"""Object stores that the contract is proved on; the environment may name one more."""

import os
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from danube.objects.memory import MemoryObjects
from danube.objects.opening import open_objects
from danube.objects.place import Adapter, ObjectPlace
from danube.objects.store import ObjectStore
from danube.testing.processes.object_server import MotoServer, VersityServer

_prefixes = count()


@pytest.fixture(scope="session")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MotoServer]:
    with MotoServer(tmp_path_factory.mktemp("moto")) as server:
        yield server


@pytest.fixture(scope="session")
def versity(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VersityServer]:
    with VersityServer(tmp_path_factory.mktemp("versitygw")) as server:
        yield server


def _memory(_: pytest.FixtureRequest) -> ObjectStore:
    return MemoryObjects()


def _served(server: str, adapter: Adapter) -> Callable[[pytest.FixtureRequest], ObjectStore]:
    def opened(request: pytest.FixtureRequest) -> ObjectStore:
        place = request.getfixturevalue(server).place(f"test {next(_prefixes)}".replace(" ", "-"), adapter)
        return open_objects(place)

    return opened


def _from_environment(adapter: Adapter) -> Callable[[pytest.FixtureRequest], ObjectStore]:
    def opened(_: pytest.FixtureRequest) -> ObjectStore:
        url, endpoint = os.environ["DANUBE_TEST_OBJECTS_URL"], os.environ.get("DANUBE_TEST_OBJECTS_ENDPOINT")
        prefix = f"{url.rstrip('/')}/{os.getpid()}-{next(_prefixes)}"
        return open_objects(ObjectPlace.of(prefix, endpoint=endpoint, adapter=adapter))

    return opened


_STORES = [
    pytest.param(_memory, id="memory"),
    pytest.param(_served("moto", Adapter.S3FS), id="moto-s3fs", marks=pytest.mark.cluster),
    pytest.param(_served("moto", Adapter.OBSTORE), id="moto-obstore", marks=pytest.mark.cluster),
    pytest.param(_served("versity", Adapter.S3FS), id="versitygw-s3fs", marks=pytest.mark.nightly),
    pytest.param(_served("versity", Adapter.OBSTORE), id="versitygw-obstore", marks=pytest.mark.nightly),
]
if "DANUBE_TEST_OBJECTS_URL" in os.environ:
    _STORES += [
        pytest.param(_from_environment(adapter), id=f"environment-{adapter}", marks=pytest.mark.cluster)
        for adapter in Adapter
    ]


@pytest.fixture(params=_STORES)
def store(request: pytest.FixtureRequest) -> Iterator[ObjectStore]:
    opened: ObjectStore = request.param(request)
    yield opened
    opened.delete([one.name for one in opened.listing("")])
    opened.close()
