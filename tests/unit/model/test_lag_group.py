"""Groups: as bad as the worst partition, and caught up when the slowest is."""

from dataclasses import replace

from danube.model.lag.group import GroupLag, LagFilter, PartitionLag, groups_of, harm, worst_first
from danube.model.lag.rules import judge
from danube.model.lag.verdict import EtaReason, LagCause, LagStatus, Observation
from tests.unit.model.lag_cases import AT_S, POLICY, each_5_s, ms, rising, seen

FAST = each_5_s(rising(110, 10), rising(10, 20), oldest_s=30)
"""10 unread; 10 * 45 / (180 - 90) = 5 s."""
SLOW = each_5_s([1_000] * 10, rising(10, 20), oldest_s=10)
"""810 unread, nothing arrives: 810 * 45 / 180 = 202.5 s."""
FALLS_BEHIND = each_5_s(rising(20, 20), rising(10, 10), oldest_s=20)
"""100 unread."""
READ = each_5_s(rising(100, 10), rising(100, 10))


def partition(topic: str, history: list[Observation], subscription: str = "billing") -> PartitionLag:
    verdict = judge(history, ms(AT_S), POLICY)
    assert verdict is not None
    return PartitionLag(topic=topic, subscription=subscription, verdict=verdict)


def group(*histories: list[Observation]) -> GroupLag:
    members = [partition(f"/default/orders-part-{number}", history) for number, history in enumerate(histories)]
    (found,) = groups_of(members, POLICY)
    return found


def test_a_group_has_caught_up_when_its_slowest_partition_has() -> None:
    found = group(FAST, SLOW, READ)
    assert (found.eta_s, found.eta_reason, found.eta_partition) == (202.5, None, "/default/orders-part-1")
    assert (found.lag_messages, found.lag_s, found.partitions) == (820, 40.0, 3)


def test_a_group_never_catches_up_when_one_partition_falls_behind() -> None:
    found = group(SLOW, FALLS_BEHIND, FAST)
    assert (found.eta_s, found.eta_reason) == (None, EtaReason.FALLS_BEHIND)
    assert found.eta_partition == "/default/orders-part-1"
    total = 0.0 + 4.0 + 2.0
    assert (found.status, found.arrival_rate) == (LagStatus.WARN, total)


def test_a_group_is_as_bad_as_its_worst_partition() -> None:
    stuck = each_5_s([50] * 10, [40] * 10, in_flight=10)
    found = group(FALLS_BEHIND, stuck, READ)
    assert (found.status, found.worst_partition) == (LagStatus.STALL, "/default/orders-part-1")


def test_a_partition_that_is_not_known_makes_the_sum_of_rates_unknown_and_the_group_incomplete() -> None:
    found = group(READ, [seen(50, 9, 4)])
    assert (found.arrival_rate, found.lag_messages, found.complete) == (None, 5, 0.5)


def test_groups_and_partitions_come_worst_first_and_those_that_are_ok_by_name() -> None:
    members = [
        partition("/default/a", READ),
        partition("/default/d", SLOW),
        partition("/default/c", FAST),
        partition("/default/b", each_5_s([50] * 10, [40] * 10), "audit"),
        partition("/default/b", FALLS_BEHIND),
    ]
    few = replace(members[3].verdict, cause=LagCause.DATA_LOSS, lag_messages=2)
    members.append(PartitionLag(topic="/default/e", subscription="billing", verdict=few))
    order = [("/default/e", "billing"), ("/default/b", "billing"), ("/default/b", "audit")]
    order += [("/default/a", "billing"), ("/default/c", "billing"), ("/default/d", "billing")]
    assert [(one.topic, one.subscription) for one in groups_of(members, POLICY)] == order
    assert [(one.topic, one.subscription) for one in worst_first(members)] == order


def test_groups_keep_their_places_while_their_lags_change_a_little() -> None:
    assert harm(LagStatus.STALL, None, 1_835) == harm(LagStatus.STOP, None, 1_832)
    assert harm(LagStatus.WARN, None, 3_700) < harm(LagStatus.STALL, None, 1_835) < harm(LagStatus.STALL, None, None)


def test_a_plain_topic_with_the_name_of_a_partition_is_a_group_of_its_own() -> None:
    plain = "/default/orders-part-2024"
    members = [partition("/default/orders-part-0", FAST), partition(plain, SLOW)]
    found = {one.topic: one.partitions for one in groups_of(members, POLICY, {plain})}
    assert found == {"/default/orders": 1, plain: 1}
    wanted = LagFilter(topic="/default/orders", plain={plain})
    assert [wanted.takes(one.topic, one.subscription) for one in members] == [True, False]
