"""The demo's application: knows the published danube-client 0.5.0 and nothing of this project.

Runs in the published client's own environment. What it has to say goes to stdout, one JSON object per line.
"""

import argparse
import asyncio
import base64
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import sys
from pathlib import Path

import grpc

from danube import Consumer, DanubeClient, DanubeClientBuilder, DispatchStrategy, Producer, SubType

_VERSION = "0.5.0"
_RETRY_S = 0.2
_OUTAGE_S_MAX = 60.0
_PROGRESS_EVERY = 50
_PASSING = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


def main() -> None:
    """Check what was imported, then do the one thing asked for."""
    options = _parser().parse_args()
    _say(event="client", **_provenance())
    match options.command:
        case "subscribe":
            asyncio.run(_subscribe_only(options))
        case "publish":
            asyncio.run(_publish(options))
        case "consume":
            asyncio.run(_consume(options))
        case _:
            _say(event="rows", file=str(_rows_file()), count=len(_rows()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("rows", "subscribe", "publish", "consume"))
    parser.add_argument("--service-url", default="")
    parser.add_argument("--topic", default="")
    parser.add_argument("--subscription", default="")
    parser.add_argument("--idle-timeout-s", type=float, default=2.0)
    parser.add_argument("--out", type=Path, help="payloads read, one per line")
    return parser


def _provenance() -> dict[str, object]:
    """Names of the imported files, each checked against the wheel's own list of hashes."""
    distribution = importlib.metadata.distribution("danube-client")
    imported = sys.modules["danube"].__file__
    hashed = [file for file in distribution.files or [] if file.hash is not None]
    changed = [str(file) for file in hashed if not _matches(file)]
    owned = imported is not None and Path(imported) == Path(str(distribution.locate_file("danube/__init__.py")))
    if distribution.version != _VERSION or changed or not owned:
        sys.exit(f"not the published danube-client {_VERSION}: {distribution.version}, {imported}, changed {changed}")
    return {"version": distribution.version, "file": imported, "verified": len(hashed)}


def _matches(file: importlib.metadata.PackagePath) -> bool:
    digest = hashlib.sha256(file.read_binary()).digest()
    return file.hash is not None and base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == file.hash.value


def _rows_file() -> Path:
    spec = importlib.util.find_spec("vega_datasets")  # found, not imported: the import would want pandas
    if spec is None or spec.origin is None:
        sys.exit("vega-datasets is not installed beside danube-client")
    return Path(spec.origin).parent / "_data" / "airports.csv"


def _rows() -> list[bytes]:
    return _rows_file().read_bytes().split(b"\n")[1:-1]


async def _publish(options: argparse.Namespace) -> None:
    """Make the topic, wait for a line on stdin, then publish every row and wait for each acknowledgement."""
    producer = await _producer(await _client(options), options.topic)
    _say(event="topic")
    await asyncio.to_thread(sys.stdin.readline)
    resends = 0
    for count, row in enumerate(_rows(), start=1):
        resends += await _send(producer, row)
        if count % _PROGRESS_EVERY == 0:
            _say(event="acknowledged", count=count)
    _say(event="published", count=count, resends=resends)
    await producer.close()


async def _send(producer: Producer, row: bytes) -> int:
    """Send until acknowledged. Answers how often the client itself gave up and was asked again."""
    async with asyncio.timeout(_OUTAGE_S_MAX):
        for resends in range(sys.maxsize):
            try:
                await producer.send(row)
            except grpc.aio.AioRpcError as error:
                if error.code() not in _PASSING:
                    raise
                await asyncio.sleep(_RETRY_S)
            else:
                return resends
    raise AssertionError("unreachable")


async def _subscribe_only(options: argparse.Namespace) -> None:
    consumer = await _consumer(await _client(options), options)
    _say(event="subscribed")
    await consumer.close()


async def _consume(options: argparse.Namespace) -> None:
    """Read and acknowledge until nothing came for a while."""
    consumer = await _consumer(await _client(options), options)
    messages = await consumer.receive()
    payloads: list[bytes] = []
    while True:
        try:
            message = await asyncio.wait_for(messages.get(), options.idle_timeout_s)
        except TimeoutError:
            break
        payloads.append(message.payload)
        await consumer.ack(message)
    await consumer.close()
    options.out.write_bytes(b"".join(payload + b"\n" for payload in payloads))
    _say(event="consumed", count=len(payloads))


async def _client(options: argparse.Namespace) -> DanubeClient:
    builder = DanubeClientBuilder().service_url(options.service_url)
    if "DANUBE_TOKEN" in os.environ:
        builder = builder.with_tls(os.environ["DANUBE_CA_CERT"]).with_token(os.environ["DANUBE_TOKEN"])
    return await builder.build()


async def _producer(client: DanubeClient, topic: str) -> Producer:
    builder = client.new_producer().with_topic(topic).with_name("airports-publisher")
    producer = builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
    await producer.create()
    return producer


async def _consumer(client: DanubeClient, options: argparse.Namespace) -> Consumer:
    builder = client.new_consumer().with_topic(options.topic).with_consumer_name("airports-reader")
    builder = builder.with_subscription(options.subscription).with_subscription_type(SubType.EXCLUSIVE)
    consumer = builder.build()
    await consumer.subscribe()
    return consumer


def _say(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    main()
