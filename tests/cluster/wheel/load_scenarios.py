"""Many messages, and a subscriber that reads none."""

import asyncio

from danube import DanubeClient
from tests.cluster.wheel.scene import WAIT_S, new_producer, new_topic, payloads, reading, scenario, send_all


@scenario
async def flooded_consumer_gets_everything(client: DanubeClient) -> None:
    """16 producers, 4,000 messages, one consumer that falls behind."""
    topic = new_topic()
    producers = [await new_producer(client, topic, f"p{index}") for index in range(16)]
    async with reading(client, topic) as reader:

        async def flood(index: int) -> None:
            await send_all(producers[index], payloads(250, f"p{index}"))

        floods = asyncio.gather(*(flood(index) for index in range(16)))
        async with asyncio.timeout(150):
            while len(reader.got) < 4_000:
                message = await reader.queue.get()
                reader.got.append(message.payload)
                reader.offsets.append(message.msg_id.topic_offset)
                await reader.consumer.ack(message)
        await floods
        assert len(set(reader.got)) == 4_000
        assert reader.offsets == list(range(4_000))
        for index in range(16):
            own = [payload for payload in reader.got if payload.startswith(f"p{index}-".encode())]
            assert own == payloads(250, f"p{index}")


@scenario
async def silent_subscriber_stalls_nobody(client: DanubeClient) -> None:
    """One consumer subscribes and never opens its stream."""
    for reliable in (True, False):
        topic = new_topic()
        producer = await new_producer(client, topic, reliable=reliable)
        silent = client.new_consumer().with_topic(topic).with_consumer_name("silent").with_subscription("quiet")
        await silent.build().subscribe()
        async with reading(client, topic, "loud", "c") as reader:
            async with asyncio.timeout(WAIT_S):
                await send_all(producer, payloads(200))
            assert await reader.take(200) == payloads(200)
