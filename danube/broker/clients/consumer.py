"""One consumer of a subscription: a name, an id that outlives restarts, and at times a stream."""

from dataclasses import dataclass, field

from danube.broker.cluster.name_conflict import NameConflict
from danube.model.limits.broker import ATTACH_GRACE_S
from danube.rpc.carrier import ServerStream


@dataclass(slots=True)
class Consumer:
    """A member of a subscription."""

    name: str
    consumer_id: int
    seen_s: float
    """Monotonic time of its last Subscribe, or of the end of its last stream."""
    filters: tuple[str, ...] = ()
    """Patterns of the keys that it takes, in a Key-Shared subscription; none means every key."""
    attached_before: bool = False
    """Whether its stream was open since its last Subscribe."""
    stream: ServerStream | None = field(default=None, repr=False)
    conflict: NameConflict = field(default_factory=NameConflict, repr=False)

    def is_connected(self, now_s: float) -> bool:
        """Whether it holds its place: its stream is open, or may still come after a Subscribe just now."""
        return self.stream is not None or (not self.attached_before and now_s < self.seen_s + ATTACH_GRACE_S)

    def subscribed(self, now_s: float, filters: tuple[str, ...] = ()) -> None:
        """It subscribed (again): its stream is expected."""
        self.filters = filters
        self.seen_s = now_s
        self.attached_before = False
