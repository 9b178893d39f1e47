"""`make cluster`: three brokers that are one cluster, with each place of messages, until Ctrl-C; nothing stays."""

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from danube.admin.grpc_gateway.gateway import opened
from danube.admin.target import Target
from danube.testing.patience import PATIENCE_S
from tests.cluster.seeing import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(180)]

ROOT = Path(__file__).parents[2]


@pytest.fixture(
    params=[
        (),
        pytest.param(("--storage", "local"), marks=pytest.mark.nightly),
        pytest.param(("--storage", "object_store"), marks=pytest.mark.nightly),
    ]
)
def running(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """The program, and what it says once the brokers serve."""
    command = [sys.executable, "-m", "scripts.cluster", "--any-ports", "--folder", str(tmp_path / "cluster")]
    command += request.param
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True) as program:
        assert program.stdout is not None
        said = ""
        for line in program.stdout:
            said += line
            if "Ctrl-C ends all" in line:
                break
        yield program, said
        program.send_signal(signal.SIGINT)


async def test_three_brokers_are_one_cluster_until_they_are_interrupted(
    running: tuple["subprocess.Popen[str]", str], tmp_path: Path
) -> None:
    program, said = running
    urls = re.findall(r"administration (http://\S+)", said)
    pids = [int(pid) for pid in re.findall(r"pid (\d+)", said)]
    assert len(urls) == len(pids) == 3
    async with opened(Target(endpoint=urls[0], timeout_s=PATIENCE_S)) as gateway:

        async def all_are_known() -> bool:
            return {info.admin_url for info in await gateway.brokers()} == set(urls)

        await until(all_are_known)
    assert (tmp_path / "cluster" / "raft.secret").stat().st_mode & 0o077 == 0
    journals = [path.parent for path in (tmp_path / "cluster").rglob("*.journal")]
    if "Messages are in a bucket" in said:
        assert all("object-cache" in path.parts for path in journals)
    else:
        is_shared = "others serve the topics of one that dies" in said
        assert {(tmp_path / "cluster" / "shared") in path.parents for path in journals} == {is_shared}
    program.send_signal(signal.SIGINT)
    assert await asyncio.to_thread(program.wait, PATIENCE_S) == 0
    assert [pid for pid in pids if runs(pid)] == []


def runs(pid: int) -> bool:
    """Whether there is a process of this id."""
    return Path(f"/proc/{pid}").exists()
