"""Ports of a secured broker that speak HTTP: TLS, who asks, and what each of them is shown."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import pytest

from danube.model.records.audit import Origin, Outcome, ReadAudit
from danube.model.security.grants import BindingScope
from danube.model.security.principal import TokenScope
from danube.rpc.address import split_address
from danube.security.certificate_authority import Subject, make_authority
from danube.testing.patience import PATIENCE_S
from danube.wire import plan_messages
from danube.wire.security import messages
from tests.unit.broker.security.conftest import FOREIGN, OWN, ROOT, SecureCell, binding, secure_broker

SCHEMA = {"schema": '{"type": "string"}'}


@dataclass(frozen=True, slots=True)
class Ports:
    """The HTTP ports of a broker, and clients that trust its CA."""

    secure: SecureCell
    ca: Path

    @property
    def metrics(self) -> str:
        return self.secure.cell.broker.addresses.metrics or ""

    @property
    def schemas(self) -> str:
        return self.secure.cell.broker.addresses.schemas or ""

    async def ask(
        self,
        address: str,
        path: str,
        proof: str = "",
        body: object = None,
        *,
        ca: bool = True,
        certificate: Path | None = None,
        method: str = "",
    ) -> tuple[int, str]:
        """Status and body; `certificate` names the two files of a client's."""

        def context() -> ssl.SSLContext:
            made = ssl.create_default_context(cafile=self.ca if ca else None)
            if certificate is not None:
                made.load_cert_chain(certificate.with_suffix(".pem"), certificate.with_suffix(".key"))
            return made

        tls = await asyncio.to_thread(context)
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection(*split_address(address), ssl=tls)
            with closing(writer):
                content = b"" if body is None else json.dumps(body).encode()
                lines = [
                    f"{method or ('GET' if body is None else 'POST')} {path} HTTP/1.0",
                    f"content-length: {len(content)}",
                ]
                lines += [f"authorization: {proof}"] if proof else []
                writer.write("\r\n".join([*lines, "", ""]).encode() + content)
                answer = (await reader.read()).decode()
        return int(answer.split()[1]), answer.partition("\r\n\r\n")[2]

    def bearer(self, name: str, scope: TokenScope = TokenScope.ADMIN) -> str:
        return f"Bearer {self.secure.token(name, scope)}"


@pytest.fixture
async def ports(tmp_path: Path, authority: Path) -> AsyncIterator[Ports]:
    await asyncio.to_thread(import_module, "danube.rpc.http_port")  # which asks for the working directory
    more = {"prom_exporter": "127.0.0.1:0", "schema_http_addr": "127.0.0.1:0"}
    async with secure_broker(tmp_path, authority, more) as secure:
        yield Ports(secure, authority / "ca.pem")


async def test_metrics_show_the_topics_that_a_principal_sees_and_no_names_of_others(ports: Ports) -> None:
    root = ports.secure.channel(ports.secure.token(ROOT))
    for name in (OWN, FOREIGN):
        await ports.secure.create_topic(name)
    wanted = binding("tenant", "consumer", scope=BindingScope.NAMESPACE, resource="default")
    await root.call("/danube_admin.SecurityAdmin/CreateBinding", messages.CREATE_BINDING.encode(wanted))
    status, whole = await ports.ask(ports.metrics, "/metrics", ports.bearer(ROOT))
    assert (status, OWN in whole, FOREIGN in whole) == (200, True, True)
    assert 'danube_security_calls_total{outcome="allowed"}' in whole
    assert "danube_security_certificate_expiry_timestamp_seconds" in whole
    status, part = await ports.ask(ports.metrics, "/metrics", ports.bearer("tenant"))
    assert (status, OWN in part, "other" in part, "danube_journal" in part) == (200, True, False, False)
    assert await ports.ask(ports.metrics, "/metrics", ports.bearer("stranger")) == (200, "")


async def test_without_proof_there_is_health_and_nothing_else(ports: Ports) -> None:
    status, body = await ports.ask(ports.metrics, "/health")
    assert (status, json.loads(body)["status"]) == (200, "ok")
    assert "T" in json.loads(body)["certificate_expires"]
    for proof in ("", "Bearer garbage", "Basic !", "Basic " + base64.b64encode(b"root:garbage").decode()):
        assert (await ports.ask(ports.metrics, "/metrics", proof))[0] == 401
        assert (await ports.ask(ports.schemas, "/subjects", proof))[0] == 401
    with pytest.raises(ssl.SSLError):
        await ports.ask(ports.metrics, "/health", ca=False)


