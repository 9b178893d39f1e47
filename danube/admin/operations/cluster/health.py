"""health.*: is all well?"""

import asyncio
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from danube.admin.operations.fields import VOLATILE, Params, Result
from danube.admin.operations.operation import Call, Example, Operation
from danube.model.calls.admin import (
    UNREACHABLE,
    BrokerDescription,
    BrokerInfo,
    BrokerState,
    ClusterDescription,
    ClusterMember,
    StorageDescription,
)
from danube.model.errors import DanubeError, UnsupportedError
from danube.model.ownership import OwnershipState
from danube.model.plans.plan import Effect
from danube.model.text import age_text, count_text, size_text, span_text


class CheckStatus(StrEnum):
    """Result of a check, from good to bad."""

    OK = "ok"
    UNKNOWN = "unknown"
    WARNING = "warning"
    CRITICAL = "critical"


class Check(Result):
    """One check."""

    name: str = Field(description="What was looked at.")
    status: CheckStatus = Field(description="`ok`, `unknown`, `warning` or `critical`.")
    detail: Annotated[str, VOLATILE] = Field(description="What was found, and what to do about it.")


class Health(Result):
    """All checks, and the worst of them."""

    verdict: CheckStatus = Field(description="The worst of the checks; unknown ones do not count.")
    checks: list[Check] = Field(description="Every check that was made.")


async def _health(call: Call, params: Params) -> Health:  # noqa: ARG001 - it has none
    brokers = await call.gateway.brokers()
    leader, of_cluster, of_brokers, namespaces = await asyncio.gather(
        _leader(call, len(brokers)), _of_cluster(call), _of_brokers(call), _namespaces(call)
    )
    checks = [_brokers(list(brokers)), leader, *of_cluster, *of_brokers, namespaces]
    order = list(CheckStatus)
    known = [check.status for check in checks if check.status is not CheckStatus.UNKNOWN]
    return Health(verdict=max(known, key=order.index, default=CheckStatus.UNKNOWN), checks=checks)


def _brokers(brokers: list[BrokerInfo]) -> Check:
    if not brokers:
        return _check("brokers", CheckStatus.CRITICAL, "no broker is registered: start one")
    idle = [info for info in brokers if info.status != "active"]
    if not idle:
        return _check("brokers", CheckStatus.OK, f"{len(brokers)} active")
    worst = CheckStatus.CRITICAL if len(idle) == len(brokers) else CheckStatus.WARNING
    words = ", ".join(f"{info.broker_id} is {info.status}" for info in idle[:5])
    is_drained = any(info.status == "drained" for info in idle)
    step = ". A drained one gets no topics until activate_broker, and may be stopped" if is_drained else ""
    return _check("brokers", worst, f"{len(idle)} of {len(brokers)} not active: {words}{step}")


async def _leader(call: Call, brokers: int) -> Check:
    leader = await call.gateway.leader()
    if leader is not None:
        return _check("leader", CheckStatus.OK, f"broker {leader} leads")
    if brokers <= 1:
        return _check("leader", CheckStatus.OK, "a broker that stands alone needs none")
    return _check("leader", CheckStatus.CRITICAL, "nobody leads: topics are not assigned until a leader is elected")


async def _of_cluster(call: Call) -> list[Check]:
    try:
        cluster = await call.gateway.describe_cluster()
    except UnsupportedError:
        return []
    judged = _judge_owners(cluster, call.clock.now_ms())
    topics = [_check("topics without owner", *judged)] if cluster.brokers else []
    return [*_agreement(cluster), *topics, *_lost_logs(cluster.brokers)]


def _lost_logs(brokers: Sequence[BrokerState]) -> list[Check]:
    having = [each for each in brokers if each.lost_logs]
    if not having:
        return []
    words = "; ".join(
        f"{count_text(each.lost_logs, 'topic')} on the disk of broker {each.broker_id}" for each in having
    )
    told = f"topics were started anew without their messages, which are still there: {words}"
    return [_check("lost logs", CheckStatus.CRITICAL, f"{told}. Save what is needed of them from those data folders")]


def _judge_owners(cluster: ClusterDescription, now_ms: int) -> tuple[CheckStatus, str]:
    """Topics that wait for their broker are critical; others take over the rest by themselves, in a moment."""
    lost = [each for each in cluster.brokers if each.status == UNREACHABLE and each.topics]
    count = sum(each.topics for each in cluster.unserved) or sum(each.topics for each in lost)
    if not count:
        moving = f"; {count_text(cluster.move_count, 'topic')} on the move" if cluster.move_count else ""
        return CheckStatus.OK, f"the brokers of all {sum(each.topics for each in cluster.brokers):,} topics run{moving}"
    words = "; ".join(_owner(each, now_ms) for each in lost[:5]) or cluster.unserved[0].reason
    found = f"topics that nobody serves: {count:,} ({words})"
    if cluster.unserved and all(each.state is not OwnershipState.WAITING for each in cluster.unserved):
        return CheckStatus.WARNING, f"{found}. Other brokers open them in a moment: look again"
    return CheckStatus.CRITICAL, f"{found}. Start those brokers again: their topics wait for them"


def _owner(lost: BrokerState, now_ms: int) -> str:
    if lost.broker_id == "0":
        return f"{lost.topics:,} belong to no broker"
    seen_ms = lost.last_seen_ms
    since = f" for {age_text(now_ms - seen_ms)}" if seen_ms is not None else ""
    return f"{lost.topics:,} of broker {lost.broker_id}, which is unreachable{since}"


def _member_name(member: ClusterMember) -> str:
    return member.address if member.node_id == member.address else f"{member.address} ({member.node_id})"


