"""A broker process with TLS, tokens and client certificates: the published client, ours, and danube-admin."""

import asyncio
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from danube.client import DanubeClient, DanubeClientBuilder, DispatchStrategy
from danube.model.errors import BrokerUnreachableError, DanubeError, NotPermittedError, UnauthenticatedError
from danube.model.security.principal import PrincipalKind, PrincipalName
from danube.security.tokens import TokenClaims, issue
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]

PROGRAM = Path(__file__).parent / "wheel" / "secure_program.py"
BIN = Path(sys.executable).parent


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
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    certs, secret = folder / "certs", secrets.token_hex(32)
    command = [str(BIN / "danube-broker"), "certs", "init", str(certs), "--client", "app", "--client", "nobody"]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)
    secret_file = folder / "tokens.secret"
    secret_file.write_text(secret)
    secret_file.chmod(0o600)
    settings = {
        "auth_mode": "tls",
        "auth_tls_cert": str(certs / "broker.pem"),
        "auth_tls_key": str(certs / "broker.key"),
        "auth_tls_ca": str(certs / "ca.pem"),
        "auth_jwt_secret_file": str(secret_file),
        "auth_super_admins": "root,app",
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
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
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
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)
    return str(tmp_path / "other" / "ca.pem")


async def test_a_server_of_a_foreign_authority_is_not_spoken_to(secured: Secured, foreign_ca: str) -> None:
    def foreign() -> DanubeClientBuilder:
        return DanubeClientBuilder().service_url(secured.url).with_tls(foreign_ca).with_token(secured.token("root"))

    with pytest.raises(BrokerUnreachableError):
        await publish(foreign, "/default/ours")


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
