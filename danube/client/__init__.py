"""The async client library. Its names are those of danube-client 0.5.0, and `Message`."""

from danube.client.client import DanubeClient, DanubeClientBuilder
from danube.client.consumer import Consumer, ConsumerBuilder, ConsumerOptions
from danube.client.message import Message
from danube.client.producer import Producer, ProducerBuilder, ProducerOptions
from danube.client.schemas import SchemaRegistryClient
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
    "LookupError",
    "Message",
    "Producer",
    "ProducerBuilder",
    "ProducerOptions",
    "SchemaInfo",
    "SchemaRegistryClient",
    "SchemaType",
    "SubType",
    "UnrecoverableError",
]
