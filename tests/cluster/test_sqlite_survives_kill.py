"""A real process writes, is killed in mid-write, and what it was told is on the disk is there."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import IO

import pytest

from danube.metadata.sqlite.file import SqliteFile
from danube.testing.patience import PATIENCE_S

ROUNDS = 3
ACKNOWLEDGED_BEFORE_KILL = 50
WAIT_S = PATIENCE_S

WRITER = """
import asyncio, sys
from pathlib import Path
from danube.metadata.sqlite.store import SqliteStore
from danube.metadata.store import Put, Transaction
from danube.runtime.clock import SystemClock

async def main() -> None:
    store = await SqliteStore.open(Path(sys.argv[1]), SystemClock())
    number = 0
    while True:
        writes = tuple(Put(f"/{half}/{sys.argv[2]}/{number}", b"") for half in ("left", "right"))
        await store.transact(Transaction(f"{sys.argv[2]}-{number}", (), writes))
        print(number, flush=True)
        number += 1

asyncio.run(main())
"""


def write_until_killed(path: Path, round_name: str) -> list[int]:
    """The numbers that were acknowledged, to the last one that came through the pipe."""
    command = [sys.executable, "-c", WRITER, str(path), round_name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        acknowledged = [int(writer.stdout.readline()) for _ in range(ACKNOWLEDGED_BEFORE_KILL)]
        writer.kill()
        return acknowledged + rest_of(writer.stdout)


def rest_of(output: IO[str]) -> list[int]:
    return [int(line) for line in output.read().splitlines(keepends=True) if line.endswith("\n")]


@pytest.mark.cluster
@pytest.mark.timeout(ROUNDS * WAIT_S)
def test_every_acknowledged_write_survives_kill(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    expected: set[str] = set()
    for number in range(ROUNDS):
        acknowledged = write_until_killed(path, f"round-{number}")
        expected |= {f"/round-{number}/{acknowledged_number}" for acknowledged_number in acknowledged}
        with closing(SqliteFile.open(path)) as file:
            left, right = ({entry.key.removeprefix(half) for entry in file.below(half)} for half in ("/left", "/right"))
        assert left == right, "half a transaction is there"
        assert expected <= left
