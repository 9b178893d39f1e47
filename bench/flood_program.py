"""Runs in the environment of the published client: `flood_program.py URL TOPIC PRODUCERS MESSAGES BYTES`.

So many producers send so many messages together, each one after the other, as the wheel does. A payload begins with the
producer's number and its own. Prints how many seconds it took.
"""

import asyncio
import json
import sys
import time

from danube import DanubeClient, DanubeClientBuilder, DispatchStrategy, Producer


async def create(client: DanubeClient, topic: str, number: int) -> Producer:
    builder = client.new_producer().with_topic(topic).with_name(f"flood-{number}")
    producer = builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
    await producer.create()
    return producer


async def send(producer: Producer, number: int, messages: int, size: int) -> None:
    for index in range(messages):
        await producer.send((b"%d-%d-" % (number, index)).ljust(size, b"."))


async def main(url: str, topic: str, producers: int, messages: int, size: int) -> float:
    client = await DanubeClientBuilder().service_url(url).build()
    members = [await create(client, topic, number) for number in range(producers)]
    each = messages // producers
    started_s = time.monotonic()
    await asyncio.gather(*(send(member, number, each, size) for number, member in enumerate(members)))
    return time.monotonic() - started_s


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])))), flush=True)
