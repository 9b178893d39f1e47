"""Runs in the environment of the published client: `moves_wheel_program.py URL TOPIC`.

It sends one message after the other. Between the lines `begin` and `end` on its input it notes the longest time between
two acknowledgements, and prints it in seconds.
"""

import asyncio
import json
import sys
import time

from danube import DanubeClientBuilder, DispatchStrategy


class Gaps:
    """The longest gap so far."""

    def __init__(self) -> None:
        self.last_s = time.monotonic()
        self.longest_s = 0.0

    def note(self) -> None:
        now_s = time.monotonic()
        self.longest_s, self.last_s = max(self.longest_s, now_s - self.last_s), now_s


async def follow(gaps: Gaps) -> None:
    while line := await asyncio.to_thread(sys.stdin.readline):
        if line.strip() == "begin":
            gaps.longest_s = 0.0
        else:
            print(json.dumps(gaps.longest_s), flush=True)


async def main(url: str, topic: str) -> None:
    client = await DanubeClientBuilder().service_url(url).build()
    producer = (
        client.new_producer()
        .with_topic(topic)
        .with_name("wheel")
        .with_dispatch_strategy(DispatchStrategy.RELIABLE)
        .build()
    )
    await producer.create()
    await producer.send(b"first")
    print("ready", flush=True)
    gaps = Gaps()
    following = asyncio.ensure_future(follow(gaps))
    while not following.done():
        await producer.send(b"x")
        gaps.note()
        await asyncio.sleep(0.002)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
