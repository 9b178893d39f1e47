"""Streams against a broker process: each record once, over restarts, new partitions and topics created again."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

from danube.model.topic import TopicName
from danube.testing.patience import PATIENCE_S
from danube.testing.peers.admin import AdminPeer
from tests.spark.conftest import Lake

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

PROGRAM = Path(__file__).with_name("stream_program.py")
KILLED_ROWS = 40_000


def rows(topic: str, *counts: int) -> list[tuple[str, int]]:
    """Topic and offset of the first `counts` rows of each partition; without partitions, of the topic."""
    return [(topic.format(n), offset) for n, count in enumerate(counts) for offset in range(count)]


def test_stream_goes_on_from_its_checkpoint(lake: Lake, tmp_path: Path) -> None:
    lake.publish([b"x"] * 100)
    lake.run_stream(tmp_path, max_rows_per_trigger=30)
    assert lake.streamed(tmp_path) == rows("", 100)
    lake.publish([b"y"] * 50)
    lake.run_stream(tmp_path)
    lake.run_stream(tmp_path)
    assert lake.streamed(tmp_path) == rows("", 150)


def test_micro_batches_are_no_larger_than_asked_for(lake: Lake, tmp_path: Path) -> None:
    lake.publish([b"x"] * 100, partitions=2)
    lake.run_stream(tmp_path, max_rows_per_trigger=30)
    offsets = [
        json.loads(path.read_text().splitlines()[-1])
        for path in sorted((tmp_path / "checkpoint/offsets").glob("[0-9]"))
    ]
    ends = [sorted(int(str(at).partition("@")[0]) for name, at in one.items() if name != "version") for one in offsets]
    assert ends == [[15, 15], [30, 30], [45, 45], [50, 50]]


def test_partition_that_is_added_is_read_from_its_first_record(lake: Lake, tmp_path: Path) -> None:
    async def add(admin: AdminPeer, topic: TopicName) -> None:
        await admin.add_partitions(topic, 1)

    lake.publish([b"x"] * 20, partitions=2)
    lake.run_stream(tmp_path)
    lake.administer(add)
    lake.publish([b"y"] * 7, topic=f"{lake.topic}-part-2")
    lake.run_stream(tmp_path)
    assert lake.streamed(tmp_path) == rows("-part-{}", 10, 10, 7)


def test_topic_that_was_created_again_is_refused_and_read_anew_where_that_is_allowed(
    lake: Lake, tmp_path: Path
) -> None:
    async def delete(admin: AdminPeer, topic: TopicName) -> None:
        await admin.delete_topic(topic)

    lake.publish([b"old"] * 5)
    lake.run_stream(tmp_path)
    lake.administer(delete)
    lake.publish([b"new"] * 9)
    with pytest.raises(StreamingQueryException, match="was deleted and created again since the checkpoint"):
        lake.run_stream(tmp_path)
    lake.run_stream(tmp_path, fail_on_data_loss="false")
    assert sorted(offset for _, offset in lake.streamed(tmp_path)) == sorted([*range(5), *range(9)])


def test_checkpoint_of_another_topic_is_refused(lake: Lake, tmp_path: Path) -> None:
    lake.publish([b"x"] * 5)
    lake.publish([b"x"] * 5, topic=f"{lake.topic}-other")
    lake.run_stream(tmp_path)
    with pytest.raises(StreamingQueryException, match="give it a new checkpoint"):
        lake.run_stream(tmp_path, topic=f"{lake.topic}-other")


def test_stream_that_starts_at_latest_reads_what_comes_after_it(lake: Lake, tmp_path: Path) -> None:
    lake.publish([b"x"] * 5)
    lake.run_stream(tmp_path, starting="latest")
    lake.publish([b"x"] * 3)
    lake.run_stream(tmp_path, starting="latest")
    assert lake.streamed(tmp_path) == [("", 5), ("", 6), ("", 7)]


@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_stream_that_is_killed_and_started_again_writes_each_record_once(lake: Lake, tmp_path: Path) -> None:
    lake.publish([b"%d" % number for number in range(KILLED_ROWS)])
    command = [
        sys.executable,
        str(PROGRAM),
        json.dumps(lake.options(max_rows_per_trigger=KILLED_ROWS // 40)),
        str(tmp_path),
    ]
    with (tmp_path / "log").open("wb") as log:
        program = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_for_batches(program, tmp_path / "out" / "_spark_metadata", 3)
    finally:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait(PATIENCE_S)
    written = len(lake.streamed(tmp_path))
    lake.run_stream(tmp_path, max_rows_per_trigger=KILLED_ROWS // 3)
    assert 0 < written < KILLED_ROWS
    assert lake.streamed(tmp_path) == rows("", KILLED_ROWS)


def wait_for_batches(program: subprocess.Popen[bytes], metadata: Path, count: int) -> None:
    """Until the sink has committed so many micro-batches."""
    pause, deadline = threading.Event(), time.monotonic() + 2 * PATIENCE_S
    while len([*metadata.glob("[0-9]*")]) < count:
        if program.poll() is not None or time.monotonic() > deadline:
            pytest.fail(f"the stream wrote nothing:\n{metadata.parent.with_name('log').read_text()[-3_000:]}")
        pause.wait(0.02)
