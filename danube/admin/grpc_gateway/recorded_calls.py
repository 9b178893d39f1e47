"""Which calls a broker records itself, as its catalogue has it: those leave no second record of the face."""

from collections.abc import Callable
from enum import Enum, auto

from danube.wire.plan_messages import CREATE_PLAN
from danube.wire.schema_messages import SET_MODE

READING = ("Get", "List", "Describe", "Read", "Find", "Preview", "Explain", "ClusterStatus", "Peek")
"""Beginnings of the names of methods that change nothing."""
_ALSO_READING = {
    *("Authenticate", "Record", "CheckCompatibility", "CheckVersion", "ReceiveMessages", "TopicLookup"),
    *("TopicPartitions", "HealthCheck", "Fetch", "Bounds"),
}
"""`Record` is the record itself."""
_EVERYDAY = {
    *("CreateTopic", "CreatePartitionedTopic", "CreateSubscription", "RegisterSchema", "RegisterVersion"),
    *("ClaimRunner", "BeginRun", "CreateProducer", "SendMessage", "Subscribe", "Ack", "Nack", "Publish", "Consume"),
    *("CloseProducer", "CloseConsumer"),
}
"""Changes that applications make all day."""
_ASKS: dict[str, Callable[[bytes], bool]] = {
    "/danube.control.Plans/CreatePlan": lambda request: CREATE_PLAN.decode(request).dry_run,
    "/danube.control.Schemas/SetMode": lambda request: SET_MODE.decode(request).ask,
}
"""Calls that with some requests only read."""


class WhoRecords(Enum):
    """Who records a call."""

    NOBODY = auto()
    """Nobody needs to: it changes nothing."""
    FACE = auto()
    BROKER = auto()


def who_records(path: str, request: bytes = b"") -> WhoRecords:
    """Who records a call of a broker of ours."""
    method = path.rpartition("/")[2]
    if method in _EVERYDAY:
        return WhoRecords.FACE
    asks = _ASKS.get(path)
    if method.startswith(READING) or method in _ALSO_READING or (asks is not None and request and asks(request)):
        return WhoRecords.NOBODY
    return WhoRecords.BROKER
