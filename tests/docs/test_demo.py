"""`make demo` does what it says, and leaves nothing behind, however it ends."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from danube.testing.patience import PATIENCE_S

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1_300)]

PUBLISHING = "Publishing"


@pytest.fixture
def demo(
    root: Path, wheel_python: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[subprocess.Popen[str]]:
    """The demo, just started; its temporary folder is below the test's."""
    command: list[str | Path] = [sys.executable, "-m", "scripts.demo", "--wheel-python", wheel_python]
    command += getattr(request, "param", [])
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        yield process
        process.kill()


@pytest.mark.parametrize(
    "demo", [[], pytest.param(["--secure"], marks=pytest.mark.nightly)], ids=["open", "secured"], indirect=True
)
def test_the_demo_brings_every_record_back(demo: subprocess.Popen[str], tmp_path: Path) -> None:
    said, _ = demo.communicate(timeout=1_200)
    assert demo.returncode == 0, said
    assert said.count("3,376 of 3,376 byte for byte, in the order sent") == 2
    assert "kill -9 of the broker" in said
    assert "Left unread: cli 0, wheel 0" in said
    assert "messages were acknowledged meanwhile: 0 lost" in said
    assert re.search(r"the imbalance fell from \d\.\d\d to \d\.\d\d", said)
    approved = said.index("danube-admin plans approve", said.index("12/14"))
    assert said.index("before: ") < approved < said.index("after: ")
    assert len(re.findall(r"broker [\d.]+:\d+ +\d subscriptions, [\d,]+ messages unread", said)) == 3
    assert list(tmp_path.iterdir()) == []
    assert processes_of(said) == []


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)])
def test_an_interrupted_demo_leaves_nothing_behind(
    number: signal.Signals, demo: subprocess.Popen[str], tmp_path: Path
) -> None:
    assert demo.stdout is not None
    said = ""
    while PUBLISHING not in said and (line := demo.stdout.readline()):
        said += line
    demo.send_signal(number)
    said += demo.stdout.read()
    assert demo.wait(timeout=PATIENCE_S) == 130, said
    assert list(tmp_path.iterdir()) == []
    assert processes_of(said) == []


def processes_of(said: str) -> list[int]:
    """The brokers that the demo told of and that are still there."""
    return [pid for pid in map(int, re.findall(r"pid (\d+)", said)) if Path(f"/proc/{pid}").exists()]
