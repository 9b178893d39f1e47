"""Addresses of brokers, and the calls of the client port as carriers name them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """A broker, and what to dial for it."""

    connect_url: str
    """What to dial: the broker itself, or a proxy before it."""
    broker_url: str
    """Who is meant."""
    proxy: bool = False
    """True if calls must name the broker, so that the proxy knows where they go."""

    @classmethod
    def direct(cls, url: str) -> "BrokerAddress":
        """The broker that answers at `url`."""
        return cls(url, url)


CREATE_PRODUCER = "/danube.ProducerService/CreateProducer"
SEND_MESSAGE = "/danube.ProducerService/SendMessage"
SUBSCRIBE = "/danube.ConsumerService/Subscribe"
RECEIVE_MESSAGES = "/danube.ConsumerService/ReceiveMessages"
ACKNOWLEDGE = "/danube.ConsumerService/Ack"
NEGATIVE_ACKNOWLEDGE = "/danube.ConsumerService/Nack"
TOPIC_LOOKUP = "/danube.Discovery/TopicLookup"
TOPIC_PARTITIONS = "/danube.Discovery/TopicPartitions"
HEALTH_CHECK = "/danube.HealthCheck/HealthCheck"
PUBLISH = "/danube.stream.StreamService/Publish"
FETCH = "/danube.stream.StreamService/Fetch"
CONSUME = "/danube.stream.StreamService/Consume"
BOUNDS = "/danube.stream.StreamService/Bounds"
CLOSE_PRODUCER = "/danube.stream.StreamService/CloseProducer"
CLOSE_CONSUMER = "/danube.stream.StreamService/CloseConsumer"
SCHEMA_REGISTRY = "/danube_schema.SchemaRegistry"
"""Without the method's name."""
SCHEMAS = "/danube.control.Schemas"
"""Likewise; only our brokers have it."""
SCHEDULES = "/danube.control.Schedules"
"""Likewise."""
CONNECTORS = "/danube.control.Connectors"
"""Likewise."""
