"""Three workers share one subscription: each job goes to one. Runs the same with our client and danube-client."""

import asyncio
import sys

from danube import DanubeClient, DanubeClientBuilder, DispatchStrategy, SubType

TOPIC = "/default/jobs"
WORKERS = ("ann", "ben", "cho")
JOBS = 9


async def work(client: DanubeClient, name: str, ready: asyncio.Queue[str], done: asyncio.Queue[str]) -> None:
    """Take jobs until cancelled. A job that was not acknowledged goes to another worker."""
    joining = client.new_consumer().with_topic(TOPIC).with_consumer_name(name).with_subscription("workers")
    consumer = joining.with_subscription_type(SubType.SHARED).build()
    await consumer.subscribe()
    jobs = await consumer.receive()
    await ready.put(name)
    try:
        while True:
            job = await jobs.get()
            await consumer.ack(job)
            await done.put(f"{name} did {job.payload.decode()}")
    finally:
        await consumer.close()


async def main(service_url: str) -> None:
    """Make the topic, let the workers join, then hand out jobs."""
    client = await DanubeClientBuilder().service_url(service_url).build()

    publishing = client.new_producer().with_topic(TOPIC).with_name("foreman")
    producer = publishing.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
    await producer.create()

    ready: asyncio.Queue[str] = asyncio.Queue()
    done: asyncio.Queue[str] = asyncio.Queue()
    workers = [asyncio.create_task(work(client, name, ready, done)) for name in WORKERS]
    for _ in workers:
        await ready.get()

    for number in range(JOBS):
        await producer.send(f"job {number}".encode())
    for line in sorted([await done.get() for _ in range(JOBS)], key=lambda line: line.partition("job ")[2]):
        print(line)

    for worker in workers:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    await producer.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:6650"))
