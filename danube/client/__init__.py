"""The async client library: the names of danube-client 0.5.0, `Message`, and what `fetch` and `send_many` speak of."""

from danube.client.client import DanubeClient, DanubeClientBuilder
from danube.client.consume.consumer import Consumer, ConsumerBuilder, ConsumerOptions
from danube.client.message import Message
from danube.client.publish.batch_stream import StoredRange
from danube.client.publish.producer import Producer, ProducerBuilder, ProducerOptions
from danube.client.schemas import SchemaRegistryClient
from danube.model.calls.stream import FetchFrom, FetchTime, ProducerAccess
from danube.model.errors import DanubeError, LookupError, UnrecoverableError  # noqa: A004 - a public name
from danube.model.schema import CompatibilityMode, SchemaInfo, SchemaType
from danube.model.subscription import SubscriptionType as SubType
from danube.model.topic import DispatchStrategy

__all__ = [
    "CompatibilityMode",
    "Consumer",
    "ConsumerBuilder",
    "ConsumerOptions",
    "DanubeClient",
    "DanubeClientBuilder",
    "DanubeError",
    "DispatchStrategy",
    "FetchFrom",
    "FetchTime",
    "LookupError",
    "Message",
    "Producer",
    "ProducerAccess",
    "ProducerBuilder",
    "ProducerOptions",
    "SchemaInfo",
    "SchemaRegistryClient",
    "SchemaType",
    "StoredRange",
    "SubType",
    "UnrecoverableError",
]
