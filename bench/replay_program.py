"""Reads a topic's history: `replay_program.py URL TOPIC FROM END BYTES_A_SECOND`, by offsets, and then from FROM again.

It goes at that pace (0 is as fast as it can) until its standard input ends. Prints a line when the first batches are
there, and at the end, as JSON, how many bytes it read in how many seconds, and where it stood. It would be elsewhere:
here it runs when nobody else wants the processor.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from danube.client import DanubeClientBuilder


async def history(url: str, topic: str, first: int, end: int) -> AsyncGenerator[tuple[int, int], None]:
    """Bytes of each answer and the offset behind it, over and over."""
    async with await DanubeClientBuilder().service_url(url).build() as client:
        at = first
        while True:
            async with aclosing(client.fetch_batches(topic, start=at, end=end)) as answers:
                async for batches in answers:
                    at = batches[-1].base_offset + batches[-1].end
                    yield sum(len(batch.body) for batch in batches), at
            at = 0


async def main(url: str, topic: str, first: int, end: int, pace: int) -> dict[str, float]:
    told_to_end = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    total, at, started_s = 0, first, time.monotonic()
    async with aclosing(history(url, topic, first, end)) as answers:
        async for read_bytes, behind in answers:
            if not total:
                print("reading", flush=True)
            total, at = total + read_bytes, behind
            if told_to_end.done():
                break
            if pace:
                await asyncio.sleep(max(0, started_s + total / pace - time.monotonic()))
    return {"bytes": total, "elapsed_s": time.monotonic() - started_s, "at": at}


if __name__ == "__main__":
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    print(json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])))), flush=True)