async def test_schemas_over_http_are_allowed_or_refused_as_over_grpc(ports: Ports) -> None:
    path = "/subjects/orders/versions"
    assert (await ports.ask(ports.schemas, path, ports.bearer("stranger"), SCHEMA))[0] == 403
    assert (await ports.ask(ports.schemas, path, ports.bearer(ROOT, TokenScope.OBSERVER), SCHEMA))[0] == 403
    as_password = "Basic " + base64.b64encode(b"any:" + ports.secure.token(ROOT).encode()).decode()
    assert (await ports.ask(ports.schemas, path, as_password, SCHEMA))[0] == 200
    for proof, listed in ((ports.bearer(ROOT), ["orders"]), (ports.bearer("stranger"), [])):
        status, body = await ports.ask(ports.schemas, "/subjects", proof)
        assert (status, json.loads(body)) == (200, listed)
    for asked in (path, "/subjects/orders/versions/1", "/schemas/ids/1", "/config"):
        assert (await ports.ask(ports.schemas, asked, ports.bearer(ROOT)))[0] == 200, asked
        assert (await ports.ask(ports.schemas, asked, ports.bearer("stranger")))[0] == 403, asked


async def test_a_mode_that_is_set_over_http_is_recorded_and_one_that_is_asked_for_is_not(ports: Ports) -> None:
    root = ports.secure.channel(ports.secure.token(ROOT))
    assert (await ports.ask(ports.schemas, "/config", ports.bearer(ROOT)))[0] == 200
    proof, wanted_mode = ports.bearer(ROOT), {"compatibility": "FULL"}
    assert (await ports.ask(ports.schemas, "/subjects/orders/versions", proof, SCHEMA))[0] == 200
    assert (await ports.ask(ports.schemas, "/config/orders", proof, wanted_mode, method="PUT"))[0] == 200
    proof = ports.bearer("stranger")
    assert (await ports.ask(ports.schemas, "/config/orders", proof, wanted_mode, method="PUT"))[0] == 403
    wanted = plan_messages.READ_AUDIT.encode(ReadAudit(start=0, limit=10))
    page = plan_messages.decode_audit_page(await root.call("/danube.control.Audit/Read", wanted))
    found, end, refused = [each for each in page.records if each.entry.operation == "set_schema_compatibility_mode"]
    assert (found.entry.outcome, end.entry.outcome) == (Outcome.STARTED, Outcome.DONE)
    assert (refused.entry.outcome, refused.entry.caller.who) == (Outcome.REFUSED, "user:stranger")
    assert (found.entry.caller.who, found.origin) == ("user:root", Origin.SEEN)
    assert found.entry.arguments["subject"] == "orders"


async def test_a_client_certificate_of_the_cluster_is_proof_and_one_of_another_is_none(
    tmp_path: Path, authority: Path
) -> None:
    await asyncio.to_thread(import_module, "danube.rpc.http_port")  # which asks for the working directory
    foreign = tmp_path / "foreign"
    subjects = [Subject("client", "app")]
    await asyncio.to_thread(lambda: make_authority(foreign, subjects, now=datetime.now(UTC), days=2))
    more = {"prom_exporter": "127.0.0.1:0", "schema_http_addr": "127.0.0.1:0"}
    async with secure_broker(
        tmp_path, authority, more, tls_ca=authority / "ca.pem", super_admins=["service_account:app"]
    ) as secure:
        ports, app = Ports(secure, authority / "ca.pem"), authority / "client"
        status, body = await ports.ask(ports.metrics, "/metrics", certificate=app)
        assert (status, "danube_security_calls_total" in body) == (200, True)
        path = "/subjects/orders/versions"
        assert (await ports.ask(ports.schemas, path, body=SCHEMA, certificate=app))[0] == 200
        assert (await ports.ask(ports.metrics, "/metrics", "Bearer garbage", certificate=app))[0] == 401
        with pytest.raises((ssl.SSLError, ConnectionError, IndexError)):  # cut in the handshake, or right behind it
            await ports.ask(ports.metrics, "/metrics", certificate=foreign / "client")
