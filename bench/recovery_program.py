"""Opens the journal of a data folder: `recovery_program.py FOLDER`. Prints how long it took and what memory it took."""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

from danube.runtime.blocking import BlockingThread
from danube.runtime.clock import SystemClock
from danube.runtime.disk import LocalDisk
from danube.runtime.rng import SystemRng
from danube.storage.journal.journal import Journal


def resident_mb() -> float:
    """Resident memory of the process now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def main(folder: Path) -> dict[str, float]:
    runner = BlockingThread("journal")
    before_mb = resident_mb()
    started_s = time.monotonic()
    journal = await Journal.open(
        LocalDisk(folder), SystemClock(), rng=SystemRng(1), runner=runner, read_runner=runner, broker_id=1
    )
    opened_s = time.monotonic() - started_s
    more_mb = resident_mb() - before_mb
    await journal.close()
    await runner.aclose()
    return {"opened_s": opened_s, "rss_mb": more_mb}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(Path(sys.argv[1])))), flush=True)
