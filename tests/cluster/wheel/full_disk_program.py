"""Sends a message whenever it is told to. Runs in the wheel's own environment.

    python full_disk_program.py SERVICE_URL TOPIC

For each line on standard input it prints "stored" once it is, or the name of the status with which the wheel gave up.
"""

import asyncio
import sys

from grpc.aio import AioRpcError

from danube import DanubeClientBuilder, DispatchStrategy


async def main(url: str, topic: str) -> None:
    client = await DanubeClientBuilder().service_url(url).build()
    making = client.new_producer().with_topic(topic).with_name("p")
    producer = making.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
    await producer.create()
    while await asyncio.to_thread(sys.stdin.readline):
        try:
            await producer.send(b"-2:%s" % bytes(1_000))
        except AioRpcError as error:
            print(error.code().name, flush=True)
        else:
            print("stored", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
