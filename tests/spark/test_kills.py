"""The sink and the ingest are killed at seeded places, again and again: each message is stored once."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from danube.client import DanubeClient, DanubeClientBuilder, DispatchStrategy
from danube.model.records.telemetry import TELEMETRY_TOPIC, decode_record
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess
from spark_analytics.ingest.log import read_log

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(3_600)]

PROGRAM = Path(__file__).with_name("kill_program.py")
TOPIC = "/default/killed"
BATCH_ROWS = 300
ROUND_ROWS = 4 * BATCH_ROWS
SINK_PLACES = ("row", "sent", "delay", "commit")
TABLE_PLACES = ("batch begun", "batch written", "batch committed", "compact written", "compact committed")


class Course:
    """One broker, its telemetry, a topic that is copied, and a table."""

    def __init__(self, broker: BrokerProcess, folder: Path, seed: int) -> None:
        self.url, self.folder, self.chance = broker.endpoints.service_url, folder, random.Random(seed)
        self.published = 0

    def kill_sink(self) -> str:
        """Publish, copy, and be killed; answers the place."""
        self.publish()
        batch = self.next_batch("sink") + self.chance.randrange(3)
        place = {"place": self.chance.choice(SINK_PLACES), "batch": batch, "at": self.chance.randrange(BATCH_ROWS)}
        return self.run(place, topic=TOPIC, max_rows=BATCH_ROWS)

    def kill_ingest(self) -> str:
        table = self.folder / "table"
        done = sum(file.rows for file in read_log(table).files.values()) if table.exists() else 0
        is_compacted = len(read_log(table).files) > 4 if table.exists() else False
        batch = self.next_batch("table/_checkpoint") + self.chance.randrange(3)
        name = self.chance.choice(TABLE_PLACES if is_compacted else TABLE_PLACES[:3])
        rows = max(1, (self.telemetry_end() - done) // 5)
        return self.run({"place": name, "batch": batch, "at": 0}, table=True, max_rows=rows)

    def run(self, place: dict[str, Any] | None, **given: object) -> str:
        """Run the program to its end, which is a kill where a place is given."""
        parameters = {"service_url": self.url, "folder": str(self.folder), "place": "", "batch": -1, "at": 0}
        parameters |= {**given, **(place or {})}
        log = self.folder / "log"
        with log.open("wb") as output:
            command = [sys.executable, str(PROGRAM), json.dumps(parameters)]
            program = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
            try:
                code = program.wait(4 * PATIENCE_S)
            finally:
                if program.poll() is None:
                    os.killpg(program.pid, signal.SIGKILL)
                    program.wait(PATIENCE_S)
        wanted = -signal.SIGKILL if place else 0
        assert code == wanted, f"{parameters} ended with {code}:\n{log.read_text(errors='replace')[-3_000:]}"
        return f"{parameters['place']} of {parameters['batch']} at {parameters['at']}"

    def next_batch(self, checkpoint: str) -> int:
        """Of the query, after the ones that Spark has committed."""
        done = [int(path.name) for path in (self.folder / checkpoint / "commits").glob("[0-9]*")]
        return max(done, default=-1) + 1

    def publish(self) -> None:
        async def work(client: DanubeClient) -> None:
            builder = client.new_producer().with_topic(TOPIC).with_name("killed")
            async with builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build() as producer:
                await producer.send_many(b"%d" % (self.published + number) for number in range(ROUND_ROWS))

        self.with_client(work)
        self.published += ROUND_ROWS

    def telemetry_end(self) -> int:
        ends = list[int]()

        async def work(client: DanubeClient) -> None:
            ends.append((await client.bounds(str(TELEMETRY_TOPIC))).end_offset)

        self.with_client(work)
        return ends[0]

    def stored(self, topic: str, end: int | None = None) -> list[bytes]:
        found = list[bytes]()

        async def work(client: DanubeClient) -> None:
            upto = (await client.bounds(topic)).end_offset if end is None else end
            found.extend([message.payload async for message in client.fetch(topic, end=upto)])

        self.with_client(work)
        return found

    def with_client(self, work: Any) -> None:
        async def run() -> None:
            async with await DanubeClientBuilder().service_url(self.url).build() as client:
                await work(client)

        asyncio.run(run())


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    settings = {"telemetry_interval_s": "0.2"}
    with BrokerProcess(tmp_path / "data", flags=["--log-level", "warning"], settings=settings) as process:
        yield process


@pytest.mark.parametrize(
    ("seed", "kills"),
    [(32, 2), (33, 20)],
)
def test_each_message_is_stored_once_however_often_sink_and_ingest_are_killed(
    broker: BrokerProcess, tmp_path: Path, seed: int, kills: int
) -> None:
    course = Course(broker, tmp_path, seed)
    places = [course.kill_ingest() if number % 2 else course.kill_sink() for number in range(kills)]
    course.publish()
    known = course.telemetry_end()
    course.run(None, topic=TOPIC, table=True, max_rows=10_000)
    copied = Counter(course.stored(f"{TOPIC}-copy"))
    assert copied == Counter(b"%d" % number for number in range(course.published)), places
    state = read_log(tmp_path / "table")
    columns = ["broker_id", "start_id", "sequence"]
    rows = [
        row for path in state.files for row in pq.read_table(tmp_path / "table" / path, columns=columns).to_pylist()
    ]
    assert len(rows) >= known, places
    stamps = [decode_record(payload) for payload in course.stored(str(TELEMETRY_TOPIC), len(rows))]
    told = Counter((stamp.broker_id, stamp.start_id, stamp.sequence) for stamp, _ in filter(None, stamps))
    assert Counter(tuple(row.values()) for row in rows) == told, places
