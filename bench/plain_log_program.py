"""A plain log beside a reader of files: `plain_log_program.py LOG A_SECOND SECONDS PACE FILE ...`.

So many messages of 1 KiB a second are due. A loop writes those that are, syncs, and goes on: each took until the end of
the sync behind it. With files, they are read meanwhile at that pace (bytes a second, 0 is none), a mebibyte at a time
and nothing ahead. Prints as JSON the seconds of all messages, and when each sync began and ended (monotonic).
"""

import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

MESSAGE_BYTES = 1_024
READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Written:
    """Measurements of such a log."""

    latencies_s: list[float] = field(default_factory=list)
    syncs_s: list[tuple[float, float]] = field(default_factory=list)


def log(path: str, per_second: int, seconds: float) -> Written:
    """Write so many messages at their times."""
    written = Written()
    latencies_s = written.latencies_s
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    started_s, count = time.monotonic(), round(per_second * seconds)
    while len(latencies_s) < count:
        first = len(latencies_s)
        time.sleep(max(0, started_s + first / per_second - time.monotonic()))
        end = min(count, max(first, int((time.monotonic() - started_s) * per_second)) + 1)
        os.write(descriptor, bytes(MESSAGE_BYTES) * (end - first))
        began_s = time.monotonic()
        os.fdatasync(descriptor)
        ended_s = time.monotonic()
        written.syncs_s.append((began_s, ended_s))
        latencies_s.extend(ended_s - started_s - number / per_second for number in range(first, end))
    os.close(descriptor)
    return written


def read(paths: Sequence[str], pace: int, ended: threading.Event) -> None:
    """Read the files one after the other until told to end."""
    started_s, total = time.monotonic(), 0
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        while not ended.is_set() and (piece := os.read(descriptor, READ_BYTES)):
            total += len(piece)
            ended.wait(max(0, started_s + total / pace - time.monotonic()))
        os.close(descriptor)


def main(path: str, per_second: int, seconds: float, pace: int, files: Sequence[str]) -> Written:
    ended = threading.Event()
    reader = threading.Thread(target=read, args=(files if pace else (), pace, ended))
    reader.start()
    written = log(path, per_second, seconds)
    ended.set()
    reader.join()
    return written


if __name__ == "__main__":
    print(json.dumps(asdict(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), sys.argv[5:]))))
