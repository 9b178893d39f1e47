"""Deletion of several objects at once in stores that ask for Content-MD5, as MinIO of before 2025 does."""

import base64
import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from danube.objects.opening import open_objects
from danube.objects.place import Adapter, ObjectPlace

REFUSED = b"<Error><Code>MissingContentMD5</Code><Message>Missing required header: Content-Md5</Message></Error>"
DELETED = b"<DeleteResult><Deleted><Key>prefix/first</Key></Deleted></DeleteResult>"


class StrictStore(BaseHTTPRequestHandler):
    """A store that deletes nothing without a right Content-MD5."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        wanted = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        is_right = self.headers.get("Content-MD5") == wanted
        answer = DELETED if is_right else REFUSED
        self.send_response(200 if is_right else 400)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), StrictStore) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


@pytest.mark.parametrize("adapter", Adapter)
def test_objects_are_deleted_in_a_store_that_wants_content_md5(endpoint: str, adapter: Adapter) -> None:
    how = {"region": "us-east-1", "access_key": "a", "secret_key": "b", "adapter": adapter}
    store = open_objects(ObjectPlace.of("s3://bucket/prefix", endpoint=endpoint, **how))
    store.delete(["first", "second"])  # a refusal would raise
    store.close()
