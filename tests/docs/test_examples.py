"""Every documented example runs, against a real broker; the ones that claim it also with the published client."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from danube.testing.process import BrokerProcess

pytestmark = pytest.mark.cluster


def test_the_hello_example_runs_with_our_client(root: Path, broker: BrokerProcess) -> None:
    assert output_of(sys.executable, root / "examples/hello.py", broker) == "hello, world {'language': 'en'}\n"


def test_the_hello_example_runs_unchanged_with_the_published_client(
    root: Path, wheel_python: Path, broker: BrokerProcess
) -> None:
    assert output_of(wheel_python, root / "examples/hello.py", broker) == "hello, world {'language': 'en'}\n"


def output_of(python: str | Path, program: Path, broker: BrokerProcess) -> str:
    """What the program prints; it must end well and say nothing on stderr."""
    environment = {"PATH": os.environ["PATH"], "GRPC_VERBOSITY": "NONE"}
    if python == sys.executable:
        environment["PYTHONPATH"] = str(program.parents[1])
    command = [python, program, broker.endpoints.service_url]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
