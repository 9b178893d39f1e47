"""Answers of an S3 server to the obstore that is installed, over HTTP: it tells refusals by its text alone."""

from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from danube.objects.opening import open_objects
from danube.objects.place import Adapter, ObjectPlace
from danube.objects.store import ObjectStore, StoreBusyError, StoreRefusedError
from danube.testing.patience import PATIENCE_S

OLD_TAG = '"old"'
REQUESTS: dict[str, Callable[[ObjectStore], object]] = {
    "head": lambda store: store.size("a"),
    "get": lambda store: store.get("a"),
    "range": lambda store: store.get("a", 10, 10),
    "put": lambda store: store.put("a", [b"1"]),
    "create": lambda store: store.put_if_absent("a", [b"1"]),
    "swap": lambda store: store.swap("a", [b"1"], OLD_TAG),
    "list": lambda store: store.listing("folder/"),
    "folders": lambda store: store.folders("folder/"),
    "delete": lambda store: store.delete(["a"]),
}
READS = ("head", "get", "range")
WRITES = ("create", "swap")


class Answering(BaseHTTPRequestHandler):
    """Answers every request with one refusal, in the words of S3; one to HEAD has none."""

    protocol_version = "HTTP/1.1"

    def __init__(self, *connection: object, status: int, code: str) -> None:
        self._status, self._code = status, code
        super().__init__(*connection)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = f"<Error><Code>{self._code}</Code><Message>as the store says</Message></Error>".encode()
        self.send_response(self._status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 - as the library calls them

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Iterator[ObjectStore]:
    """A store that answers with the status and the code of the test."""
    status, code = request.param
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Answering, status=status, code=code)) as server:
        server.daemon_threads = True
        serving = Thread(target=server.serve_forever, args=[0.01], daemon=True)
        serving.start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        keys = {"region": "us-east-1", "access_key": "key", "secret_key": "secret"}
        yield open_objects(ObjectPlace.of("s3://bkt/prefix/", adapter=Adapter.OBSTORE, endpoint=endpoint, **keys))
        server.shutdown()
        serving.join(PATIENCE_S)


@pytest.mark.parametrize(
    ("store", "said"),
    [
        ((404, "NoSuchBucket"), "there is no such bucket: make it"),
        ((403, "InvalidAccessKeyId"), "correct the keys"),
        ((403, "SignatureDoesNotMatch"), "the secret key does not fit"),
        ((400, "ExpiredToken"), "get a new one"),
        ((403, "AccessDenied"), "allow them to get, put, list and delete"),
        ((403, "RequestTimeTooSkewed"), "set it by NTP"),
        ((400, "AuthorizationHeaderMalformed"), "correct object_store.region"),
        ((301, "PermanentRedirect"), "another region"),
        ((501, "NotImplemented"), "use a store with conditional writes"),
    ],
    indirect=["store"],
    ids=lambda value: str(value[1]) if isinstance(value, tuple) else "",
)
def test_a_refusal_is_told_as_one_whatever_was_asked_for(store: ObjectStore, said: str) -> None:
    for name, ask in REQUESTS.items():
        with pytest.raises(StoreRefusedError) as refused:
            ask(store)
        assert said in str(refused.value), name


@pytest.mark.parametrize(
    "store", [(503, "SlowDown"), (500, "InternalError"), (400, "RequestTimeout")], indirect=True, ids=str
)
def test_a_store_that_asks_to_try_again_is_busy(store: ObjectStore) -> None:
    for ask in REQUESTS.values():
        with pytest.raises(StoreBusyError):
            ask(store)


@pytest.mark.parametrize("store", [(404, "NoSuchKey")], indirect=True, ids=str)
def test_an_absent_object_is_absent(store: ObjectStore) -> None:
    for name in READS:
        with pytest.raises(FileNotFoundError):
            REQUESTS[name](store)
    store.delete(["a"])


@pytest.mark.parametrize(
    "store", [(412, "PreconditionFailed"), (409, "ConditionalRequestConflict")], indirect=True, ids=str
)
def test_another_version_is_told_as_one(store: ObjectStore) -> None:
    for name in WRITES:
        with pytest.raises(FileExistsError):
            REQUESTS[name](store)
