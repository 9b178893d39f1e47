"""Cost of security: unary SendMessage to a broker without any, with client certificates, and with tokens, in one run.

TLS costs what it costs; the two last ratios say what a token adds. Figures are medians of processor time.
"""

import asyncio
import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from bench.result import Figure, median
from bench.unary import PAYLOAD, SEND
from danube.model.calls.client import CreateProducer, OutgoingMessage
from danube.model.security.principal import PrincipalKind, PrincipalName
from danube.model.topic import DispatchStrategy, TopicName
from danube.rpc.carrier import Channel
from danube.rpc.engines import ClientTls, RpcEngine, client_carrier
from danube.runtime.clock import SystemClock
from danube.security.certificate_authority import Subject, make_authority
from danube.security.tokens import TokenClaims, issue
from danube.testing.peers.client import BROKER_URL
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.child import cpu_s
from danube.wire import client_messages, encode

MESSAGES = 4_000
ROUNDS = 7
IN_FLIGHT = 64
HOSTS = ("localhost", "127.0.0.1")


@dataclass(slots=True)
class _Way:
    """One way to prove oneself, its broker, and microseconds of it for a message, by round."""

    broker: BrokerProcess
    tls: ClientTls | None = None
    metadata: tuple[tuple[str, str], ...] = ()
    costs_us: list[float] = field(default_factory=list)


def run() -> Iterator[Figure]:
    """Each way, and what a token adds."""
    yield from _measured(MESSAGES, ROUNDS)


def run_quick() -> Iterator[Figure]:
    """The same, small."""
    yield from _measured(200, 1)


def _measured(messages: int, rounds: int) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        ways = _ways(Path(folder), running)
        for number in range(rounds):
            for way in ways.values():
                way.costs_us.append(asyncio.run(_cost_us(way, number, messages)))
    for name, way in ways.items():
        yield Figure(f"SendMessage, {name}: broker's processor time", median(way.costs_us), "us/msg")
    token, certificate, plain = (ways[name].costs_us for name in ("token", "client certificate", "no security"))
    yield Figure("a token more than a client certificate", _more_percent(token, certificate), "%")
    yield Figure("a token over TLS more than no security", _more_percent(token, plain), "%")


def _more_percent(ours: list[float], others: list[float]) -> float:
    return (sum(ours) / sum(others) - 1) * 100


def _ways(folder: Path, running: ExitStack) -> dict[str, _Way]:
    certs, secret = folder / "certs", secrets.token_hex(32)
    make_authority(certs, [Subject("broker", "broker", HOSTS), Subject("app", "app")], now=datetime.now(UTC), days=2)
    secret_file = folder / "tokens.secret"
    with os.fdopen(os.open(secret_file, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        file.write(secret)
    settings = {
        "auth_mode": "tls",
        "auth_tls_cert": str(certs / "broker.pem"),
        "auth_tls_key": str(certs / "broker.key"),
        "auth_tls_ca": str(certs / "ca.pem"),
        "auth_jwt_secret_file": str(secret_file),
        "auth_super_admins": "service_account:app",
    }
    flags = ["--durability", "os", "--log-level", "warning"]
    plain = running.enter_context(BrokerProcess(folder / "plain", flags=flags))
    secured = running.enter_context(BrokerProcess(folder / "secured", flags=flags, settings=settings))
    ca, certificate, key = ((certs / name).read_bytes() for name in ("ca.pem", "app.pem", "app.key"))
    claims = TokenClaims(
        principal=PrincipalName(PrincipalKind.SERVICE_ACCOUNT, "app"),
        expires_s=time.time() + 3_600,
        issuer="danube-auth",
    )
    bearer = ("authorization", f"Bearer {issue(claims, secret.encode())}")
    return {
        "no security": _Way(plain),
        "client certificate": _Way(secured, ClientTls(ca=ca, certificate=certificate, key=key)),
        "token": _Way(secured, ClientTls(ca=ca), (bearer,)),
    }


async def _cost_us(way: _Way, number: int, messages: int) -> float:
    channel = client_carrier(SystemClock(), way.tls, RpcEngine.HTTP2).connect(way.broker.endpoints.broker)
    topic = TopicName("default", f"bench-{number}-{time.monotonic_ns()}")
    try:
        request = await _attached(way, channel, topic)
        left, used_s = iter(range(messages)), cpu_s(way.broker.pid)

        async def send() -> None:
            for _ in left:
                await channel.call(SEND, request, timeout_s=60, metadata=way.metadata)

        await asyncio.gather(*(send() for _ in range(IN_FLIGHT)))
        return (cpu_s(way.broker.pid) - used_s) / messages * 1e6
    finally:
        await channel.close()


async def _attached(way: _Way, channel: Channel, topic: TopicName) -> bytes:
    wanted = CreateProducer(request_id=1, topic=topic, producer_name="p", strategy=DispatchStrategy.RELIABLE)
    answer = await channel.call(
        "/danube.ProducerService/CreateProducer",
        client_messages.CREATE_PRODUCER.encode(wanted),
        timeout_s=60,
        metadata=way.metadata,
    )
    producer_id = client_messages.PRODUCER_CREATED.decode(answer).producer_id
    return encode.send_message(OutgoingMessage(1, producer_id, str(topic), BROKER_URL, PAYLOAD, 1, "p"))
