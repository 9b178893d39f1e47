"""Seek and skip by a plan: the messages passed over, and the act.

The arguments, as JSON values. `seek_subscription` takes `topic`, `subscription` and `to`: an offset as a number,
`earliest`, `latest`, or a time as ISO 8601 with its zone. `skip_messages` takes `topic`, `subscription` and `count`:
the number of unacknowledged messages to skip, or 0 for those that block the subscription.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from danube.broker.control.plans.peers import PartitionedSeek
from danube.broker.control.plans.planned import PlannedCall, PlannedOperation, destroying, subscription_of
from danube.broker.control.positions import PositionControl, skip_end, unread_before
from danube.model.calls.positions import SeekPreview, SeekSubscription, SkipMessages
from danube.model.calls.stream import FetchFrom, FetchStart, FetchTime
from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import PLAN_NAMES_MAX, SKIP_MESSAGES_MAX
from danube.model.plans.plan import Arguments, Impact, PartialImpact, fingerprint_of
from danube.model.policies import SubscriptionName
from danube.model.text import count_text


def position_changes(control: PositionControl, seeks: PartitionedSeek) -> Mapping[str, PlannedOperation]:
    """The operations, by their names."""

    def seek_subscription(arguments: Arguments) -> PlannedCall:
        name = subscription_of("seek_subscription", arguments, "to")
        wanted = SeekSubscription(name=name, to=_start(arguments["to"]))

        async def impact() -> Impact:
            found = await seeks.preview(wanted)
            return _together([_sought(replace(wanted.name, topic=each), found[each]) for each in found])

        return PlannedCall(impact, lambda extra_writes: seeks.seek(wanted, extra_writes))

    def skip_messages(arguments: Arguments) -> PlannedCall:
        name = subscription_of("skip_messages", arguments, "count")
        wanted = SkipMessages(name=name, count=_count(arguments["count"]))

        async def impact() -> Impact:
            topic, subscription = control.find(name)
            engine = subscription.driver.engine
            if wanted.count:
                lost = unread_before(subscription, skip_end(subscription, wanted.count))
                change = f"Skip the next {_messages(lost)} of subscription {name.subscription!r} of {topic.name}."
            else:
                lost = engine.blocked_messages
                change = f"Skip {_messages(lost)} that block{'s' * (lost == 1)} subscription {name.subscription!r}."
            # Which messages are the next ones depends on where it stands: a plan is for those, and for no others.
            state = [topic.record.topic_id, subscription.record.subscription_id, engine.position]
            connected = (len(topic.producers), subscription.connected())
            return _impact(name, (change,), lost, connected=connected, state=state)

        return PlannedCall(impact, lambda extra_writes: control.skip(wanted, extra_writes=extra_writes))

    return destroying(seek_subscription, skip_messages)


def _count(count: object) -> int:
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= SKIP_MESSAGES_MAX:
        raise InvalidRequestError(
            f"count {str(count)[:40]!r} cannot be: use 1 to {SKIP_MESSAGES_MAX}, or 0 for the messages that block"
        )
    return count


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


def _sought(name: SubscriptionName, preview: SeekPreview) -> Impact:
    again = max(0, preview.position - preview.target)
    change = f"Move subscription {name.subscription!r} of {name.topic} from {preview.position:,} to {preview.target:,}."
    come_back = (f"{_messages(again)} that {_were(again)} acknowledged will be sent again.",) if again else ()
    return _impact(
        name,
        (change, *come_back),
        preview.unread,
        connected=(preview.producers, preview.consumers),
        state=[preview.topic_id, preview.subscription_id, None],
    )


def _impact(
    name: SubscriptionName,
    changes: tuple[str, ...],
    lost: int,
    *,
    connected: tuple[int, int],
    state: Sequence[int | None],
) -> Impact:
    """Impact on one subscription; `connected` counts producers and consumers."""
    producers, consumers = connected
    return PartialImpact(  # the bytes of what is passed are not counted
        changes=changes,
        irreversible=_passed(lost),
        topics=(str(name.topic),),
        topic_count=1,
        subscriptions=(f"{name.topic} {name.subscription}",),
        subscription_count=1,
        producers=producers,
        consumers=consumers,
        messages=lost,
        bytes=None if lost else 0,
        fingerprint=fingerprint_of(state),
    )


def _passed(lost: int) -> tuple[str, ...]:
    if not lost:
        return ()
    return (f"{_messages(lost)} that {_were(lost)} not acknowledged will never be sent to this subscription.",)


def _together(impacts: Sequence[Impact]) -> Impact:
    """The impact on several partitions as one."""
    if len(impacts) == 1:
        return impacts[0]
    return PartialImpact(
        changes=tuple(change for each in impacts for change in each.changes)[:PLAN_NAMES_MAX],
        irreversible=_passed(sum(each.messages or 0 for each in impacts)),
        topics=tuple(name for each in impacts for name in each.topics)[:PLAN_NAMES_MAX],
        topic_count=len(impacts),
        subscriptions=tuple(name for each in impacts for name in each.subscriptions)[:PLAN_NAMES_MAX],
        subscription_count=len(impacts),
        producers=sum(each.producers or 0 for each in impacts),
        consumers=sum(each.consumers or 0 for each in impacts),
        messages=sum(each.messages or 0 for each in impacts),
        bytes=None if any(each.bytes is None for each in impacts) else 0,
        fingerprint=fingerprint_of([each.fingerprint for each in impacts]),
    )


def _messages(count: int) -> str:
    return count_text(count, "message")


def _were(messages: int) -> str:
    return "was" if messages == 1 else "were"
