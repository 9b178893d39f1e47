"""Every documented example runs, against a real broker; the ones that claim it also with the published client."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from danube.testing.process import BrokerProcess

pytestmark = pytest.mark.cluster

ANSWERS = {
    "broadcast": [f"{name} read news {number}" for name in ("archive", "alerts") for number in range(3)],
    "hot_standby": [f"{('active', 'standby')[number // 2]} booked entry {number}" for number in range(4)],
    "by_key": [f"{customer}: orders 0, 1, 2 by 1 clerk" for customer in ("ada", "bob", "cyd", "dan")],
}


def test_the_hello_example_runs_with_our_client(root: Path, broker: BrokerProcess) -> None:
    assert output_of(sys.executable, root / "examples/hello.py", broker) == "hello, world {'language': 'en'}\n"


def test_the_hello_example_runs_unchanged_with_the_published_client(
    root: Path, wheel_python: Path, broker: BrokerProcess
) -> None:
    assert output_of(wheel_python, root / "examples/hello.py", broker) == "hello, world {'language': 'en'}\n"


@pytest.mark.parametrize("is_published", [False, True], ids=["our client", "published client"])
@pytest.mark.parametrize("name", ANSWERS)
def test_an_example_of_a_subscription_type_shows_what_it_claims(
    root: Path, wheel_python: Path, broker: BrokerProcess, name: str, is_published: bool
) -> None:
    python = wheel_python if is_published else sys.executable
    assert output_of(python, root / f"examples/{name}.py", broker).splitlines() == ANSWERS[name]


@pytest.mark.parametrize("is_published", [False, True], ids=["our client", "published client"])
def test_the_work_queue_example_gives_each_job_to_one_worker(
    root: Path, wheel_python: Path, broker: BrokerProcess, is_published: bool
) -> None:
    python = wheel_python if is_published else sys.executable
    lines = output_of(python, root / "examples/work_queue.py", broker).splitlines()
    assert [line.partition(" did ")[2] for line in lines] == [f"job {number}" for number in range(9)]
    assert {line.partition(" did ")[0] for line in lines} == {"ann", "ben", "cho"}


def output_of(python: str | Path, program: Path, broker: BrokerProcess) -> str:
    """What the program prints; it must end well and say nothing on stderr."""
    environment = {"PATH": os.environ["PATH"], "GRPC_VERBOSITY": "NONE"}
    if python == sys.executable:
        environment["PYTHONPATH"] = str(program.parents[1])
    command = [python, program, broker.endpoints.service_url]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
