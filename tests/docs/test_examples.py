"""Every documented example runs, against a real broker; the ones that claim it also with the published client."""

import ast
import os
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess

pytestmark = pytest.mark.cluster

ANSWERS = {
    "broadcast": [f"{name} read news {number}" for name in ("archive", "alerts") for number in range(3)],
    "hot_standby": [f"{('active', 'standby')[number // 2]} booked entry {number}" for number in range(4)],
    "by_key": [f"{customer}: orders 0, 1, 2 by 1 clerk" for customer in ("ada", "bob", "cyd", "dan")],
}


SCHEMAS = {
    "schema_pydantic": ["7 1250 EUR", "refused: no schema"],
    "schema_avro": ["version 1 {'id': 1, 'grams': 0}", "version 2 {'id': 2, 'grams': 500}"],
    "schema_protobuf": ["class read parcels ['a', 'b']", "registry read parcels ['a', 'b']"],
}

WITHOUT_EXTRAS = {
    "hello": ("hello, world {'language': 'en'}\n", ""),
    "schema_pydantic": ("", "the broker at {url}: JSON Schema needs the library jsonschema_rs: install it with "),
    "schema_avro": ("", "Avro needs the library fastavro: install it with "),
    "schema_protobuf": ("", "Protobuf text needs the library grpc_tools.protoc: install it with "),
    "dead_letters": ("", "topic /default/invoices-failed does not exist: "),
}
"""Standard output, and the one sentence of the error, after `pip install .` and nothing else."""
_BLOCKER = """
import sys

class Without:
    def __init__(self, finder):
        self._finder = finder

    def find_spec(self, name, *more):
        return None if name.partition(".")[0] in {blocked!r} else self._finder.find_spec(name, *more)

sys.meta_path[:] = [Without(each) for each in sys.meta_path]
"""


@pytest.fixture(scope="module")
def bare_site(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH, with which Python finds no package that only extras or development bring."""
    wanted = tomllib.loads((root / "pyproject.toml").read_text())["project"]["dependencies"]
    known = set[str]()
    while wanted:
        requirement = Requirement(wanted.pop())
        name = canonicalize_name(requirement.name)
        if name not in known and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            known.add(name)
            wanted += requires(name) or []
    ours = {"danube", "spark_analytics"}
    installed = packages_distributions()
    blocked = {top for top, of in installed.items() if not known & {*map(canonicalize_name, of)}} - ours
    site = tmp_path_factory.mktemp("site")
    (site / "sitecustomize.py").write_text(_BLOCKER.replace("{blocked!r}", repr(blocked)))
    return site


@pytest.fixture(scope="module")
def bare_broker(bare_site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker without extras."""
    launcher = ("env", f"PYTHONPATH={bare_site}")
    with BrokerProcess(tmp_path_factory.mktemp("bare") / "data", launcher=launcher) as running:
        yield running


@pytest.mark.parametrize("name", WITHOUT_EXTRAS)
def test_an_example_that_needs_an_extra_says_so_in_one_sentence(
    root: Path, bare_site: Path, bare_broker: BrokerProcess, name: str
) -> None:
    out, told = WITHOUT_EXTRAS[name]
    url = bare_broker.endpoints.service_url
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{bare_site}{os.pathsep}{root}"}
    command: list[str | Path] = [sys.executable, root / f"examples/{name}.py", url]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (done.stdout, done.returncode) == (out, 1 if told else 0), done.stderr
    assert done.stderr.startswith(told.format(url=url))
    assert done.stderr.count("\n") == (1 if told else 0)
    assert ("pip install '.[schema]'" in done.stderr) == name.startswith("schema_")


@pytest.mark.parametrize("name", SCHEMAS)
def test_an_example_of_schemas_shows_what_it_claims(root: Path, broker: BrokerProcess, name: str) -> None:
    assert output_of(sys.executable, root / f"examples/{name}.py", broker).splitlines() == SCHEMAS[name]


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


@pytest.mark.parametrize(
    "is_published", [False, pytest.param(True, marks=pytest.mark.nightly)], ids=["our client", "published client"]
)
def test_the_dead_letter_example_sets_aside_what_cannot_be_read_once_the_policy_it_shows_is_set(
    root: Path, wheel_python: Path, fresh_broker: BrokerProcess, is_published: bool
) -> None:
    program = root / "examples/dead_letters.py"
    for command in commands_shown(program):
        run_admin(command, fresh_broker)
    assert output_of(wheel_python if is_published else sys.executable, program, fresh_broker).splitlines() == [
        "booked 100",
        "cannot read 12,50 EUR",
        "booked 7",
        *["cannot read 12,50 EUR"] * 2,
        "set aside: 12,50 EUR, message 1 of /default/invoices, not a number",
    ]


def test_the_failover_example_loses_its_broker_and_goes_on(root: Path) -> None:
    program = root / "examples/failover.py"
    command: list[str | Path] = [sys.executable, program]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(root), "GRPC_VERBOSITY": "NONE"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    logged = [f"logged reading {number}" for number in range(6)]
    assert done.stdout.splitlines() == [*logged[:3], "the broker of the topic is dead", *logged[3:]], done.stderr
    assert done.returncode == 0


def commands_shown(program: Path) -> list[list[str]]:
    """The `danube-admin` commands in its docstring, without their first word."""
    text = ast.get_docstring(ast.parse(program.read_text())) or ""
    lines = text.replace("\\\n", "").splitlines()
    return [shlex.split(line)[1:] for line in lines if line.strip().startswith("danube-admin ")]


def run_admin(words: list[str], broker: BrokerProcess) -> None:
    admin = Path(sys.executable).with_name("danube-admin")
    subprocess.run([admin, *words, "--endpoint", broker.endpoints.admin_url], check=True, timeout=PATIENCE_S)


def output_of(python: str | Path, program: Path, broker: BrokerProcess) -> str:
    """What the program prints; it must end well and say nothing on stderr."""
    environment = {"PATH": os.environ["PATH"], "GRPC_VERBOSITY": "NONE"}
    if python == sys.executable:
        environment["PYTHONPATH"] = str(program.parents[1])
    command = [python, program, broker.endpoints.service_url]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
