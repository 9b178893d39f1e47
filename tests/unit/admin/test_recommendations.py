"""Recommendations: each trouble with its evidence, since when, how sure, its meaning, and the next call."""

import pytest

from danube.admin.operations import BY_NAME
from danube.admin.operations.analytics.lag import LagGroupRow
from danube.admin.operations.analytics.recommendations import of_checks, of_groups
from danube.admin.operations.cluster.health import Check, CheckStatus

_NOW_MS = 1_750_000_000_000


def group(**changes: object) -> LagGroupRow:
    plain = {
        "status": "OK", "topic": "/default/t", "subscription": "s", "lag_messages": 0, "lag_s": 0.0, "cause": None,
        "lag_method": "measured", "evidence": "fine", "retention_ratio": None, "worst_partition": "/default/t",
    }  # fmt: skip
    return LagGroupRow.model_construct(**{**plain, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "severity", "next_call"),
    [
        ({"status": "STOP", "cause": "nobody_reads"}, "critical", ("describe_topic", {"topic": "/default/t"})),
        ({"status": "WARN", "cause": "too_slow"}, "warning", ("describe_topic", {"topic": "/default/t"})),
        ({"status": "WARN"}, "warning", ("describe_topic", {"topic": "/default/t"})),
        (
            {"status": "STALL", "cause": "blocked", "worst_partition": "/default/t-part-1"},
            "critical",
            ("retry_blocked", {"topic": "/default/t-part-1", "subscription": "s"}),
        ),
        ({"retention_ratio": 0.8}, "warning", ("get_topic_policies", {"topic": "/default/t"})),
        ({"retention_ratio": 1.5}, "critical", ("get_topic_policies", {"topic": "/default/t"})),
    ],
)
def test_a_group_in_trouble_names_the_next_call_which_takes_its_arguments(
    changes: dict[str, object], severity: str, next_call: tuple[str, dict[str, str]]
) -> None:
    (found,) = of_groups([group(lag_messages=1_234, lag_s=90.0, **changes)], _NOW_MS)
    assert (found.severity, found.next_tool, found.next_arguments) == (severity, *next_call)
    assert found.since_ms == _NOW_MS - 90_000
    assert "1,234 unread" in found.seen
    BY_NAME[found.next_tool].params.model_validate(found.next_arguments)


def test_an_age_that_is_guessed_makes_it_less_sure() -> None:
    methods = ("measured", "interpolated", "extrapolated", "unknown")
    found = of_groups([group(status="STOP", lag_method=each) for each in methods], _NOW_MS)
    assert [each.confidence for each in found] == ["high", "medium", "low", "low"]


def test_nothing_is_recommended_where_nothing_is_wrong() -> None:
    assert of_groups([group(), group(status="UNKNOWN"), group(status="NOT_KEPT")], _NOW_MS) == []
    assert of_checks([Check(name="leader", status=CheckStatus.OK, detail="broker 1 leads")]) == []


def test_a_check_that_is_not_ok_is_told_with_its_detail_and_the_next_call() -> None:
    (found,) = of_checks([Check(name="agreement", status=CheckStatus.WARNING, detail="1 of 3 members are away")])
    assert (found.severity, found.next_tool, found.seen) == ("warning", "cluster_status", "1 of 3 members are away")
