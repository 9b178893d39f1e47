"""The commands that the README shows are run, as shown but for the port."""

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess
from tests.plugins import fork_server

pytestmark = pytest.mark.cluster


def test_the_five_minutes_of_the_readme_work(root: Path, broker: BrokerProcess) -> None:
    make_topic, consume, produce = shown_commands(root / "README.md")
    run(make_topic, root, broker)
    run(f"{consume} --count 0", root, broker)  # what it does first, and then waits
    run(produce, root, broker)
    assert "hello, world" in run(f"{consume} --count 1", root, broker)


@pytest.mark.parametrize("command", ["--help", "settings --explain"])
def test_the_broker_says_what_can_be_set(command: str, root: Path, broker: BrokerProcess) -> None:
    assert "data_dir" in run(f"danube-broker {command}", root, broker).replace("data-dir", "data_dir")


def shown_commands(document: Path) -> list[str]:
    """The lines that begin with `danube `, in order."""
    blocks = re.findall(r"```sh\n(.*?)```", document.read_text(), flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith("danube ")]


def run(command: str, root: Path, broker: BrokerProcess) -> str:
    """What the command writes to stdout; it must end well."""
    name, *arguments = shlex.split(command)
    module = {"danube": "danube.cli", "danube-broker": "danube.broker"}[name]
    environment = {
        "PATH": os.environ["PATH"],
        "DANUBE_SERVICE_ADDR": broker.endpoints.service_url,
    }
    full = [sys.executable, "-m", module, *arguments]
    done = fork_server.run_text(full, folder=root, variables=environment, timeout_s=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout
