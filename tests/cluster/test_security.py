"""A broker process with TLS, tokens and client certificates: the published client, ours, and danube-admin."""

import asyncio
import os
import secrets
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from danube.client import DanubeClient, DanubeClientBuilder, DispatchStrategy
from danube.model.calls.client import Subscribe
from danube.model.errors import (
    BrokerUnreachableError,
    DanubeError,
    NotFoundError,
    NotPermittedError,
    UnauthenticatedError,
)
from danube.model.limits.security import SECURITY_SWEEP_S
from danube.model.security.principal import PrincipalKind, PrincipalName
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName
from danube.security.certificate_authority import Subject, make_authority
from danube.security.tokens import TokenClaims, issue
from danube.testing.patience import PATIENCE_S
from danube.testing.peers.client import Peer
from danube.testing.processes.broker import BrokerProcess
from danube.wire import client_messages
from danube.wire.security import messages
from tests.cluster.client_models import MODELS, ClientModel, ModelChannel
from tests.plugins import fork_server

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]

PROGRAM = Path(__file__).parent / "wheel" / "secure_program.py"
BIN = Path(sys.executable).parent
_AS_NAME = str.maketrans(" .", "--")


@dataclass(frozen=True, slots=True)
class Secured:
    broker: BrokerProcess
    certs: Path
    secret: str

    @property
    def url(self) -> str:
        return f"https://{self.broker.endpoints.broker}"

    def token(self, name: str) -> str:
        claims = TokenClaims(
            principal=PrincipalName(PrincipalKind.USER, name), expires_s=time.time() + 600, issuer="danube-auth"
        )
        return issue(claims, self.secret.encode())

    def admin(self, *words: str, token: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "DANUBE_ADMIN_ENDPOINT": f"https://{self.broker.endpoints.admin}",
            "DANUBE_ADMIN_CA": str(self.certs / "ca.pem"),
            "DANUBE_ADMIN_TOKEN": token,
        }
        command = [str(BIN / "danube-admin"), *words]
        return fork_server.run_text(command, variables=environment, timeout_s=PATIENCE_S)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    certs, secret = folder / "certs", secrets.token_hex(32)
    command = [str(BIN / "danube-broker"), "certs", "init", str(certs), "--client", "app", "--client", "nobody"]
    fork_server.run(command, variables=os.environ, timeout_s=PATIENCE_S).check_returncode()
    secret_file = folder / "tokens.secret"
    secret_file.write_text(secret)
    secret_file.chmod(0o600)
    settings = {
        "auth_mode": "tls",
        "auth_tls_cert": str(certs / "broker.pem"),
        "auth_tls_key": str(certs / "broker.key"),
        "auth_tls_ca": str(certs / "ca.pem"),
        "auth_jwt_secret_file": str(secret_file),
        "auth_super_admins": "root,service_account:app",
    }
    with BrokerProcess(folder / "data", settings=settings) as process:
        yield Secured(process, certs, secret)


@pytest.mark.parametrize("proof", ["token", "certificate"])
def test_the_published_client_proves_itself(secured: Secured, wheel_python: Path, proof: str) -> None:
    command = [str(wheel_python), "-I", str(PROGRAM), secured.url, f"/default/{proof}", str(secured.certs / "ca.pem")]
    if proof == "token":
        command += ["--token", secured.token("root")]
    else:
        command += ["--certificate", str(secured.certs / "app.pem"), "--key", str(secured.certs / "app.key")]
    ended = fork_server.run_text(command, variables=os.environ, timeout_s=PATIENCE_S)
    assert (ended.returncode, ended.stdout) == (0, "over TLS\n"), ended.stderr[-2_000:]


async def publish(prepare: Callable[[], DanubeClientBuilder], topic: str) -> None:
    builder = await asyncio.to_thread(prepare)  # which reads certificates
    async with await builder.build() as client:
        await _publish(client, topic)


