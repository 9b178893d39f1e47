"""How workers reach a cluster that wants TLS and a token."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from danube.model.calls.client import PartitionsAnswer
from danube.model.errors import BrokerUnreachableError
from danube.model.topic import TopicName
from danube.rpc.carrier import CarrierServer, Service, UnaryCall
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.runtime.clock import SystemClock
from danube.tables.link import connect
from danube.wire import client_messages
from spark_analytics.options import parse_options

CERTIFICATES = Path(__file__).parents[1] / "rpc/certificates"
TOPIC = "/default/orders"


class Acceptor:
    """A broker's lookup over TLS, which notes the tokens that it is shown."""

    def __init__(self) -> None:
        self.tokens: list[str] = []

    def partitions(self, request: bytes, call: UnaryCall) -> bytes:
        self.tokens.append(call.caller.metadata.get("authorization", ""))
        return client_messages.PARTITIONS_ANSWER.encode(
            PartitionsAnswer(request_id=1, partitions=(TopicName.parse(TOPIC),))
        )


@pytest.fixture
def door() -> Acceptor:
    return Acceptor()


@pytest.fixture
async def server(door: Acceptor) -> AsyncIterator[CarrierServer]:
    pair = [(CERTIFICATES / "server.key").read_bytes(), (CERTIFICATES / "server.pem").read_bytes()]
    carrier = GrpcCarrier(SystemClock(), server_credentials=grpc.ssl_server_credentials([(pair[0], pair[1])]))
    service = Service("danube.Discovery", unary={"TopicPartitions": door.partitions})
    server = await carrier.serve("127.0.0.1:0", [service])
    yield server
    await server.stop(0)


async def test_certificate_and_token_of_the_options_open_the_door(server: CarrierServer, door: Acceptor) -> None:
    given = {"topic": TOPIC, "service_url": f"https://{server.address}", "token": "s3cret"}
    given["ca_cert"] = str(CERTIFICATES / "ca.pem")
    options = await asyncio.to_thread(parse_options, given)  # it reads the file
    async with await connect(options.endpoint) as client:
        assert await client.partitions(TOPIC) == (TOPIC,)
    assert door.tokens == ["Bearer s3cret"]


async def test_token_does_not_travel_to_a_broker_that_is_not_trusted(server: CarrierServer, door: Acceptor) -> None:
    options = parse_options({"topic": TOPIC, "service_url": f"http://{server.address}", "token": "s3cret"})
    async with await connect(options.endpoint) as client:
        with pytest.raises(BrokerUnreachableError):
            await client.partitions(TOPIC)
    assert door.tokens == []
