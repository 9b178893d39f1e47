"""The async client library: the names of danube-client 0.5.0, `Message`, words of `fetch` and `send_many`, and errors.

`docs/exceptions.md` has each error with when it is raised.
"""

from danube.client.client import DanubeClient, DanubeClientBuilder
from danube.client.consume.consumer import Consumer, ConsumerBuilder, ConsumerOptions
from danube.client.message import Message
from danube.client.publish.producer import Producer, ProducerBuilder, ProducerOptions
from danube.client.publish.sender import StoredRange
from danube.client.schemas import SchemaRegistryClient
from danube.model.calls.stream import FetchFrom, FetchTime, ProducerAccess
from danube.model.errors import *  # those of `__all__`
from danube.model.schema import CompatibilityMode, SchemaInfo, SchemaType
from danube.model.subscription import SubscriptionType as SubType
from danube.model.topic import DispatchStrategy

__all__ = [
    "AlreadyExistsError",
    "BrokerUnreachableError",
    "CompatibilityMode",
    "Consumer",
    "ConsumerBuilder",
    "ConsumerOptions",
    "ConsumerReplacedError",
    "DanubeClient",
    "DanubeClientBuilder",
    "DanubeError",
    "DeadlineExceededError",
    "DispatchStrategy",
    "DispatchStrategyMismatchError",
    "FetchFrom",
    "FetchTime",
    "InternalError",
    "InvalidNameError",
    "InvalidRequestError",
    "LimitReachedError",
    "LookupError",
    "Message",
    "MessageTooLargeError",
    "NotFoundError",
    "NotPermittedError",
    "OffsetTrimmedError",
    "PayloadInvalidError",
    "PreconditionFailedError",
    "Producer",
    "ProducerAccess",
    "ProducerBuilder",
    "ProducerFencedError",
    "ProducerOptions",
    "SchemaIncompatibleError",
    "SchemaInfo",
    "SchemaInvalidError",
    "SchemaRefusedError",
    "SchemaRegistryClient",
    "SchemaType",
    "SequenceError",
    "SettingsError",
    "StoredRange",
    "SubType",
    "SubscriptionBusyError",
    "TopicDeletedError",
    "TopicHeldError",
    "TopicNotFoundError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnrecoverableError",
    "UnsupportedError",
]
