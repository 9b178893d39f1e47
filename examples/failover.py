"""An application lives through the death of a broker. It starts three brokers over a shared folder, and kills one.

    python examples/failover.py

The application is `main`: it sends and reads as with one broker. What was not acknowledged for good when the broker
died is delivered again, so a reader that must not do something twice remembers what it has done.
"""

import asyncio
import tempfile
from pathlib import Path

from danube import DanubeClientBuilder, DispatchStrategy
from danube.model.ownership import StorageMode
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.broker_cluster import BrokerCluster

TOPIC = "/default/readings"
COUNT = 6


async def main(service_urls: str, cluster: list[BrokerProcess]) -> None:
    """Send readings and read them; half way the broker that serves the topic dies."""
    async with await DanubeClientBuilder().service_url(service_urls).build() as client:
        publishing = client.new_producer().with_topic(TOPIC).with_name("sensor")
        reading = client.new_consumer().with_topic(TOPIC).with_consumer_name("log").with_subscription("log")
        async with (
            publishing.with_dispatch_strategy(DispatchStrategy.RELIABLE).build() as producer,
            reading.build() as consumer,
        ):
            messages, logged = await consumer.receive(), set[int]()
            for number in range(COUNT):
                await producer.send(f"reading {number}".encode())
                while number not in logged:
                    message = await messages.get()
                    if message.msg_id.topic_offset not in logged:
                        print("logged", message.payload.decode(), flush=True)
                    logged.add(message.msg_id.topic_offset)
                    await consumer.ack(message)
                if number == COUNT // 2 - 1:
                    await kill(cluster, message.msg_id.broker_addr)


async def kill(cluster: list[BrokerProcess], broker_url: str) -> None:
    """Kill the broker that has sent the message, as a crash does."""
    owner = next(broker for broker in cluster if broker.endpoints.service_url == broker_url)
    await asyncio.to_thread(owner.kill)
    print("the broker of the topic is dead", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, BrokerCluster(Path(folder), mode=StorageMode.SHARED_FS) as running:
        urls = ",".join(broker.endpoints.service_url for broker in running.brokers)  # one of them may be away
        asyncio.run(main(urls, running.brokers))
