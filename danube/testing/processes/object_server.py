"""Object stores to test against: moto's server, the embedded default, and versitygw, an independent one on a folder."""

import http.client
import importlib.util
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from danube.model.errors import UnavailableError
from danube.objects.place import Adapter, ObjectPlace
from danube.testing.processes.service import ServiceProcess

BUCKET = "danube"
ACCESS_KEY, SECRET_KEY, REGION = "danube-test", "danube-test-secret", "us-east-1"
_TIMEOUT_S = 2.0


class ObjectServer(ServiceProcess):
    """One server of the S3 protocol on loopback, with the bucket `danube`."""

    @property
    def endpoint(self) -> str:
        """Its address as a setting."""
        return f"http://{self.address}"

    @property
    def variables(self) -> dict[str, str]:
        """Keys for processes that use it."""
        return {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_REGION": REGION}

    def place(self, prefix: str = "", adapter: Adapter = Adapter.S3FS, **rest: object) -> ObjectPlace:
        """Its bucket below a prefix."""
        given: dict[str, object] = {
            "endpoint": self.endpoint,
            "region": REGION,
            "access_key": ACCESS_KEY,
            "secret_key": SECRET_KEY,
        }
        return ObjectPlace.of(f"s3://{BUCKET}/{prefix}", adapter=adapter, **{**given, **rest})

    def _ask(self, method: str, path: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_TIMEOUT_S)
        try:
            connection.request(method, path, headers=self._headers())
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()

    def _headers(self) -> dict[str, str]:
        return {}

    def _serves(self) -> bool:
        return self._ask("GET", "/") != 0


_MOTO = """
import threading, sys
from moto import server
in_turn, application = threading.Lock(), server.DomainDispatcherApplication.__call__
def answer_alone(self, *request):
    with in_turn:
        return application(self, *request)
server.DomainDispatcherApplication.__call__ = answer_alone
server.main(sys.argv[1:])
"""
"""moto answers in threads, and does not take turns between asking whether an object is there and making it."""


class MotoServer(ObjectServer):
    """moto's server in a process: everything is in its memory, and gone when it ends."""

    name = "moto"

    def __init__(self, folder: Path) -> None:
        """Raises UnavailableError where moto is not installed."""
        super().__init__(folder)
        if importlib.util.find_spec("moto") is None or importlib.util.find_spec("flask") is None:
            raise UnavailableError("there is no moto: install moto[s3], flask and flask-cors, as `make test` does")

    def _command(self) -> Sequence[str]:
        return [sys.executable, "-c", _MOTO, "-H", "127.0.0.1", "-p", str(self.port)]

    def _headers(self) -> dict[str, str]:
        scope = f"{ACCESS_KEY}/20260101/{REGION}/s3/aws4_request"
        return {"Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"}

    def _serves(self) -> bool:
        return self._ask("PUT", f"/{BUCKET}") == http.client.OK


class VersityServer(ObjectServer):
    """versitygw on a folder. Its binary is on the path, or named by DANUBE_TEST_VERSITYGW."""

    name = "versitygw"

    def __init__(self, folder: Path) -> None:
        """Raises UnavailableError where there is no versitygw."""
        super().__init__(folder)
        found = os.environ.get("DANUBE_TEST_VERSITYGW") or shutil.which("versitygw")
        if not found:
            raise UnavailableError(
                "there is no versitygw: go install github.com/versity/versitygw/cmd/versitygw@v1.8.0"
            )
        self._binary = found
        (folder / "buckets" / BUCKET).mkdir(parents=True, exist_ok=True)
        self._variables |= {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}

    def _command(self) -> Sequence[str]:
        return [self._binary, "--port", self.address, "--region", REGION, "posix", str(self.folder / "buckets")]
