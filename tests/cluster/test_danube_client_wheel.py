"""The published `danube-client` wheel, unmodified, against a real broker process."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from danube.testing.patience import LONG_S, PATIENCE_S
from danube.testing.processes.broker import BrokerProcess
from tests.cluster.wheel.administering import surroundings
from tests.cluster.wheel.run import load_scenarios

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]

PROGRAM = Path(__file__).parent / "wheel" / "run.py"
CUT_PROGRAM = PROGRAM.with_name("cut_program.py")
SCENARIOS = list(load_scenarios())


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("wheel") / "data", settings={"ack_timeout_s": round(LONG_S)}) as process:
        yield process


@pytest.fixture(scope="module")
def wheel(
    shared_broker: BrokerProcess, wheel_python: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[subprocess.Popen[str]]:
    """A program with the wheel, which goes through the scenarios whose names it reads; it has told what it imported."""
    command = [str(wheel_python), "-I", str(PROGRAM), shared_broker.endpoints.service_url]
    environment = {**os.environ, **surroundings(str(Path(sys.executable).parent), shared_broker.endpoints.admin_url)}
    pipe = subprocess.PIPE
    with (
        (tmp_path_factory.mktemp("program") / "errors").open("w") as errors,  # no pipe: nobody reads while it works
        subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        imported = json.loads(process.stdout.readline())
        assert imported["version"] == "0.5.0"
        assert Path(imported["file"]).is_relative_to(wheel_python.parents[1])
        yield process
        process.kill()


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_published_client_works_unmodified(
    shared_broker: BrokerProcess, wheel: subprocess.Popen[str], name: str
) -> None:
    assert wheel.stdin is not None
    assert wheel.stdout is not None
    wheel.stdin.write(f"{name}\n")
    wheel.stdin.flush()
    ended = json.loads(wheel.stdout.readline())
    assert ended["scenario"] == name
    assert ended["failure"] is None, f"{ended['failure'][-4_000:]}\n--- broker\n{shared_broker.log()[-2_000:]}"
    assert "Traceback" not in shared_broker.log()


@pytest.mark.slow
async def test_the_published_client_goes_on_when_its_broker_is_killed_and_comes_back(
    broker: BrokerProcess, wheel_python: Path, tmp_path: Path
) -> None:
    command = [str(wheel_python), "-I", str(CUT_PROGRAM), broker.endpoints.service_url]
    pipe = asyncio.subprocess.PIPE
    errors = (tmp_path / "errors").open("w+b")  # no pipe: the wheel writes a lot while its broker is away
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=errors)
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        async with asyncio.timeout(PATIENCE_S):
            await read_until(process.stdout, b"ready\n")
            process.stdin.write(b"go\n")
            for mark in (b"100\n", b"300\n"):
                await read_until(process.stdout, mark)
                await asyncio.to_thread(broker.kill)
                await asyncio.to_thread(broker.launch)
            await read_until(process.stdout, b"500\n")
            out, _ = await process.communicate(b"enough\n")
    except BaseException:
        process.kill()
        await process.wait()
        raise
    finally:
        errors.close()
    assert process.returncode == 0, (tmp_path / "errors").read_text()[-2_000:]
    seen = json.loads(out.splitlines()[-1])
    got = dict(zip(seen["offsets"], seen["numbers"], strict=True))
    assert list(got) == list(range(len(got)))
    assert list(dict.fromkeys(got.values())) == list(range(seen["sent"]))


async def read_until(lines: asyncio.StreamReader, wanted: bytes) -> None:
    while (line := await lines.readline()) != wanted:
        assert line, "the program ended"