def _agreement(cluster: ClusterDescription) -> list[Check]:
    """The agreement of brokers among themselves; a service outside is not ours to judge."""
    if not cluster.members:
        return []
    voters = [member for member in cluster.members if member.votes]
    away = [member for member in cluster.members if not member.connected]
    names = ", ".join(_member_name(member) for member in away[:5])
    if not cluster.has_quorum:
        lost = f"no majority of the {len(voters)} voters is reached: nothing can be made, changed or deleted"
        return [_check("agreement", CheckStatus.CRITICAL, f"{lost}. Start the brokers at {names}")]
    if away:
        gone = f"{len(away)} of {len(cluster.members)} members are away: {names}"
        return [_check("agreement", CheckStatus.WARNING, f"{gone}. Start them, or remove those that are gone for good")]
    return [_check("agreement", CheckStatus.OK, f"{len(voters)} voters, all connected")]


async def _of_brokers(call: Call) -> list[Check]:
    """Checks of the cluster, by what each broker knows of itself."""
    try:
        told = await call.gateway.describe_brokers()
    except UnsupportedError:
        return [_check("messages", CheckStatus.UNKNOWN, "this broker does not tell whether it takes messages")]
    known = {each.broker_id: each.told for each in told if each.told is not None}
    silent = [f"{each.broker_id}: {each.problem}" for each in told if each.told is None]
    stored = {broker_id: each.storage for broker_id, each in known.items() if each.storage is not None}
    blocked = [each.blocked_subscriptions for each in known.values() if each.blocked_subscriptions is not None]
    checks = [_worst("messages", "take messages", {each: _judge_journal(of) for each, of in known.items()})]
    if stored:
        checks.append(_worst("storage", "have room", {each: _judge_storage(of) for each, of in stored.items()}))
    if blocked:
        checks.append(_check("subscriptions", *_judge_subscriptions(sum(blocked), len(silent))))
    if silent:
        missing = f"{len(silent)} of {count_text(len(told), 'broker')} not asked: {'; '.join(silent[:5])}"
        checks.append(_check("answers", CheckStatus.WARNING, f"{missing}. What only they know is missing here"))
    return checks


def _worst(name: str, well: str, judged: Mapping[str, tuple[CheckStatus, str]]) -> Check:
    """The worst that is said of a broker, with each of which it is so; `well` says what all do where all is well."""
    worst = max((status for status, _ in judged.values()), key=list(CheckStatus).index)
    said = [f"broker {broker_id}: {text}" for broker_id, (status, text) in judged.items() if status is worst]
    if len(judged) == 1:
        return _check(name, worst, next(iter(judged.values()))[1])
    return _check(name, worst, f"all {len(judged)} brokers {well}" if worst is CheckStatus.OK else "; ".join(said[:5]))


def _judge_subscriptions(blocked: int, silent: int) -> tuple[CheckStatus, str]:
    if not blocked:
        where = " at the brokers that answered" if silent else ""
        return CheckStatus.UNKNOWN if silent else CheckStatus.OK, f"none is blocked{where}"
    held = f"{count_text(blocked, 'subscription')} blocked by messages that failed too often"
    mend = "the lag report names them; a retry sends again what blocks one, a skip gives it up"
    return CheckStatus.WARNING, f"{held}: {mend}"


def _judge_journal(description: BrokerDescription) -> tuple[CheckStatus, str]:
    journal = description.journal
    if description.refused_reason is not None:
        return CheckStatus.CRITICAL, f"it takes no messages: {description.refused_reason}"
    if journal.failed_rounds:
        return CheckStatus.WARNING, f"{journal.failed_rounds} writes failed and were undone: look at the disk"
    return CheckStatus.OK, f"it takes messages; its last write took {journal.last_round_ms:.1f} ms"


def _judge_storage(storage: StorageDescription) -> tuple[CheckStatus, str]:
    """The worst of what there is to say."""
    free = "" if storage.disk_free_bytes is None else f"; {size_text(storage.disk_free_bytes)} of the disk are free"
    if storage.refused_topics:
        lost = f"topics whose history cannot be read, and that are not served: {storage.refused_topics}"
        return CheckStatus.CRITICAL, f"{lost}. The broker's log names them: see `danube-broker storage verify`"
    use = storage.object_store
    if use is not None and use.unanswered_s:
        silent = f"the object store does not answer, for {span_text(use.unanswered_s)} now"
        return CheckStatus.WARNING, f"{silent}: what is in {use.url} cannot be read. Check its endpoint and the network"
    if storage.disk_is_low:
        return CheckStatus.WARNING, f"there is little room left{free}: free some, or let topics keep less"
    if storage.quarantined_topics:
        kept = f"topics that keep the journal growing, as it cannot be cut for them: {storage.quarantined_topics}"
        return CheckStatus.WARNING, f"{kept}. The broker's log says why{free}"
    return CheckStatus.OK, f"{storage.segments:,} segments{free}"


async def _namespaces(call: Call) -> Check:
    try:
        namespaces = await call.gateway.namespaces()
    except DanubeError as error:
        return _check("metadata", CheckStatus.CRITICAL, f"the namespaces cannot be listed: {error}")
    return _check("metadata", CheckStatus.OK, f"{len(namespaces)} namespaces")


def _check(name: str, status: CheckStatus, detail: str) -> Check:
    return Check(name=name, status=status, detail=detail)


HEALTH_CHECK = Operation(
    name="health_check",
    words=("cluster", "health"),
    summary="Check brokers, leader, topics, journal, disk, blocked subscriptions and metadata.",
    description="Start here when something seems wrong. For consumers that fall behind, call analyze_consumer_lag.",
    effect=Effect.READ,
    params=Params,
    result=Health,
    rows="checks",
    run=_health,
    examples=(Example("Is all well?"),),
)

OPERATIONS = (HEALTH_CHECK,)
