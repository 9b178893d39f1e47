"""The web server before a secured broker: each person logs in with a token or key of her own, and acts as herself."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from danube.admin.access import AccessLevel
from danube.admin.gateway import AdminGateway
from danube.admin.grpc_gateway import open_gateway
from danube.admin.grpc_gateway.broker_connection import ConnectionPool
from danube.admin.grpc_gateway.gateway import GrpcGateway
from danube.admin.local_state import LocalState
from danube.admin.target import Target
from danube.admin.web.protection.exposure import Exposure, check_exposure
from danube.admin.web.serving import serving
from danube.model.calls.security import CreateApiKey, RevokeTokens
from danube.model.errors import SettingsError
from danube.model.records.audit import ReadAudit
from danube.model.security.grants import BindingScope
from danube.model.security.principal import PrincipalKind, TokenScope
from danube.runtime.blocking import BlockingThread
from danube.runtime.clock import SystemClock
from danube.runtime.rng import SystemRng
from danube.testing.in_process_broker import Cell, running_broker
from danube.testing.patience import PATIENCE_S
from danube.wire import plan_messages
from danube.wire.security import messages
from tests.unit.admin.web.site import Page
from tests.unit.broker.security.conftest import ROOT, SecureCell, binding, secure_broker

_GRANTS = "/danube_admin.SecurityAdmin"
PASSING = Exposure(listen_addr="127.0.0.1:0", passes_tokens=True)


@asynccontextmanager
async def served(cell: Cell, authority: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser before the server, which has a certificate."""

    @asynccontextmanager
    async def connect(target: Target) -> AsyncIterator[AdminGateway]:
        assert target.token is None
        pool, runner = ConnectionPool(target, cell.carrier), BlockingThread("admin-files")
        folder = cell.settings.data_dir / "admin"
        yield GrpcGateway(
            pool, LocalState(lambda: folder, target.endpoint, clock=SystemClock(), rng=SystemRng(), runner=runner)
        )
        await pool.close()
        await runner.aclose()

    target = Target(
        endpoint=f"https://{cell.broker.addresses.admin}",
        tls=True,
        token="of whoever started the server",
        timeout_s=PATIENCE_S,
    )
    exposure = Exposure(
        listen_addr="127.0.0.1:0",
        passes_tokens=True,
        certificate=authority / "broker.pem",
        key=authority / "broker.key",
    )
    verify = await asyncio.to_thread(lambda: ssl.create_default_context(cafile=authority / "ca.pem"))
    async with serving(connect, target, exposure) as running:
        assert running.url.startswith("https://")
        async with httpx2.AsyncClient(base_url=running.url, verify=verify, timeout=PATIENCE_S) as client:
            yield client


async def log_in(client: httpx2.AsyncClient, credential: str) -> httpx2.Response:
    page = Page((await client.get("/login")).text)
    fields = {**page.form("/login"), "token": credential}
    return await client.post("/login", data=fields, headers={"origin": str(client.base_url).rstrip("/")})


async def create(client: httpx2.AsyncClient, namespace: str) -> httpx2.Response:
    page = Page((await client.get("/namespaces/create")).text)
    fields = {**page.form("/namespaces/create"), "namespace": namespace}
    origin = {"origin": str(client.base_url).rstrip("/")}
    return await client.post("/namespaces/create", data=fields, headers=origin, follow_redirects=True)


async def recorded(secure: SecureCell) -> set[tuple[str, str]]:
    """Callers and their operations, as the broker recorded them."""
    wanted = plan_messages.READ_AUDIT.encode(ReadAudit(start=0, limit=500))
    found = await secure.channel(secure.token(ROOT)).call("/danube.control.Audit/Read", wanted)
    records = plan_messages.decode_audit_page(found).records
    return {(one.entry.caller.who, one.entry.operation) for one in records}


