"""Seeking and skipping by a plan: what would be passed over, and doing it.

The arguments, as JSON values. `seek_subscription` takes `topic`, `subscription` and `to`: an offset as a number,
`earliest`, `latest`, or a time as ISO 8601 with its zone. `skip_messages` takes `topic`, `subscription` and `count`:
the next so many messages that are not acknowledged, or 0 for those that block the subscription.
"""

from dataclasses import dataclass
from datetime import datetime

from danube.broker.control.positions import PositionControl, offset_of, skip_end, unread_before
from danube.broker.topics.subscription import ReliableSubscription
from danube.broker.topics.topic import ReliableTopic
from danube.metadata.records.catalog import ExtraWrites
from danube.model.calls.positions import SeekSubscription, SkipMessages
from danube.model.calls.stream import FetchFrom, FetchStart, FetchTime
from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import SKIP_MESSAGES_MAX
from danube.model.plans.plan import Arguments, Impact, describe_call, fingerprint_of
from danube.model.policies import SubscriptionName
from danube.model.subscription import check_member_name
from danube.model.text import count_text
from danube.model.topic import TopicName


def parse_seek(arguments: Arguments) -> SeekSubscription:
    """The arguments of `seek_subscription`. Raises InvalidRequestError."""
    name = _name("seek_subscription", arguments, "to")
    return SeekSubscription(name=name, to=_start(arguments["to"]))


def parse_skip(arguments: Arguments) -> SkipMessages:
    """The arguments of `skip_messages`. Raises InvalidRequestError."""
    name, count = _name("skip_messages", arguments, "count"), arguments["count"]
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= SKIP_MESSAGES_MAX:
        raise InvalidRequestError(
            f"count {str(count)[:40]!r} cannot be: use 1 to {SKIP_MESSAGES_MAX}, or 0 for the messages that block"
        )
    return SkipMessages(name=name, count=count)


def _name(operation: str, arguments: Arguments, other: str) -> SubscriptionName:
    topic, subscription = arguments.get("topic"), arguments.get("subscription")
    if (
        arguments.keys() != {"topic", "subscription", other}
        or not isinstance(topic, str)
        or not isinstance(subscription, str)
    ):
        call = describe_call(operation, arguments)[:200]
        raise InvalidRequestError(f"{call} cannot be planned: {operation} takes topic, subscription and {other}")
    return SubscriptionName(topic=TopicName.parse(topic), subscription=check_member_name("subscription", subscription))


def _start(to: object) -> FetchStart:
    if isinstance(to, int) and not isinstance(to, bool) and to >= 0:
        return to
    if isinstance(to, str):
        if to in {FetchFrom.EARLIEST.value, FetchFrom.LATEST.value}:
            return FetchFrom(to)
        try:
            at = datetime.fromisoformat(to)
        except ValueError:
            at = None
        if at is not None and at.tzinfo is not None:
            return FetchTime(round(at.timestamp() * 1_000))
    raise InvalidRequestError(
        f"{str(to)[:60]!r} is no place in a topic: use an offset, earliest, latest, or a time as 2026-01-31T12:00:00Z"
    )


@dataclass(frozen=True, slots=True)
class SeekCall:
    """Put a subscription elsewhere."""

    positions: PositionControl
    wanted: SeekSubscription

    async def impact(self) -> Impact:
        topic, subscription = self.positions.find(self.wanted.name)
        target = await offset_of(self.wanted.to, topic.log)
        position = subscription.driver.engine.position
        lost = unread_before(subscription, target)
        changes = f"Move subscription {subscription.record.name!r} of {topic.name} from {position:,} to {target:,}."
        again = max(0, position - target)
        come_back = (f"{_messages(again)} that {_were(again)} acknowledged will be sent again.",) if again else ()
        return _impact(topic, subscription, (changes, *come_back), lost)

    async def act(self, extra_writes: ExtraWrites) -> None:
        await self.positions.jump(self.wanted, extra_writes=extra_writes)


@dataclass(frozen=True, slots=True)
class SkipCall:
    """Count messages as acknowledged that are not."""

    positions: PositionControl
    wanted: SkipMessages

    async def impact(self) -> Impact:
        topic, subscription = self.positions.find(self.wanted.name)
        if self.wanted.count:
            lost = unread_before(subscription, skip_end(subscription, self.wanted.count))
            change = f"Skip the next {_messages(lost)} of subscription {subscription.record.name!r} of {topic.name}."
        else:
            lost = subscription.driver.engine.blocked_messages
            change = f"Skip {_messages(lost)} that block{'s' * (lost == 1)} subscription {subscription.record.name!r}."
        # Which messages are the next ones depends on where it stands: a plan is for those, and for no others.
        return _impact(topic, subscription, (change,), lost, stands=subscription.driver.engine.position)

    async def act(self, extra_writes: ExtraWrites) -> None:
        await self.positions.skip(self.wanted, extra_writes=extra_writes)


def _impact(
    topic: ReliableTopic,
    subscription: ReliableSubscription,
    changes: tuple[str, ...],
    lost: int,
    *,
    stands: int | None = None,
) -> Impact:
    record = subscription.record
    passed = f"{_messages(lost)} that {_were(lost)} not acknowledged will never be sent to this subscription."
    return Impact(
        changes=changes,
        irreversible=(passed,) if lost else (),
        topics=(topic.name,),
        topic_count=1,
        subscriptions=(f"{topic.name} {record.name}",),
        subscription_count=1,
        consumers=subscription.connected(),
        messages=lost,
        fingerprint=fingerprint_of([topic.record.topic_id, record.subscription_id, stands]),
    )


def _messages(count: int) -> str:
    return count_text(count, "message")


def _were(messages: int) -> str:
    return "was" if messages == 1 else "were"
