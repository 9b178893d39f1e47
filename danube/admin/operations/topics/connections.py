"""Clients that are connected to a topic."""

from enum import StrEnum

from pydantic import Field

from danube.admin.operations.fields import Params, Result, TopicText
from danube.admin.operations.operation import Call, Example, Operation
from danube.admin.operations.topics.topics import TopicParams
from danube.model.calls.positions import Connection, DisconnectClient
from danube.model.errors import NotFoundError, PreconditionFailedError
from danube.model.plans.plan import Effect
from danube.model.topic import TopicName

TOOLSET = "messages"


class DisconnectParams(Params):
    """One client."""

    topic: TopicText = Field(description="The topic: /namespace/name; of a partitioned one, all its partitions.")
    client: str = Field(min_length=1, max_length=300, description="Its name, or its id where several have one name.")


class ClientKind(StrEnum):
    """Role of a client at a topic."""

    PRODUCER = "producer"
    CONSUMER = "consumer"


class ConnectionRow(Result):
    """One client that is connected."""

    name: str = Field(description="Its name, which it chose itself.")
    kind: ClientKind = Field(description="What it does.")
    subscription: str | None = Field(description="That of a consumer; null for a producer.")
    topic: str = Field(description="The topic, or the partition.")
    client_id: str = Field(description="Its id, which tells clients of one name apart.")
    takeovers: int = Field(
        0, description="How often a client of the same name took this place lately: 0 where each has its own name."
    )
    held_off: int = Field(0, description="How often clients that came back for the place had to wait.")
    rival: str | None = Field(None, description="Address of the client that lost the place, or had to wait, last.")


class ConnectionList(Result):
    """Connected clients."""

    topic: str = Field(description="The topic.")
    connection_count: int = Field(description="How many there are; the list has the first of them.")
    connections: list[ConnectionRow] = Field(description="Consumers first.")


class Disconnected(ConnectionRow):
    """A client that was disconnected."""

    disconnected: bool = Field(description="True: it was connected; it may be connected again by now.")


async def _list(call: Call, params: TopicParams) -> ConnectionList:
    shown, count = await call.gateway.topic_connections(TopicName.parse(params.topic))
    rows = [_row(each) for each in shown]
    return ConnectionList(topic=params.topic, connection_count=count, connections=rows)


async def _disconnect(call: Call, params: DisconnectParams) -> Disconnected:
    shown, count = await call.gateway.topic_connections(TopicName.parse(params.topic))
    found = [each for each in shown if params.client in {each.name, str(each.client_id)}]
    if not found:
        among = f" among the first {len(shown):,} of {count:,}" if count > len(shown) else ""
        raise NotFoundError(
            f"there is no client {params.client[:60]!r} on {params.topic}{among}: list its connections to see who is"
            " there"
        )
    if len(found) > 1:
        ids = ", ".join(str(each.client_id) for each in found[:10])
        raise PreconditionFailedError(
            f"{len(found)} clients on {params.topic} have the name {params.client[:60]!r}: give the id of one ({ids})"
        )
    await call.gateway.disconnect(DisconnectClient(topic=found[0].topic, client_id=found[0].client_id))
    return Disconnected.of(_row(found[0]), disconnected=True)


def _row(connection: Connection) -> ConnectionRow:
    return ConnectionRow.of(
        connection,
        kind=ClientKind.PRODUCER if connection.subscription is None else ClientKind.CONSUMER,
        topic=str(connection.topic),
        client_id=str(connection.client_id),
        rival=connection.rival or None,
    )


LIST_CONNECTIONS = Operation(
    name="list_connections",
    words=("topics", "connections"),
    summary="List the connected producers and consumers of a topic.",
    effect=Effect.READ,
    params=TopicParams,
    result=ConnectionList,
    rows="connections",
    run=_list,
    positional=("topic",),
    toolset=TOOLSET,
    examples=(Example("Who is at /default/orders", {"topic": "/default/orders"}),),
)

DISCONNECT_CLIENT = Operation(
    name="disconnect_client",
    words=("topics", "disconnect"),
    summary="Disconnect a producer or a consumer from a topic.",
    description="A client that lives comes back at once. To keep it away, stop it where it runs.",
    effect=Effect.WRITE,
    params=DisconnectParams,
    result=Disconnected,
    run=_disconnect,
    done="Disconnected: {kind} {name} of {topic}",
    positional=("topic", "client"),
    toolset=TOOLSET,
    examples=(Example("The consumer `billing-1`", {"topic": "/default/orders", "client": "billing-1"}),),
)

OPERATIONS = (LIST_CONNECTIONS, DISCONNECT_CLIENT)
