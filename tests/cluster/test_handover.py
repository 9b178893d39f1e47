"""Real processes over one folder: an owner is killed, or stopped and woken, while another one takes its topics over."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from danube.storage.handover.reading import JOURNALS

WAIT_S = 60
TOPICS = 3

BROKER = """
import asyncio, itertools, json, sys
from pathlib import Path
from danube.metadata.sqlite import SqliteStore
from danube.metadata.storage_records import StorageRecords
from danube.model.errors import DanubeError
from danube.runtime.blocking import BlockingThread
from danube.runtime.clock import SystemClock
from danube.runtime.disk import LocalDisk
from danube.runtime.rng import SystemRng
from danube.storage.batch import records
from danube.storage.handover.reading import JOURNALS
from danube.storage.handover.taking import HandOver
from danube.storage.journal import Journal, JournalSettings
from danube.storage.journal.fence import Fence

root, number, topics, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])


def tell(**what):
    print(json.dumps(what), flush=True)


async def begin(disk, clock, rng, journal, fence, reads):
    # one process at a time has the file of metadata: it is opened for the hand-over and no longer
    store = await SqliteStore.open(root / "metadata.sqlite", clock)
    try:
        hand_over = HandOver(disk, StorageRecords(store, rng), journal, reads, broker_id=number, fence=fence)
        return await hand_over.begin(range(topics))
    finally:
        await store.close()


async def content(taken):
    found = []
    for part in taken.parts:
        while len(found) < part.end_offset:
            for batch in await part.read(len(found), 1_000_000):
                found += records(batch.body, len(found) - batch.base_offset, batch.count)
    while batches := await taken.log.read(len(found), 1_000_000):
        for batch in batches:
            found += records(batch.body, len(found) - batch.base_offset, batch.count)
    return [one.decode() for one in found]


async def append(log, record):
    stored = asyncio.get_running_loop().create_future()
    log.append_record(record, stored.set_result)
    return await stored


async def main():
    disk, clock, rng = LocalDisk(root), SystemClock(), SystemRng()
    folder = f"{JOURNALS}/{number}"
    writes, reads = BlockingThread("writes"), BlockingThread("reads")
    fence = Fence(disk, folder)
    settings = JournalSettings(file_bytes_max=65_536)
    journal = await Journal.open(disk, clock, rng=rng, runner=writes, read_runner=reads, settings=settings,
        broker_id=number, folder=folder, fence=fence)
    taken = await begin(disk, clock, rng, journal, fence, reads)
    tell(content={topic: await content(one) for topic, one in taken.items()})
    for count in itertools.count() if rounds < 0 else range(rounds):
        for topic, one in taken.items():
            record = f"{number}-{topic}-{count}"
            outcome = await append(one.log, record.encode())
            if isinstance(outcome, DanubeError):
                tell(refused=str(outcome))
                return
            tell(stored=record, topic=topic, offset=outcome)
    await journal.close()
    await writes.aclose()
    await reads.aclose()

asyncio.run(main())
"""


class Broker:
    """A broker's process; what it told is read from a pipe by a thread."""

    def __init__(self, root: Path, number: int, rounds: int = -1) -> None:
        command = [sys.executable, "-c", BROKER, str(root), str(number), str(TOPICS), str(rounds)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.told: list[dict[str, object]] = []
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def stored(self) -> list[tuple[int, int, str]]:
        """Topic, offset and record of all that it acknowledged."""
        with self._more:
            told = [one for one in self.told if "stored" in one]
        return [(int(str(one["topic"])), int(str(one["offset"])), str(one["stored"])) for one in told]

    def content(self) -> dict[int, list[str]]:
        """All that was there when it began."""
        self.wait_for(1)
        content = self.told[0]["content"]
        assert isinstance(content, dict)
        return {int(topic): found for topic, found in content.items()}

    def wait_for(self, count: int) -> None:
        with self._more:
            assert self._more.wait_for(lambda: len(self.told) >= count, WAIT_S), "it tells nothing more"

    def end(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(WAIT_S)
        self._reader.join(WAIT_S)
        self.process.stdout.close()
        self.process.stderr.close()

    def finish(self) -> str:
        """Wait until it has ended by itself; answers its log."""
        assert self.process.stderr is not None
        log = self.process.stderr.read()
        self.process.wait(WAIT_S)
        self._reader.join(WAIT_S)
        return log

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):  # a killed process may leave half a line
                with self._more:
                    self.told.append(json.loads(line))
                    self._more.notify_all()


@contextmanager
def broker(root: Path, number: int, rounds: int = -1) -> Iterator[Broker]:
    one = Broker(root, number, rounds)
    try:
        yield one
    finally:
        one.end()


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    (tmp_path / JOURNALS).mkdir()
    return tmp_path


def check_all_is_there(stored: list[tuple[int, int, str]], content: dict[int, list[str]]) -> None:
    assert [(topic, offset, content[topic][offset]) for topic, offset, _ in stored] == stored


@pytest.mark.cluster
@pytest.mark.timeout(4 * WAIT_S)
def test_owners_are_killed_one_after_the_other_and_every_acknowledged_message_is_there(shared: Path) -> None:
    stored: list[tuple[int, int, str]] = []
    for number in (1, 2, 3):
        with broker(shared, number) as owner:
            check_all_is_there(stored, owner.content())
            owner.wait_for(60)
            owner.process.kill()
            owner.finish()
            stored += owner.stored()
    with broker(shared, 4, rounds=1) as last:
        check_all_is_there(stored, last.content())
        last.finish()
        assert [offset for _, offset, _ in last.stored()] == [len(found) for found in last.content().values()]


@pytest.mark.cluster
@pytest.mark.timeout(4 * WAIT_S)
def test_an_owner_that_was_stopped_acknowledges_nothing_after_its_topics_were_taken(shared: Path) -> None:
    with ExitStack() as ends:
        paused = ends.enter_context(broker(shared, 1))
        paused.wait_for(60)
        paused.process.send_signal(signal.SIGSTOP)
        taker = ends.enter_context(broker(shared, 2, rounds=20))
        taker.finish()
        paused.process.send_signal(signal.SIGCONT)
        paused.finish()
        assert "taken over" in str(paused.told[-1]["refused"])
        check_all_is_there(paused.stored(), taker.content())
        last = ends.enter_context(broker(shared, 3, rounds=1))
        last.finish()
        check_all_is_there([*paused.stored(), *taker.stored()], last.content())
