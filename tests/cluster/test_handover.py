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

from danube.storage.journal.folder import JOURNALS
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.child import pause

WAIT_S = PATIENCE_S
TOPICS = 3

BROKER = """
import asyncio, itertools, json, sys
from pathlib import Path
from danube.metadata.records.storage import StorageRecords
from danube.model.errors import DanubeError
from danube.runtime.blocking import BlockingThread
from danube.runtime.clock import SystemClock
from danube.runtime.disk import LocalDisk
from danube.runtime.rng import SystemRng
from danube.storage.batches.batch import records
from danube.storage.journal.folder import journal_folder
from danube.storage.takeover.takeover import Takeover
from danube.testing.alone_metadata import open_alone
from danube.storage.journal import Journal, JournalSettings
from danube.storage.journal.folder import Fence

root, number, topics, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])


def tell(**what):
    print(json.dumps(what), flush=True)


async def acquire(disk, clock, rng, journal, fence, reads):
    # one process at a time has the folder of metadata: it is opened for the takeover and no longer
    store = await open_alone(root / "metadata", clock)
    try:
        takeover = Takeover(disk, StorageRecords(store, rng), journal, reads, broker_id=number, fence=fence)
        return await takeover.acquire(range(topics))
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
    folder = journal_folder(number)
    writes, reads = BlockingThread("writes"), BlockingThread("reads")
    fence = Fence(disk, folder)
    settings = JournalSettings(file_bytes_max=65_536)
    journal = await Journal.open(disk, clock, rng=rng, runner=writes, read_runner=reads, settings=settings,
        broker_id=number, folder=folder, fence=fence, journal_id=number)
    taken = await acquire(disk, clock, rng, journal, fence, reads)
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


STORAGE = """
import asyncio, json, sys
from contextlib import asynccontextmanager
from pathlib import Path
from danube.metadata.transaction_builder import TransactionBuilder
from danube.metadata.records.journals import JournalRecords
from danube.metadata.records.storage import StorageRecords, add_ownership
from danube.model.errors import DanubeError
from danube.model.subscription import Cursor
from danube.runtime.blocking import BlockingThread
from danube.runtime.clock import SystemClock
from danube.runtime.disk import LocalDisk
from danube.runtime.rng import SystemRng
from danube.storage.batches.batch import encode_messages, records
from danube.storage.takeover.own_journal import SharedEnvironment
from danube.storage.takeover.shared_storage import SharedStorage
from danube.storage.journal import JournalSettings
from danube.storage.settings import StorageSettings
from danube.testing.alone_metadata import open_alone

root, number, topics, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])


def tell(**what):
    print(json.dumps(what), flush=True)


class Borrowed:
    \"\"\"One process at a time has the folder of metadata: it is opened for each call.\"\"\"

    def __init__(self, clock):
        self._clock = clock

    def __getattr__(self, name):
        async def call(*args, **named):
            for _ in range(2_000):
                try:
                    lock = LocalDisk(root / "metadata").lock("lock")
                except BlockingIOError:
                    await asyncio.sleep(0.005)
                    continue
                try:
                    store = await open_alone(root / "metadata", self._clock)
                    try:
                        return await getattr(store, name)(*args, **named)
                    finally:
                        await store.close()
                finally:
                    lock.release()
            raise TimeoutError(name)

        return call


async def content(log):
    found = []
    while batches := await log.read(len(found), 1_000_000):
        for batch in batches:
            found += records(batch.body, len(found) - batch.base_offset, batch.count)
    return [one.decode() for one in found]


async def append(log, record):
    stored = asyncio.get_running_loop().create_future()
    log.append_batch(encode_messages([record]), stored.set_result)
    return await stored


async def cut_everything(storage):
    await storage.journal.rotate()
    for _ in range(100):
        await storage.flush()
        if not storage.journal.closed_files() and not storage.topics.histories.with_older_epochs:
            break
    return await storage.remove_journals()


