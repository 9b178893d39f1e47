"""`danube` as a process, at a broker."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Self

from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess
from tests.plugins import fork_server

ROOT = Path(__file__).parents[2]


class Danube:
    """The command, with its broker in the environment, and a topic that no other test knows."""

    def __init__(self, broker: BrokerProcess, topic: str) -> None:
        self._environment = {"PATH": os.environ["PATH"], "DANUBE_SERVICE_ADDR": broker.endpoints.service_url}
        self.topic = topic
        self.create = ("consume", "-t", topic, "-s", "s", "--count", "0")
        self.raw = ("consume", "-t", topic, "-s", "s", "-o", "raw")

    def with_subscription(self) -> Self:
        """With one message in its topic, which is reliable, and after it the subscription `s`."""
        self.done("produce", "-t", self.topic, "-m", "before")
        self.done(*self.create)
        return self

    def __call__(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return fork_server.run(
            self._command(arguments), stdin=stdin, folder=ROOT, variables=self._environment, timeout_s=PATIENCE_S
        )

    def done(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """What it wrote, having succeeded."""
        ended = self(*arguments, stdin=stdin)
        assert ended.returncode == 0, ended.stderr.decode()
        return ended.stdout

    def refused(self, code: int, *arguments: str, stdin: bytes = b"") -> str:
        """The one sentence with which it failed; a report may come before it."""
        ended = self(*arguments, stdin=stdin)
        assert (ended.returncode, ended.stdout) == (code, b""), ended.stderr.decode()
        assert b"Traceback" not in ended.stderr
        *report, sentence = ended.stderr.decode().strip().splitlines()
        assert all("sent" in line or "received" in line for line in report)
        return sentence

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command(arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=self._environment,
        )

    @staticmethod
    def _command(arguments: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "danube.cli", *arguments]