async def _publish(client: DanubeClient, topic: str) -> None:
    producing = client.new_producer().with_topic(topic).with_name("p")
    producer = producing.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
    async with asyncio.timeout(PATIENCE_S):
        await producer.create()
        await producer.send(b"ours")
        await producer.close()


async def test_our_client_proves_itself_and_is_refused_without(secured: Secured) -> None:
    ca = str(secured.certs / "ca.pem")

    def builder() -> DanubeClientBuilder:
        return DanubeClientBuilder().service_url(secured.url).with_tls(ca)

    def certified() -> DanubeClientBuilder:
        files = (str(secured.certs / f"nobody.{end}") for end in ("pem", "key"))
        return DanubeClientBuilder().service_url(secured.url).with_mtls(ca, *files)

    await publish(lambda: builder().with_token(secured.token("root")), "/default/ours")
    refused: list[tuple[Callable[[], DanubeClientBuilder], type[DanubeError]]] = [
        (builder, UnauthenticatedError),
        (lambda: builder().with_token("garbage"), UnauthenticatedError),
        (lambda: builder().with_token(secured.token("stranger")), NotPermittedError),
        (certified, NotPermittedError),
    ]
    for prepare, error in refused:
        with pytest.raises(error):
            await publish(prepare, "/default/ours")


@pytest.fixture
def foreign_ca(tmp_path: Path) -> str:
    command = [str(BIN / "danube-broker"), "certs", "init", str(tmp_path / "other")]
    fork_server.run(command, variables=os.environ, timeout_s=PATIENCE_S).check_returncode()
    return str(tmp_path / "other" / "ca.pem")


async def test_a_server_of_a_foreign_authority_is_not_spoken_to(secured: Secured, foreign_ca: str) -> None:
    def foreign() -> DanubeClientBuilder:
        return DanubeClientBuilder().service_url(secured.url).with_tls(foreign_ca).with_token(secured.token("root"))

    with pytest.raises(BrokerUnreachableError):
        await publish(foreign, "/default/ours")


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
@pytest.mark.parametrize("proof", ["token", "certificate"])
async def test_the_official_clients_of_other_languages_prove_themselves(
    secured: Secured, model: ClientModel, proof: str
) -> None:
    files = (secured.certs / "app.pem", secured.certs / "app.key") if proof == "certificate" else ()
    context = await asyncio.to_thread(model.context, secured.certs / "ca.pem", *files)
    host, _, port = secured.broker.endpoints.broker.rpartition(":")
    async with asyncio.timeout(PATIENCE_S):
        for name in (host, "localhost"):  # the second with SNI
            async with await ModelChannel.open(model, f"{name}:{port}", context) as channel:
                await prove(secured, channel, model, by_token=proof == "token")
                peer, topic = Peer(channel), TopicName("default", f"{model.name}-{proof}-{name}".translate(_AS_NAME))
                producer_id = await peer.create_producer(topic)
                assert (await peer.lookup(topic)).connect_url == secured.url
                await peer.send(topic, producer_id, b"over TLS")


async def prove(secured: Secured, channel: ModelChannel, model: ClientModel, *, by_token: bool) -> None:
    """Without its proof a call is refused."""
    with pytest.raises(UnauthenticatedError if by_token else NotFoundError):
        await channel.call("/danube.ConsumerService/Subscribe", subscribe_to_nothing())
    if by_token:
        token = await key_exchanged(secured, channel) if model.exchanges_key else secured.token("root")
        channel.metadata = [("authorization", f"Bearer {token}")]


async def key_exchanged(secured: Secured, channel: ModelChannel) -> str:
    """As Java's `withApiKey`: a call without a header answers the token."""
    made = await asyncio.to_thread(
        secured.admin, "security", "keys", "create", "app", "-o", "json", token=secured.token("root")
    )
    assert made.returncode == 0, made.stderr
    key = next(word for word in made.stdout.replace('"', " ").split() if word.startswith("dk_"))
    return messages.TOKEN.decode(
        await channel.call("/danube.AuthService/Authenticate", messages.AUTHENTICATE.encode(key))
    )


