"""From starting the process to serving, and what an idle broker holds of memory."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.result import Figure, median
from danube.testing.processes.broker import BrokerProcess

RUNS = 5


def run() -> Iterator[Figure]:
    """Start a broker a few times, on an empty folder and on one that has been used."""
    with tempfile.TemporaryDirectory() as folder:
        times, resident = [], []
        for index in range(RUNS):
            broker = BrokerProcess(Path(folder) / f"data-{index}")
            before = time.monotonic()
            with broker:
                times.append(time.monotonic() - before)
                resident.append(broker.resident_bytes() / 1e6)
        yield Figure("start-up to serving, empty folder", median(times) * 1e3, "ms", f"median of {RUNS}")
        yield Figure("idle resident memory", median(resident), "MB", f"median of {RUNS}")
