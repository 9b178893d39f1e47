"""A broker in the process with security on, and the tokens of its callers."""

import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from danube.model.calls.admin import CreateTopic
from danube.model.security.grants import Binding, BindingScope, Permission, Role
from danube.model.security.principal import PrincipalKind, PrincipalName, TokenScope
from danube.model.topic import DispatchStrategy, TopicName
from danube.rpc.carrier import Channel
from danube.runtime.clock import SystemClock
from danube.security.certificate_authority import Subject, make_authority
from danube.security.tokens import TokenClaims, issue
from danube.testing.in_process_broker import Cell, running_broker
from danube.testing.patience import PATIENCE_S
from danube.wire import admin_messages

ROOT = "root"
NO_MORE: Mapping[str, Any] = {}
OWN, FOREIGN = "/default/mine", "/other/theirs"


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CA with a broker's and a client's certificate."""
    folder = tmp_path_factory.mktemp("certificates")
    subjects = [Subject("broker", "broker-1", ("localhost", "127.0.0.1")), Subject("client", "app")]
    make_authority(folder, subjects, now=datetime.now(UTC), days=2)
    return folder


@dataclass(frozen=True, slots=True)
class SecureCell:
    """A broker, and what its callers prove themselves with."""

    cell: Cell
    secret: bytes

    def token(self, name: str, scope: TokenScope = TokenScope.ADMIN, **claims: Any) -> str:
        now_s = SystemClock().now_ms() / 1_000
        given = {"expires_s": now_s + 3_600, "issued_s": now_s, "token_id": f"id-{name}", **claims}
        principal = PrincipalName(given.pop("kind", PrincipalKind.USER), name)
        return issue(TokenClaims(principal=principal, issuer="danube-auth", scope=scope, **given), self.secret)

    def channel(self, token: str | None, *, admin: bool = True) -> "Proven":
        addresses = self.cell.broker.addresses
        return Proven(self.cell.carrier.connect(addresses.admin if admin else addresses.broker), token)

    async def create_topic(self, name: str) -> None:
        wanted = CreateTopic(topic=TopicName.parse(name), strategy=DispatchStrategy.RELIABLE)
        root = self.channel(self.token(ROOT))
        await root.call("/danube_admin.TopicAdmin/CreateTopic", admin_messages.CREATE_TOPIC.encode(wanted))


@dataclass(frozen=True, slots=True)
class Proven:
    """A channel of somebody; None proves nothing."""

    channel: Channel
    token: str | None

    @property
    def metadata(self) -> list[tuple[str, str]]:
        return [] if self.token is None else [("authorization", f"Bearer {self.token}")]

    async def call(self, path: str, request: bytes = b"") -> bytes:
        return await self.channel.call(path, request, timeout_s=PATIENCE_S, metadata=self.metadata)


@asynccontextmanager
async def secure_broker(
    folder: Path, authority: Path, more: Mapping[str, Any] = NO_MORE, **auth: Any
) -> AsyncIterator[SecureCell]:
    """A broker whose first administrator is ROOT; `more` are settings beside those of `auth`."""
    secret_file, secret = folder / "tokens.secret", secrets.token_hex(32)
    secret_file.write_text(secret)
    secret_file.chmod(0o600)
    settings = {
        "mode": "tls",
        "tls_cert": authority / "broker.pem",
        "tls_key": authority / "broker.key",
        "jwt_secret_file": secret_file,
        "super_admins": [ROOT],
        **auth,
    }
    async with running_broker(folder / "data", auth=settings, bootstrap_namespaces=["other"], **more) as cell:
        yield SecureCell(cell, secret.encode())


@pytest.fixture
async def secure(tmp_path: Path, authority: Path) -> AsyncIterator[SecureCell]:
    async with secure_broker(tmp_path, authority) as cell:
        yield cell


def role(name: str, *permissions: Permission) -> Role:
    return Role(name=name, permissions=permissions)


def binding(principal: str, *roles: str, scope: BindingScope = BindingScope.CLUSTER, resource: str = "") -> Binding:
    return Binding(
        id=f"{principal}-{scope}",
        principal_type=PrincipalKind.USER,
        principal_name=principal,
        role_names=roles,
        scope=scope,
        resource_name=resource,
    )


Grant = Callable[..., Any]
