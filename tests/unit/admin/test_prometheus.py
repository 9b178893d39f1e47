"""Prometheus' API, spoken by a small HTTP server here; `tests/cluster/test_prometheus.py` has a real one."""

import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import pytest

from danube.admin.gateway import PromQuery, PromSeries
from danube.admin.grpc_gateway.prometheus import Prometheus
from danube.model.errors import (
    DanubeError,
    DeadlineExceededError,
    InvalidRequestError,
    NotPermittedError,
    SettingsError,
    UnavailableError,
)
from danube.testing.patience import PATIENCE_S

SECRET = "s3cr3t"


class Server(ThreadingHTTPServer):
    """Answers each request with `status` and `body`, and keeps what it was asked."""

    daemon_threads = False
    """Closing it waits for what it still answers."""
    status = 200
    body = b""
    location = ""
    held: threading.Event | None = None

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, dict[str, list[str]], str | None]] = []

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    def says(self, data: object) -> None:
        self.status, self.body = 200, json.dumps({"status": "success", "data": data}).encode()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        form = self.rfile.read(int(self.headers["content-length"])).decode()
        server.asked.append((self.path, parse_qs(form), self.headers["authorization"]))
        if server.held is not None:
            server.held.wait(PATIENCE_S)
        self.send_response(server.status)
        if server.location:
            self.send_header("location", server.location)
        self.send_header("content-length", str(len(server.body)))
        self.end_headers()
        self.wfile.write(server.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the library names it
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


async def ask(
    server: Server, query: PromQuery | None = None, *, who: str = "", timeout_s: float = PATIENCE_S
) -> Sequence[PromSeries]:
    prometheus = Prometheus(f"http://{who}{server.host}/prom/", timeout_s)
    return await prometheus.ask(query or PromQuery(query="up"))


async def refused(server: Server, **given: object) -> DanubeError:
    with pytest.raises(DanubeError) as caught:
        await ask(server, **given)  # type: ignore[arg-type]
    return caught.value


async def test_instant_and_range_queries_have_their_series(server: Server) -> None:
    server.says({"resultType": "vector", "result": [{"metric": {"job": "x"}, "value": [1.5, "NaN"]}]})
    (found,) = await ask(server, who=f"ada:{SECRET}@")
    assert (found.labels, found.points[0][0]) == ({"job": "x"}, 1_500)
    path, form, authorization = server.asked[0]
    assert (path, form) == ("/prom/api/v1/query", {"query": ["up"]})
    assert authorization == "Basic YWRhOnMzY3IzdA=="
    server.says({"resultType": "matrix", "result": [{"metric": {}, "values": [[1, "2"], [2, "+Inf"]]}]})
    (found,) = await ask(server, PromQuery(query="up", start_ms=1_000, end_ms=2_000, step_s=1))
    assert found.points == [(1_000, 2.0), (2_000, float("inf"))]
    assert server.asked[1][1] == {"query": ["up"], "start": ["1.000"], "end": ["2.000"], "step": ["1"]}
    server.says({"resultType": "scalar", "result": [3, "4"]})
    (found,) = await ask(server)
    assert found.points == [(3_000, 4.0)]


async def test_a_wrong_query_is_refused_in_the_words_of_prometheus(server: Server) -> None:
    server.status = 400
    server.body = b'{"status":"error","errorType":"bad_data","error":"parse error: unexpected end"}'
    error = await refused(server)
    assert isinstance(error, InvalidRequestError)
    assert "parse error: unexpected end" in str(error)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (200, b"<html>", UnavailableError),
        (503, b'{"status":"error","errorType":"unavailable","error":"starting"}', UnavailableError),
        (401, b"{}", NotPermittedError),
        (200, b'{"status":"success","data":{"resultType":"vector","result":[{"metric":1}]}}', DanubeError),
        (200, b" " * (9 * 1024 * 1024), InvalidRequestError),
    ],
)
async def test_other_answers_are_errors_without_the_password(
    server: Server, status: int, body: bytes, kind: type[DanubeError]
) -> None:
    server.status, server.body = status, body
    error = await refused(server, who=f"ada:{SECRET}@")
    assert isinstance(error, kind)
    assert SECRET not in str(error)


async def test_a_redirect_is_not_followed(server: Server) -> None:
    server.status, server.location = 302, f"http://{server.host}/elsewhere"
    await refused(server, who=f"ada:{SECRET}@")
    assert len(server.asked) == 1


async def test_a_silent_or_absent_prometheus_is_named(server: Server) -> None:
    server.held = threading.Event()
    assert isinstance(await refused(server, timeout_s=0.05), DeadlineExceededError)
    server.held.set()
    absent = Prometheus("http://127.0.0.1:1", PATIENCE_S)
    with pytest.raises(UnavailableError, match=r"no Prometheus answers at http://127\.0\.0\.1:1"):
        await absent.ask(PromQuery(query="up"))


@pytest.mark.parametrize("url", ["prometheus:9090", "file:///etc/passwd", "http://", "http://h/?a=1"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="no address of a Prometheus"):
        Prometheus(url, 1.0)
