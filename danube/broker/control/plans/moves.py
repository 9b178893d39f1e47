"""Moves by a plan: a topic to another broker, all topics of a broker to others, and a drained broker taken in again."""

from collections.abc import Mapping, Sequence

from danube.broker.control.moves import MoveControl, TopicMove
from danube.broker.control.plans.peers import CountedTopics, Peers
from danube.broker.control.plans.planned import PlannedCall, PlannedOperation, cannot_be_planned, if_any, texts
from danube.metadata.records.catalog import ExtraWrites
from danube.metadata.records.cluster import BrokerDrain
from danube.model.limits.broker import PLAN_NAMES_MAX
from danube.model.limits.moves import CARRY_BYTES_PER_S, PARALLEL_MOVES_MAX
from danube.model.plans.plan import Arguments, Effect, Impact, PartialImpact, fingerprint_of
from danube.model.text import count_text
from danube.model.topic import TopicName, check_name_part

_PAUSE = (
    "Each is paused while its owner changes, for less than a second as a rule: publishes are refused meanwhile, and"
    " sent again by their clients. Nothing acknowledged is lost."
)


def moves(control: MoveControl, peers: Peers) -> Mapping[str, PlannedOperation]:
    """The operations, by the names that every face knows them by."""

    def unload_topic(arguments: Arguments) -> PlannedCall:
        given = {key: value for key, value in arguments.items() if (key, value) != ("broker_id", None)}
        topic, *targets = texts("unload_topic", given, "topic", *(("broker_id",) if "broker_id" in given else ()))
        target = targets[0] if targets else None
        name = TopicName.parse(topic)

        async def impact() -> Impact:
            wanted = control.moves_of(name, target)
            return _moved(name, wanted, await _counted(peers, wanted))

        async def act(extra_writes: ExtraWrites) -> None:
            await control.move(control.moves_of(name, target), extra_writes)

        return PlannedCall(impact, act)

    def unload_broker(arguments: Arguments) -> PlannedCall:
        drain = _drain(arguments)

        async def impact() -> Impact:
            wanted = control.topics_to_leave(drain)
            return _drained(drain, wanted, await _counted(peers, wanted))

        return PlannedCall(impact, lambda extra_writes: control.drain(drain, extra_writes))

    def activate_broker(arguments: Arguments) -> PlannedCall:
        (broker_id,) = texts("activate_broker", arguments, "broker_id")

        async def impact() -> Impact:
            return _activated(broker_id, is_drained=control.is_drained(broker_id))

        return PlannedCall(impact, lambda extra_writes: control.activate(broker_id, extra_writes))

    parsers = (unload_topic, unload_broker, activate_broker)
    return {parse.__name__: PlannedOperation(Effect.MOVE, parse) for parse in parsers}


def _drain(arguments: Arguments) -> BrokerDrain:
    """The drain that these arguments ask for. Raises InvalidRequestError."""
    known = "broker_id as text, max_parallel as a number, and namespaces_include and namespaces_exclude as lists"
    wanted = {"max_parallel": 1, "namespaces_include": (), "namespaces_exclude": (), **arguments}
    broker_id, parallel = wanted.get("broker_id"), wanted["max_parallel"]
    include, exclude = wanted["namespaces_include"], wanted["namespaces_exclude"]
    is_id = isinstance(broker_id, str) and broker_id.isascii() and broker_id.isdecimal()
    is_count = isinstance(parallel, int) and 1 <= parallel <= PARALLEL_MOVES_MAX
    if len(wanted) != 4 or not is_id or not is_count:
        raise cannot_be_planned("unload_broker", arguments, known)
    if not all(isinstance(names, list | tuple) for names in (include, exclude)):
        raise cannot_be_planned("unload_broker", arguments, known)
    return BrokerDrain(
        broker_id=int(str(broker_id)),
        parallel_moves=parallel,
        include=tuple(check_name_part("namespace", str(each)) for each in include),
        exclude=tuple(check_name_part("namespace", str(each)) for each in exclude),
        reason="admin_unload",
    )


async def _counted(peers: Peers, moves: Sequence[TopicMove]) -> CountedTopics:
    return await peers.counts([one.record.name for one in moves])


def _moved(name: TopicName, moves: Sequence[TopicMove], counted: CountedTopics) -> Impact:
    partitions = "" if moves[0].record.name == name else f", {count_text(len(moves), 'partition')} of it"
    places = [[one.record.topic_id, str(one.ownership.owner), str(one.broker)] for one in moves]
    return _impact([f"Move topic {name}{partitions}."], moves, counted, fingerprint_of(places))


def _drained(drain: BrokerDrain, moves: Sequence[TopicMove], counted: CountedTopics) -> Impact:
    at_once = f", {drain.parallel_moves} at a time" if moves else ""
    changes = [
        f"Have {count_text(len(moves), 'topic')} leave broker {drain.broker_id}{at_once}.",
        f"Assign no new topics to broker {drain.broker_id} until it is activated.",
    ]
    topic_ids = [one.record.topic_id for one in moves]
    return _impact(changes, moves, counted, fingerprint_of([str(drain.broker_id), topic_ids]))


def _impact(changes: Sequence[str], moves: Sequence[TopicMove], counted: CountedTopics, fingerprint: str) -> Impact:
    """Impact of moves: each with its owner, its next one and its size, where its owner tells it."""
    named, known = moves[:PLAN_NAMES_MAX], counted.known
    ways = [f"broker {one.ownership.owner} to {one.broker}{_size(one, counted)}" for one in named]
    copied_bytes = sum(known[one.record.name].bytes for one in moves if one.is_copied and one.record.name in known)
    copy_s = f"{max(1, copied_bytes / CARRY_BYTES_PER_S):,.0f}"
    subscriptions = [f"{topic} {name}" for topic, each in sorted(known.items()) for name in each.subscriptions]
    kind = PartialImpact if counted.unknown else Impact
    return kind(
        changes=(
            *changes,
            *(f"{one.record.name}: {way}." for one, way in zip(named, ways, strict=True)),
            *if_any(len(moves) - len(named), "{} more.", "topic"),
            *counted.warnings(),
            *if_any(
                sum(one.is_copied for one in moves),
                f"The logs of {{}} are copied, {copied_bytes:,} bytes in about {copy_s} s at the default pace; they are"
                " served meanwhile.",
                "topic",
            ),
            *((_PAUSE,) if moves else ()),
        ),
        topics=tuple(str(one.record.name) for one in named),
        topic_count=len(moves),
        subscriptions=tuple(subscriptions[:PLAN_NAMES_MAX]),
        subscription_count=len(subscriptions),
        producers=counted.total("producers"),
        consumers=counted.total("consumers"),
        messages=counted.total("messages"),
        bytes=counted.total("bytes"),
        fingerprint=fingerprint,
    )


def _size(move: TopicMove, counted: CountedTopics) -> str:
    found = counted.known.get(move.record.name)
    return "" if found is None else f", {found.bytes:,} bytes"


def _activated(broker_id: str, *, is_drained: bool) -> Impact:
    change = f"Have broker {broker_id} get topics again; those that left it stay where they are."
    if not is_drained:
        change = f"Broker {broker_id} is active already: nothing changes."
    return Impact(changes=(change,), fingerprint=fingerprint_of([broker_id, is_drained]))
