"""Three broker processes with TLS, which prove themselves to each other: by their certificates, or by a secret."""

import asyncio
import json
import os
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from danube.admin.target import Target
from danube.client import DanubeClient, DanubeClientBuilder, DispatchStrategy, FetchFrom
from danube.model.errors import NotPermittedError, UnauthenticatedError
from danube.model.policies import FailurePolicy, PoisonPolicy, SetFailurePolicy, SubscriptionName
from danube.model.security.principal import PrincipalKind, PrincipalName
from danube.model.topic import TopicName
from danube.rpc.http2.carrier import Http2Carrier
from danube.runtime.clock import SystemClock
from danube.security.certificate_authority import Subject, make_authority
from danube.security.certificates import client_tls
from danube.security.tokens import TokenClaims, issue
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker_cluster import BrokerCluster
from lab.failover.administration import Administration, until

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

NAMES = ("broker-1", "broker-2", "broker-3")
HOSTS = ("localhost", "127.0.0.1")
SOME = 20


@dataclass(frozen=True, slots=True)
class Secured:
    """A cluster, and what its callers prove themselves with."""

    processes: BrokerCluster
    certs: Path
    token: str
    administration: Administration

    @asynccontextmanager
    async def client(self) -> AsyncIterator[DanubeClient]:
        urls = ",".join(broker.endpoints.service_url for broker in self.processes.brokers)
        builder = DanubeClientBuilder().service_url(urls)
        ready = await asyncio.to_thread(builder.with_tls, str(self.certs / "ca.pem"))
        async with await ready.with_token(self.token).build() as client, asyncio.timeout(PATIENCE_S):
            yield client


@pytest.fixture(scope="module", params=["certificates", "secret"])
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp(request.param)
    certs, secret = folder / "certs", secrets.token_hex(32)
    make_authority(certs, [Subject(name, name, HOSTS) for name in NAMES], now=datetime.now(UTC), days=2)
    tokens, shared = (
        private(folder / "tokens.secret", secret),
        private(folder / "brokers.secret", secrets.token_hex(32)),
    )
    common: dict[str, Any] = {
        "tls_ca": str(certs / "ca.pem"),
        "jwt_secret_file": str(tokens),
        "super_admins": ["root"],
        **({"broker_names": NAMES} if request.param == "certificates" else {"cluster_secret_file": str(shared)}),
    }
    files = []
    for name in NAMES:
        auth = {**common, "tls_cert": str(certs / f"{name}.pem"), "tls_key": str(certs / f"{name}.key")}
        files.append(folder / f"{name}.yml")
        files[-1].write_text(json.dumps({"auth": auth}))  # JSON is YAML, too
    flags = [["--config-file", str(file)] for file in files]
    with BrokerCluster(folder, flags=flags, settings={"auth_mode": "tls"}) as processes:
        token = issued(secret.encode(), PrincipalKind.USER, "root")
        target = Target(token=token, tls=True, ca_file=certs / "ca.pem")
        yield Secured(processes, certs, token, Administration(processes, credentials=target))


def private(path: Path, content: str) -> Path:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        file.write(content)
    return path


def issued(secret: bytes, kind: PrincipalKind, name: str) -> str:
    claims = TokenClaims(principal=PrincipalName(kind, name), expires_s=time.time() + 600, issuer="danube-auth")
    return issue(claims, secret)


async def publish(client: DanubeClient, topic: TopicName, payloads: list[bytes]) -> None:
    making = client.new_producer().with_topic(str(topic)).with_name("p")
    async with making.with_dispatch_strategy(DispatchStrategy.RELIABLE).build() as producer:
        await producer.send_many(payloads)


async def receive(client: DanubeClient, topic: TopicName, count: int) -> list[bytes]:
    naming = client.new_consumer().with_topic(str(topic)).with_consumer_name("c").with_subscription("s")
    async with naming.with_start(FetchFrom.EARLIEST).build() as consumer:
        found = [await anext(consumer) for _ in range(count)]
        await consumer.ack_many(found)
    return [each.payload for each in found]


async def test_a_topic_is_carried_to_another_broker(secured: Secured) -> None:
    topic, there = TopicName("default", "carried"), secured.administration
    await until(there.is_whole)
    payloads = [b"%d" % number for number in range(SOME)]
    async with secured.client() as client:
        await publish(client, topic, payloads)
        owner = await there.owner(topic)
        await there.apply(owner, "unload_topic", topic=str(topic))
        await there.leaves(topic, owner)
        await publish(client, topic, payloads)
        assert await receive(client, topic, 2 * SOME) == payloads * 2


async def test_dead_letters_go_to_a_topic_of_another_broker(secured: Secured) -> None:
    topic, dead, there = TopicName("default", "worked"), TopicName("default", "dead"), secured.administration
    await until(there.is_whole)
    async with secured.client() as client:
        await publish(client, dead, [b"first"])
        await publish(client, topic, [b"second"])
        owner = await there.owner(topic)
        if await there.owner(dead) is owner:
            await there.apply(owner, "unload_topic", topic=str(dead))
            await there.leaves(dead, owner)
        naming = client.new_consumer().with_topic(str(topic)).with_consumer_name("c").with_subscription("s")
        async with naming.with_start(FetchFrom.EARLIEST).build() as consumer:
            policy = FailurePolicy(max_redelivery_count=0, poison=PoisonPolicy.DEAD_LETTER, dead_letter_topic=dead)
            async with there.gateway([owner]) as gateway:
                await gateway.set_failure_policy(
                    SetFailurePolicy(name=SubscriptionName(topic=topic, subscription="s"), policy=policy)
                )
            await consumer.nack(await anext(consumer))
            assert await receive(client, dead, 2) == [b"first", b"second"]
    assert await there.owner(dead) is not owner


@pytest.mark.parametrize("claimed", [PrincipalKind.USER, PrincipalKind.BROKER])
async def test_neither_a_header_nor_a_token_makes_a_broker(secured: Secured, claimed: PrincipalKind) -> None:
    """A token that the cluster itself signed, for a principal that is no administrator."""
    secret = (secured.certs.parent / "tokens.secret").read_bytes()
    tls = await asyncio.to_thread(lambda: client_tls(ca=secured.certs / "ca.pem"))
    channel = Http2Carrier(SystemClock(), client_tls=tls).connect(secured.processes.brokers[0].endpoints.admin)
    headers = [("x-danube-internal-broker", "1"), ("authorization", f"Bearer {issued(secret, claimed, 'broker-1')}")]
    try:
        for proof in (headers, headers[:1]):
            with pytest.raises((NotPermittedError, UnauthenticatedError)):
                await channel.call("/danube.control.Carry/Prepare", b"", timeout_s=PATIENCE_S, metadata=proof)
    finally:
        await channel.close()
