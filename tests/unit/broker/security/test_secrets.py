"""Planted secrets are nowhere but where they were put: logs, audit, plans, metrics, errors and files have none."""

import asyncio
import logging
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from danube.model.calls.security import CreateApiKey
from danube.model.errors import DanubeError
from danube.model.records.audit import ReadAudit
from danube.model.security.principal import PrincipalKind, TokenScope
from danube.wire import plan_messages
from danube.wire.security import messages
from tests.unit.broker.security.conftest import OWN, ROOT, Proven, SecureCell, secure_broker
from tests.unit.broker.security.test_http_ports import Ports
from tests.unit.broker.security.test_matrix import first_answer, requests

_FILES = {"tokens.secret"}
"""Where the operator put them."""


@pytest.mark.slow  # it makes every call four times
async def test_planted_secrets_are_found_nowhere(
    tmp_path: Path, authority: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await asyncio.to_thread(import_module, "danube.rpc.http_port")  # which asks for the working directory
    more = {"prom_exporter": "127.0.0.1:0", "schema_http_addr": "127.0.0.1:0"}
    async with secure_broker(tmp_path, authority, more) as secure:
        tokens = {
            "root": secure.token(ROOT),
            "observer": secure.token(ROOT, TokenScope.OBSERVER),
            "stranger": secure.token("stranger"),
            "foreign": secure.token(ROOT)[:-40] + "planted-signature-that-nobody-made-before",
        }
        key = await created_key(secure.channel(tokens["root"]))
        told = [await told_by(secure, token) for token in tokens.values()]
        told.append(await exchanged(secure, key))
        ports = Ports(secure, authority / "ca.pem")
        for token in tokens.values():
            told += [str(await ports.ask(at, path, f"Bearer {token}")) for at, path in places(ports)]
        root = secure.channel(tokens["root"])
        wanted = plan_messages.READ_AUDIT.encode(ReadAudit(start=0, limit=500))
        audit = await root.call("/danube.control.Audit/Read", wanted)
        told.append((audit + await root.call("/danube.control.Plans/ListPlans")).decode(errors="replace"))
    told += [caplog.text, *await asyncio.to_thread(lambda: list(written(tmp_path)))]
    planted = [
        secure.secret.decode(),
        key,
        key.rpartition("_")[2],
        *(one.rpartition(".")[2] for one in tokens.values()),
    ]
    assert len("".join(told)) > 10_000
    assert [secret[:6] for secret in planted if any(secret in text for text in told)] == []


async def created_key(root: Proven) -> str:
    wanted = messages.CREATE_API_KEY.encode(
        CreateApiKey(principal_type=PrincipalKind.SERVICE_ACCOUNT, principal_name="app", scope=TokenScope.ADMIN)
    )
    return messages.API_KEY_CREATED.decode(await root.call("/danube.control.Security/CreateApiKey", wanted)).key


async def told_by(secure: SecureCell, token: str) -> str:
    """All answers and errors of every call that destroys nothing, with a token."""
    told = []
    for path, request, is_admin, streams in requests(OWN):
        channel = secure.channel(token, admin=is_admin)
        try:
            if streams:
                await first_answer(channel.channel.stream(path, metadata=channel.metadata), request)
            elif not path.endswith("/CreateApiKey"):  # the one answer that has a key
                told.append((await channel.call(path, request)).decode(errors="replace"))
        except DanubeError as error:
            told.append(str(error))
    return "\n".join(told)


async def exchanged(secure: SecureCell, key: str) -> str:
    """Errors of exchanges with a key that is nearly right, and of a call with its token."""
    channel, wrong = secure.channel(None, admin=False), key[:-1] + ("0" if key[-1] != "0" else "1")
    await channel.call("/danube.AuthService/Authenticate", messages.AUTHENTICATE.encode(key))
    try:
        await channel.call("/danube.AuthService/Authenticate", messages.AUTHENTICATE.encode(wrong))
    except DanubeError as error:
        return str(error)
    raise AssertionError("a wrong key was exchanged")


def places(ports: Ports) -> list[tuple[str, str]]:
    return [(ports.metrics, "/metrics"), (ports.metrics, "/health"), (ports.schemas, "/subjects")]


def written(folder: Path) -> Iterator[str]:
    """Everything that the broker has on its disk: journal, metadata, segments."""
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in _FILES:
            yield path.read_bytes().rstrip(b"\0").decode("latin-1")  # files are made larger ahead