async def main():
    disk, clock, rng, store = LocalDisk(root), SystemClock(), SystemRng(), Borrowed(SystemClock())
    records, journals = StorageRecords(store, rng), JournalRecords(store, rng)
    settings = StorageSettings(journal=JournalSettings(file_bytes_max=65_536), segment_bytes_max=100_000)
    threads = {name: BlockingThread(name) for name in ("runner", "read_runner", "flush_runner")}
    storage = await SharedStorage.open_shared(SharedEnvironment(
        disk=disk, clock=clock, rng=rng, records=records, journals=journals, broker_id=number, settings=settings,
        **threads,
    ))
    if not await records.all():
        builder = TransactionBuilder(store)
        for topic in range(topics):
            add_ownership(builder, topic)
        await store.transact(builder.transaction("create"))
    await storage.acquire(range(topics))
    logs = {topic: storage.topic(topic) for topic in sorted(storage.owned)}
    before = {topic: await content(log) for topic, log in logs.items()}
    removed = await cut_everything(storage) if rounds >= 0 else 0
    after = {topic: await content(log) for topic, log in logs.items()}
    cursors = {topic: log.cursor(5).position if log.cursor(5) else 0 for topic, log in logs.items()}
    tell(content=after, same=before == after, removed=removed, cursors=cursors)
    count = 0
    while rounds < 0 or count < rounds:
        count += 1
        for topic, log in logs.items():
            record = f"{number}-{topic}-{count}" + "." * 300
            outcome = await append(log, record.encode())
            if isinstance(outcome, DanubeError):
                tell(refused=str(outcome))
                return
            tell(stored=record, topic=topic, offset=outcome)
            if count % 10 == 0:
                saved = asyncio.get_running_loop().create_future()
                log.save_cursor(5, Cursor(outcome), saved.set_result)
                if await saved is None:
                    tell(confirmed=outcome, of=topic)
        if count % 100 == 0:
            try:
                await storage.flush()
            except DanubeError as error:
                tell(refused=str(error))
                return
    await storage.close()
    for thread in threads.values():
        await thread.aclose()

asyncio.run(main())
"""


class Broker:
    """A broker's process; what it told is read from a pipe by a thread."""

    def __init__(self, root: Path, number: int, rounds: int = -1, program: str = BROKER) -> None:
        command = [sys.executable, "-c", program, str(root), str(number), str(TOPICS), str(rounds)]
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
def broker(root: Path, number: int, rounds: int = -1, program: str = BROKER) -> Iterator[Broker]:
    one = Broker(root, number, rounds, program)
    try:
        yield one
    finally:
        one.end()


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    for name in (JOURNALS, "metadata"):
        (tmp_path / name).mkdir()
    return tmp_path


def pause_without(one: Broker, file: Path) -> None:
    """Have it stand still at a moment when it does not have this file open: one at a time has it."""
    pause(one.process.pid)
    while any(opened.resolve() == file for opened in Path(f"/proc/{one.process.pid}/fd").iterdir()):
        one.process.send_signal(signal.SIGCONT)
        one.wait_for(len(one.told) + 1)
        pause(one.process.pid)


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
        pause(paused.process.pid)
        taker = ends.enter_context(broker(shared, 2, rounds=20))
        taker.finish()
        paused.process.send_signal(signal.SIGCONT)
        paused.finish()
        assert "taken over" in str(paused.told[-1]["refused"])
        check_all_is_there(paused.stored(), taker.content())
        last = ends.enter_context(broker(shared, 3, rounds=1))
        last.finish()
        check_all_is_there([*paused.stored(), *taker.stored()], last.content())


@pytest.mark.nightly
@pytest.mark.cluster
@pytest.mark.timeout(4 * WAIT_S)
def test_an_owner_is_killed_under_load_and_the_taker_cuts_everything_and_its_journal_goes(shared: Path) -> None:
    with broker(shared, 1, program=STORAGE) as owner:
        owner.wait_for(1_500)
        journal = next((shared / JOURNALS).iterdir())
        owner.process.kill()
        owner.finish()
    with broker(shared, 2, rounds=5, program=STORAGE) as taker:
        content = taker.content()
        log = taker.finish()
        assert taker.process.returncode == 0, log
    told = taker.told[0]
    assert (told["same"], told["removed"]) == (True, 1)
    check_all_is_there(owner.stored(), content)
    confirmed = {str(one["of"]): int(str(one["confirmed"])) for one in owner.told if "confirmed" in one}
    cursors = told["cursors"]
    assert isinstance(cursors, dict)
    assert {topic: cursors[topic] >= position for topic, position in confirmed.items()} == dict.fromkeys("012", True)
    assert not journal.exists()
    assert len([*(shared / JOURNALS).iterdir()]) == 1
    assert [offset for _, offset, _ in taker.stored()][:TOPICS] == [len(found) for found in content.values()]


@pytest.mark.nightly
@pytest.mark.cluster
@pytest.mark.timeout(4 * WAIT_S)
def test_an_owner_that_was_stopped_wakes_when_its_journal_is_gone_and_acknowledges_nothing(shared: Path) -> None:
    with ExitStack() as ends:
        paused = ends.enter_context(broker(shared, 1, program=STORAGE))
        paused.wait_for(370)  # it has cut after 100 rounds
        pause_without(paused, shared / "metadata" / "lock")
        taker = ends.enter_context(broker(shared, 2, rounds=20, program=STORAGE))
        taker.content()
        taker.finish()
        assert taker.told[0]["removed"] == 1
        paused.process.send_signal(signal.SIGCONT)
        paused.finish()
        assert "refused" in paused.told[-1]
        check_all_is_there(paused.stored(), taker.content())
        last = ends.enter_context(broker(shared, 3, rounds=1, program=STORAGE))
        check_all_is_there([*paused.stored(), *taker.stored()], last.content())
        last.finish()
