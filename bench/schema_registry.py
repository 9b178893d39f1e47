"""The schema registry of a real broker: the cost of publishing under a schema, of registering, and of checking.

Publishing is measured as the broker's processor time for each message, in rounds that take turns, so that what else the
machine does weighs on all of them alike.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.result import Figure, median
from danube.client import DanubeClient, DanubeClientBuilder, DispatchStrategy, Producer, SchemaType
from danube.model.schema import CompatibilityMode
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.child import cpu_s

ROUNDS = 7
BATCHED = 20_000
SINGLE = 1_500
VERSIONS = 100
POLICIES = {"none": ("none", False), "enforce, ids": ("enforce", False), "enforce, payloads": ("enforce", True)}
ORDER = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "text": {"type": "string"}},
    "required": ["id"],
}
PAYLOAD = json.dumps({"id": 7, "text": "x" * 1_000}).encode()


def run() -> Iterator[Figure]:
    """One broker process; one client process, this one."""
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--durability", "os", "--log-level", "warning"]
        with BrokerProcess(Path(folder) / "data", flags=flags) as broker:
            yield from asyncio.run(_measure(broker))


async def _measure(broker: BrokerProcess) -> list[Figure]:
    async with await DanubeClientBuilder().service_url(broker.endpoints.service_url).build() as client:
        found = await _registering(client)
        await _register(client, "orders", ORDER)
        return found + await _publishing(client, broker)


async def _publishing(client: DanubeClient, broker: BrokerProcess) -> list[Figure]:
    producers = {}
    for number, (name, (policy, checks)) in enumerate(POLICIES.items()):
        topic = f"/default/bench-{number}"
        builder = client.new_producer().with_topic(topic).with_name("p").with_schema_subject("orders")
        producers[name] = builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
        await producers[name].create()
        await client.schema().configure_topic_schema(topic, "orders", policy, checks)
        await producers[name].send_many([PAYLOAD] * 1_000)
    found = []
    for kind, count in (("SendMessage", SINGLE), ("send_many", BATCHED)):
        costs_us: dict[str, list[float]] = {name: [] for name in producers}
        for _ in range(ROUNDS):
            for name, producer in producers.items():
                costs_us[name].append(await _cost_us(broker, producer, kind, count))
        plain = median(costs_us["none"])
        for name, values in costs_us.items():
            note = f"{median(values) / plain:.2f} times that without"
            found.append(Figure(f"{kind}, 1 KiB, {name}: broker", median(values), "us/msg", note))
    return found


async def _cost_us(broker: BrokerProcess, producer: Producer, kind: str, count: int) -> float:
    before_s = cpu_s(broker.pid)
    if kind == "send_many":
        await producer.send_many([PAYLOAD] * count)
    else:
        for start in range(0, count, 50):
            await asyncio.gather(*(producer.send(PAYLOAD) for _ in range(min(50, count - start))))
    return (cpu_s(broker.pid) - before_s) / count * 1e6


async def _registering(client: DanubeClient) -> list[Figure]:
    new_ms, again_ms = [], []
    for number in range(VERSIONS):
        new_ms.append(await _register(client, "chain", _version(number)))
        again_ms.append(await _register(client, "chain", _version(number)))
    await client.schema().set_compatibility_mode("chain", CompatibilityMode.FULL_TRANSITIVE)
    check_ms = []
    for _ in range(ROUNDS):
        before_s = time.monotonic()
        data = json.dumps(_version(VERSIONS)).encode()
        await client.schema().check_compatibility("chain", data, SchemaType.JSON_SCHEMA)
        check_ms.append((time.monotonic() - before_s) * 1e3)
    return [
        Figure("register a version of JSON Schema", median(new_ms), "ms", f"the last: {new_ms[-1]:.1f} ms"),
        Figure("register it again", median(again_ms), "ms"),
        Figure(f"check against {VERSIONS} versions", median(check_ms), "ms"),
    ]


async def _register(client: DanubeClient, subject: str, schema: object) -> float:
    before_s = time.monotonic()
    builder = client.schema().register_schema(subject).with_type(SchemaType.JSON_SCHEMA)
    await builder.with_schema_data(json.dumps(schema).encode()).execute()
    return (time.monotonic() - before_s) * 1e3


def _version(number: int) -> dict[str, object]:
    properties = {"id": {"type": "integer"}} | {f"field_{index}": {"type": "string"} for index in range(number % 20)}
    return {"title": f"order {number}", "type": "object", "properties": properties, "required": ["id"]}
