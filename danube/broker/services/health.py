"""HealthCheck: whether a producer or consumer is still attached here.

An unknown id is told to close, twice at most, and then NOT_FOUND: leftover pollers of official clients go on asking
about ids they have given up, and each further CLOSE would make them attach once more.
"""

from collections import OrderedDict

from danube.broker.services.context import ServiceContext
from danube.model.calls import ClientKind, HealthStatus
from danube.model.errors import ConsumerNotFoundError, NotFoundError, ProducerNotFoundError
from danube.model.limits import UNKNOWN_IDS_MAX
from danube.rpc.carrier import Service, UnaryCall
from danube.wire import decode, encode

_CLOSES_PER_ID = 2


def health_service(context: ServiceContext) -> Service:
    """`danube.HealthCheck`."""
    unknown = _UnknownIds()

    def health_check(request: bytes, call: UnaryCall) -> bytes:  # noqa: ARG001 - answered at once
        asked = decode.health_check(request)
        if asked.client is ClientKind.PRODUCER:
            is_known = context.producers.is_attached(asked.id)
        else:
            is_known = context.consumers.is_known(asked.id)
        if is_known:
            return encode.health_status(HealthStatus.OK)
        if unknown.count(asked.id) > _CLOSES_PER_ID:
            raise _not_found(asked.client)(f"id {asked.id} is not attached to this broker: attach it again")
        return encode.health_status(HealthStatus.CLOSE)

    return Service("danube.HealthCheck", unary={"HealthCheck": health_check})


def _not_found(client: ClientKind) -> type[NotFoundError]:
    return ProducerNotFoundError if client is ClientKind.PRODUCER else ConsumerNotFoundError


class _UnknownIds:
    """How often each unknown id was asked for; the ones asked for longest ago are forgotten."""

    def __init__(self) -> None:
        self._asked: OrderedDict[int, int] = OrderedDict()

    def count(self, identity: int) -> int:
        """Once more; answers how often by now."""
        times = self._asked.pop(identity, 0) + 1
        self._asked[identity] = times
        if len(self._asked) > UNKNOWN_IDS_MAX:
            self._asked.popitem(last=False)
        return times
