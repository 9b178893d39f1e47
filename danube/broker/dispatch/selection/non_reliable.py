"""Selection of the consumer for a message of a non-reliable topic, once for each message."""

from danube.broker.dispatch.outlets import dispatch_key
from danube.broker.dispatch.selection.key_ring import KeyRing
from danube.broker.dispatch.selection.selection import Rotation
from danube.model.subscription import SubscriptionType


class NonReliableSelection(Rotation[int]):
    """The consumers of one subscription on a non-reliable topic, known by their ids.

    Exclusive and Failover: the consumer that was added first, nobody while it is paused. Shared: each in turn, passing
    over those that are paused. Key-Shared: the one that has the message's key, nobody while it is paused.
    """

    def __init__(self, subscription_type: SubscriptionType) -> None:
        super().__init__()
        self._type = subscription_type
        self._ring = KeyRing()

    def add(self, consumer_id: int, filters: tuple[str, ...] = ()) -> None:
        """A consumer comes in, with room; for one that is here nothing but its filters changes."""
        if self._type is SubscriptionType.KEY_SHARED:
            self._ring.add(consumer_id, filters)
        super().add(consumer_id)

    def remove(self, consumer_id: int) -> None:
        """A consumer leaves, if it is here."""
        self._ring.remove(consumer_id)
        super().remove(consumer_id)

    def choose(self, message: bytes) -> int | None:
        """The consumer that gets this encoded StreamMessage; None drops it."""
        if self._type is SubscriptionType.SHARED:
            chosen = self.first()
            if chosen is not None:
                self.pass_on()
            return chosen
        if self._type is SubscriptionType.KEY_SHARED:
            only = self._ring.owner(dispatch_key(message)) if len(self._ring) else None
        else:
            only = next(iter(self), None)
        return only if only is not None and self.is_ready(only) else None
