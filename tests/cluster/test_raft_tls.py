"""Three brokers whose Raft ports speak TLS with certificates on both sides, made here: no stranger takes part."""

import asyncio
import datetime as dt
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from danube.admin.gateway import AdminGateway
from danube.admin.grpc_gateway.gateway import opened
from danube.admin.target import Target
from danube.model.calls.admin import ClusterDescription, CreateTopic
from danube.model.limits.metadata import RAFT_LOG_LINE_S
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.free_ports import free_port
from tests.cluster.seeing import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(240)]

SIZE = 3


class Authority:
    """Signs certificates, each with a key of its own, into a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder / name
        self._folder.mkdir()
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.ca = self._write("ca.pem", self._signed(self._name, self._key.public_key(), is_ca=True))

    def settings(self, name: str) -> dict[str, str | int]:
        """Of a broker with a new certificate, which trusts this authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        named = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        formats = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return {
            "meta_store_tls_ca": str(self.ca),
            "meta_store_tls_cert": str(self._write(f"{name}.pem", self._signed(named, key.public_key(), is_ca=False))),
            "meta_store_tls_key": str(self._write(f"{name}.key", key.private_bytes(*formats))),
        }

    def _signed(self, name: x509.Name, key: ec.EllipticCurvePublicKey, *, is_ca: bool) -> bytes:
        now = dt.datetime.now(dt.UTC)
        building = x509.CertificateBuilder().subject_name(name).issuer_name(self._name).public_key(key)
        building = building.serial_number(x509.random_serial_number()).not_valid_before(now - dt.timedelta(hours=1))
        building = building.not_valid_after(now + dt.timedelta(days=1))
        building = building.add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        return building.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def _write(self, name: str, content: bytes) -> Path:
        path = self._folder / name
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
        return path


def broker_on(data_dir: Path, seeds: list[int], port: int, settings: dict[str, str | int]) -> BrokerProcess:
    """Without a secret: certificates are all that brokers know each other by."""
    addresses = ",".join(f"127.0.0.1:{each}" for each in dict.fromkeys([*seeds, port]))
    flags = ["--seed-nodes", addresses, "--raft-addr", f"127.0.0.1:{port}"]
    return BrokerProcess(data_dir, flags=flags, settings=settings)


@pytest.fixture
def ports() -> list[int]:
    """Of the members for Raft."""
    return [free_port() for _ in range(SIZE)]


@pytest.fixture
def brokers(tmp_path: Path, ports: list[int]) -> Iterator[list[BrokerProcess]]:
    """A cluster."""
    authority = Authority(tmp_path, "cluster")
    settings = [authority.settings(f"broker{number}") for number in range(SIZE)]
    brokers = [broker_on(tmp_path / f"broker{n}", ports, ports[n], settings[n]) for n in range(SIZE)]
    with ExitStack() as running:
        for broker in brokers:
            running.callback(broker.kill)
            broker.launch()
        for broker in brokers:
            broker.wait()
        yield brokers


@pytest.fixture
async def gateways(brokers: list[BrokerProcess]) -> AsyncIterator[list[AdminGateway]]:
    async with AsyncExitStack() as parts:
        targets = [Target(endpoint=broker.endpoints.admin_url, timeout_s=PATIENCE_S) for broker in brokers]
        yield [await parts.enter_async_context(opened(target)) for target in targets]


async def agreed(gateways: list[AdminGateway]) -> ClusterDescription:
    """What the first says, as soon as all name the same leader."""
    views: list[ClusterDescription] = []

    async def same() -> bool:
        views[:] = [await gateway.describe_cluster() for gateway in gateways]
        return len({(view.leader_id, view.term) for view in views}) == 1 and views[0].leader_id is not None

    await until(same)
    return views[0]


async def is_led_by_another(gateways: list[AdminGateway], before: ClusterDescription) -> bool:
    after = await agreed(gateways)
    return after.leader_id != before.leader_id and after.term > before.term


async def log_has(broker: BrokerProcess, text: str) -> bool:
    return text in await asyncio.to_thread(broker.log)


async def create(gateway: AdminGateway, name: str) -> None:
    await gateway.create_topic(CreateTopic(topic=TopicName("default", name), strategy=DispatchStrategy.RELIABLE))


async def is_seen(gateways: list[AdminGateway], name: str) -> bool:
    seen = [await gateway.topics("default") for gateway in gateways]
    return all(f"/default/{name}" in {str(info.topic) for info in topics} for topics in seen)


async def test_brokers_with_certificates_agree_and_survive_the_kill_of_their_leader(
    brokers: list[BrokerProcess], gateways: list[AdminGateway]
) -> None:
    async def all_take_part() -> bool:
        members = (await agreed(gateways)).members
        return [(member.votes, member.connected) for member in members] == [(True, True)] * SIZE

    await until(all_take_part)
    before = await agreed(gateways)
    await create(gateways[0], "before")
    await until(lambda: is_seen(gateways, "before"))
    nodes = [(await gateway.describe_cluster()).node_id for gateway in gateways]
    leader = nodes.index(before.leader_id)
    await asyncio.to_thread(brokers[leader].kill)
    others = [gateway for number, gateway in enumerate(gateways) if number != leader]
    await until(lambda: is_led_by_another(others, before))
    await create(others[0], "after")
    await asyncio.to_thread(brokers[leader].start)
    await until(lambda: is_seen(gateways, "after"))


@pytest.fixture(params=["another CA", "no TLS"])
def stranger(
    request: pytest.FixtureRequest, brokers: list[BrokerProcess], ports: list[int], tmp_path: Path
) -> Iterator[BrokerProcess]:
    """A fourth broker that was started, with a certificate of another CA or none, and has the three for its seeds."""
    assert all(broker.is_running for broker in brokers)
    settings = {} if request.param == "no TLS" else Authority(tmp_path, "others").settings("stranger")
    broker = broker_on(tmp_path / "stranger", ports, free_port(), settings)
    broker.launch()
    yield broker
    broker.kill()


async def test_a_stranger_gets_nothing_and_one_line_says_why(
    brokers: list[BrokerProcess], gateways: list[AdminGateway], stranger: BrokerProcess
) -> None:
    started_s, before = time.monotonic(), await agreed(gateways)
    for broker in brokers:
        await until(partial(log_has, broker, "a connection was refused, TLS failed"))
    await until(partial(log_has, stranger, "cannot be asked: "))  # it has dialed twice a second until then
    assert await log_has(stranger, "belongs to no cluster yet")
    assert not await log_has(stranger, "takes part in the cluster")
    after = await agreed(gateways)
    ids = {member.node_id for member in before.members}
    assert len(ids) == SIZE
    assert {after.leader_id, *(member.node_id for member in after.members)} == ids
    logs = [await asyncio.to_thread(broker.log) for broker in brokers]
    minutes = (time.monotonic() - started_s) // RAFT_LOG_LINE_S
    assert all(log.count("a connection was refused") <= 2 + minutes for log in logs)