async def test_each_person_does_what_her_own_token_may_and_is_recorded(secure: SecureCell, authority: Path) -> None:
    root = secure.channel(secure.token(ROOT))
    wanted = binding("ada", "observer", scope=BindingScope.NAMESPACE, resource="default")
    await root.call(f"{_GRANTS}/CreateBinding", messages.CREATE_BINDING.encode(wanted))
    async with served(secure.cell, authority) as client:
        token = secure.token(ROOT)
        answer = await log_in(client, token)
        assert answer.status_code == 303
        assert token not in str(answer.headers)
        assert "secure" in answer.headers["set-cookie"].lower()
        made = await create(client, "by-root")
        assert made.status_code == 200
        assert token not in made.text
        client.cookies.clear()
        assert (await log_in(client, secure.token("ada"))).status_code == 303
        assert (await create(client, "by-ada")).status_code == 403
        seen = (await client.get("/namespaces/list")).text
        assert "by-root" not in seen
        assert "user:ada" in seen
        assert (await client.get("/")).status_code == 200
    assert await recorded(secure) >= {("user:root", "create_namespace"), ("user:ada", "list_namespaces")}


async def test_an_api_key_logs_in_and_a_program_brings_its_token(secure: SecureCell, authority: Path) -> None:
    key = messages.API_KEY_CREATED.decode(
        await secure.channel(secure.token(ROOT)).call(
            "/danube.control.Security/CreateApiKey",
            messages.CREATE_API_KEY.encode(
                CreateApiKey(principal_type=PrincipalKind.USER, principal_name=ROOT, scope=TokenScope.OBSERVER)
            ),
        )
    ).key
    async with served(secure.cell, authority) as client:
        assert (await log_in(client, key)).status_code == 303
        assert "user:root" in (await client.get("/namespaces/list")).text
        assert (await create(client, "by-key")).status_code == 403
        client.cookies.clear()
        bearer = {"authorization": f"Bearer {secure.token(ROOT)}"}
        made = await client.post("/api/v1/namespaces/create", json={"namespace": "by-api"}, headers=bearer)
        assert made.json() == {"namespace": "by-api", "created": True}
        assert (await client.get("/api/v1/namespaces/list")).status_code == 401
        assert (await client.get("/readyz")).status_code == 200


async def test_wrong_credentials_are_refused_and_few_are_tried(secure: SecureCell, authority: Path) -> None:
    forged = secure.token(ROOT)[:-6] + "AAAAAA"
    wrong = ["", "garbage", "a.b.c", forged, "dk_" + "0" * 16 + "_" + "0" * 64, secure.token(ROOT)]
    async with served(secure.cell, authority) as client:
        statuses = [(await log_in(client, each)).status_code for each in wrong]
        assert statuses == [401] * 5 + [429]
        assert "danube_session" not in str(client.cookies)


async def test_a_token_that_is_revoked_sends_its_person_to_the_login(tmp_path: Path, authority: Path) -> None:
    async with (
        secure_broker(tmp_path, authority, super_admins=[ROOT, "boss"]) as secure,
        served(secure.cell, authority) as client,
    ):
        await log_in(client, secure.token(ROOT))
        revocation = messages.REVOKE.encode(RevokeTokens(token_id="id-root"))
        await secure.channel(secure.token("boss")).call("/danube.control.Security/RevokeTokens", revocation)
        answer = await client.get("/namespaces/list")
        assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=%2Fnamespaces%2Flist")
        assert (await client.get("/")).headers["location"] == "/login"


async def test_nobody_logs_in_to_a_cluster_without_security(
    secure: SecureCell, authority: Path, tmp_path: Path
) -> None:
    async with (
        running_broker(tmp_path / "open") as cell,
        served(cell, authority) as client,
    ):
        refused = await log_in(client, secure.token(ROOT))
        assert refused.status_code == 403
        assert "asks nobody who they are" in refused.text


async def test_tokens_are_not_passed_on_in_plain_text() -> None:
    with pytest.raises(SettingsError, match="--pass-tokens needs an https:// endpoint"):
        async with serving(open_gateway, Target(endpoint="http://broker.example:50051"), PASSING):
            pass


@pytest.mark.parametrize("level", list(AccessLevel))
def test_it_needs_no_token_of_the_server(level: AccessLevel) -> None:
    check_exposure(PASSING, level)
