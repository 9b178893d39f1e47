"""Who gets a message of a non-reliable topic: decided once for each message, nothing remembered of it."""

from danube.broker.dispatch.selection import Rotation
from danube.model.errors import UnsupportedError
from danube.model.subscription import SubscriptionType


class NonReliableSelection:
    """The consumers of one subscription on a non-reliable topic, known by their ids.

    Exclusive: the consumer that was added first, nobody while it is paused. Shared: each in turn, passing over those
    that are paused.
    """

    def __init__(self, subscription_type: SubscriptionType) -> None:
        """Raises UnsupportedError for a type that is not there yet."""
        if subscription_type not in {SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED}:
            raise UnsupportedError(
                f"subscriptions of type {subscription_type.name} are not supported yet: use EXCLUSIVE or SHARED"
            )
        self._is_shared = subscription_type is SubscriptionType.SHARED
        self._rotation: Rotation[int] = Rotation()

    def add(self, consumer_id: int) -> None:
        """A consumer comes in, with room; nothing changes for one that is here."""
        self._rotation.add(consumer_id)

    def remove(self, consumer_id: int) -> None:
        """A consumer leaves, if it is here."""
        self._rotation.remove(consumer_id)

    def pause(self, consumer_id: int) -> None:
        """The consumer has no room."""
        self._rotation.pause(consumer_id)

    def resume(self, consumer_id: int) -> None:
        """The consumer, if it is here, has room."""
        self._rotation.resume(consumer_id)

    def choose(self) -> int | None:
        """Who gets the next message; None drops it."""
        if not self._is_shared:
            only = next(iter(self._rotation), None)
            return only if only is not None and self._rotation.is_ready(only) else None
        chosen = self._rotation.first()
        if chosen is not None:
            self._rotation.pass_on()
        return chosen