def subscribe_to_nothing() -> bytes:
    return client_messages.SUBSCRIBE.encode(
        Subscribe(
            request_id=1,
            topic=TopicName("default", "nothing"),
            consumer_name="c",
            subscription="s",
            type=SubscriptionType.EXCLUSIVE,
        )
    )


async def test_certificates_are_exchanged_under_load_and_no_connection_drops(secured: Secured) -> None:
    """Clients publish all the time; the CA signs new certificates, which new connections see."""
    model = MODELS[0]
    context = await asyncio.to_thread(model.context, secured.certs / "ca.pem")
    async with asyncio.timeout(PATIENCE_S), AsyncExitStack() as opened:
        channels = [await opened.enter_async_context(await _connected(secured, model, context)) for _ in range(8)]
        await Peer(channels[0]).create_producer(TopicName("default", "exchanged"), "first")  # which makes the topic
        before, is_over = channels[0].serial_number, asyncio.Event()
        loads = [asyncio.ensure_future(_publish_until(channel, is_over)) for channel in channels]
        await asyncio.to_thread(_sign_anew, secured.certs)
        await _other_certificate(secured, model, context, before)
        is_over.set()
        await asyncio.gather(*loads)  # raises where a connection has dropped


async def _other_certificate(secured: Secured, model: ClientModel, context: ssl.SSLContext, before: str) -> None:
    """Return when new connections see another certificate: the broker looks at its files by itself."""
    for _ in range(round(PATIENCE_S / SECURITY_SWEEP_S)):
        async with await _connected(secured, model, context) as fresh:
            await Peer(fresh).lookup(TopicName("default", "exchanged"))
            if fresh.serial_number != before:
                return
        await asyncio.sleep(SECURITY_SWEEP_S)


async def _connected(secured: Secured, model: ClientModel, context: ssl.SSLContext) -> ModelChannel:
    channel = await ModelChannel.open(model, secured.broker.endpoints.broker, context)
    channel.metadata = [("authorization", f"Bearer {secured.token('root')}")]
    return channel


async def _publish_until(channel: ModelChannel, is_over: asyncio.Event) -> None:
    """Publish, once more when it is over."""
    peer, topic = Peer(channel), TopicName("default", "exchanged")
    producer_id = await peer.create_producer(topic, f"p{id(channel)}")
    over = False
    while not over:
        over = is_over.is_set()
        await peer.send(topic, producer_id, b"x", producer=f"p{id(channel)}")
        await asyncio.sleep(0.01)


def _sign_anew(certs: Path) -> None:
    """A pair that does not match is refused first; then a new one takes its place."""
    kept = (certs / "broker.key").read_bytes()
    (certs / "broker.key").write_bytes((certs / "app.key").read_bytes())
    (certs / "broker.key").write_bytes(kept)
    for name in ("broker.pem", "broker.key"):
        (certs / name).unlink()
    subject = Subject("broker", "broker", ("localhost", "127.0.0.1"))
    make_authority(certs, [subject], now=datetime.now(UTC), days=2)


def test_danube_admin_proves_itself_by_a_token(secured: Secured) -> None:
    done = secured.admin("brokers", "list", "-o", "json", token=secured.token("root"))
    assert done.returncode == 0, done.stderr
    denied = secured.admin("brokers", "list", token=secured.token("stranger"))
    assert denied.returncode != 0
    assert "no binding grants ManageBroker on the cluster to user:stranger" in denied.stderr


def test_nothing_secret_is_in_the_log(secured: Secured) -> None:
    token = secured.token("root")
    secured.admin("brokers", "list", token=token + "x")
    log = secured.broker.log()
    assert secured.secret not in log
    assert token.rpartition(".")[2] not in log
    assert "Traceback" not in log
