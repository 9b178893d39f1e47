"""Reports of lag and of its history: the worst first, each with its evidence and next step, nothing left out unsaid."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from danube.model.lag.alerts import IncidentCause
from danube.model.lag.group import PartitionLag, groups_of
from danube.model.lag.next_steps import NEXT_STEPS
from danube.model.lag.rows import group_row, partition_row
from danube.model.lag.rules import judge
from danube.model.lag.verdict import LagCause, Observation
from danube.model.records.analytics import Row
from danube.report.document import html, markdown
from danube.report.sections import Section, sections_of
from tests.unit.model.lag_cases import AT_S, POLICY, each_5_s, ms, rising

READ = each_5_s(rising(100, 10), rising(100, 10))
ONE_STUCK = each_5_s([50] * 10, [49] * 10, in_flight=1, consumers=1)
SLOW = each_5_s(rising(400, 20), rising(10, 10), in_flight=7, consumers=2, oldest_s=20)
"""480 unread."""


@dataclass(frozen=True, kw_only=True)
class Result:
    job: str
    as_of_ms: int
    tables: Mapping[str, Sequence[Row]]
    totals: Mapping[str, int] = field(default_factory=dict)
    run_id: str = "nightly"
    window: Mapping[str, int] = field(default_factory=dict)


def lag_result(histories: dict[str, Sequence[Observation]]) -> Result:
    partitions = []
    for topic, history in histories.items():
        verdict = judge(history, ms(AT_S), POLICY)
        assert verdict is not None
        partitions.append(PartitionLag(topic=topic, subscription="billing", verdict=verdict))
    groups = groups_of(partitions, POLICY)
    return Result(
        job="lag",
        as_of_ms=ms(AT_S),
        tables={"groups": [*map(group_row, groups)], "partitions": [*map(partition_row, partitions)]},
    )


def by_title(result: Result) -> dict[str, Section]:
    return {section.title: section for section in sections_of(result)}


def test_each_group_that_is_behind_has_evidence_and_next_step_the_one_with_the_most_harm_first() -> None:
    result = lag_result({"/default/idle": ONE_STUCK, "/default/orders": SLOW, "/default/read": READ})
    (slow, stuck) = by_title(result)["Verdict"].verdicts
    who = "WARN: /default/orders by billing"
    assert slow[1].splitlines() == [
        f"{who}: 480 messages behind from offset 100, the oldest 30 s old, too slow; never clears at these rates.",
        "the lag does not fall so that it clears within 10 m; 180 arrived, 90 acknowledged in 45 s",
        "Next: add consumers (shared, key_shared) or partitions",
    ]
    assert stuck[1].startswith("STALL: /default/idle by billing: 1 message behind from offset 49, ")
    assert "Next: restart that consumer" in stuck[1]
    page = html(result)
    assert page.index("/default/orders by billing") < page.index("/default/idle by billing")


def test_the_table_has_evidence_in_flight_consumers_and_retention_and_says_never() -> None:
    (table,) = by_title(lag_result({"/default/orders": SLOW, "/default/read": READ}))["Lag"].tables
    row = dict(zip(table.columns, (text for text, _ in table.rows[0]), strict=True))
    assert (row["clears in"], row["in flight"], row["consumers"], row["retention"]) == (
        "never",
        "7",
        "2",
        "83 % unread",
    )
    assert row["evidence"].startswith("the lag does not fall")


def test_what_is_not_shown_is_counted() -> None:
    result = lag_result({f"/default/t{number}": ONE_STUCK for number in range(27)})
    verdicts = by_title(result)["Verdict"].verdicts
    assert (len(verdicts), verdicts[-1][1]) == (21, "7 more groups are behind: the table has them, too.")
    cut = replace(result, totals={"groups": 107})
    rest = "27 rows are shown, the worst first; 80 more are not."
    assert rest in html(cut)
    assert rest in markdown(cut)


def test_all_is_well_in_the_singular() -> None:
    assert by_title(lag_result({"/default/read": READ}))["Verdict"].verdicts == [
        ("good", "None of 1 group needs help.")
    ]


def test_history_draws_each_subscription_apart_with_its_incidents() -> None:
    names = [f"/default/t{number} billing" for number in range(3)]
    over_time = [
        {"name": name, "moment_ms": 60_000 * at, "lag_s": 10.0 * at, "lag_messages": at}
        for name in names
        for at in range(10)
    ]
    incident = {
        "topic": "/default/t2", "subscription": "billing", "cause": "consumer_stuck",
        "chain": "consumer_stuck -> blocked", "began_ms": 120_000, "ended_ms": None, "peak_lag_messages": 9,
        "peak_lag_s": 90.0, "messages_lost": 0, "offset": 7, "consumer": "reader at host", "evidence": "7 in flight",
        "sentence": "/default/t2 by billing: consumer stuck", "tone": "bad", "next_step": "restart that consumer",
    }  # fmt: skip
    tables = {"incidents": [incident], "lag_over_time": over_time, "quality": []}
    sections = by_title(Result(job="history", as_of_ms=540_000, tables=tables))
    ages = sections["Age of the oldest unread message, seconds; incidents are shaded"].plots
    assert [plot.count('class="span"') for plot in ages] == [1, 0, 0]
    assert "/default/t2 billing" in ages[0]
    assert sections["Verdict"].verdicts[0][1].splitlines()[1:] == ["7 in flight", "Next: restart that consumer"]
    ((row,),) = [table.rows for table in sections["Incidents"].tables]
    assert ("consumer stuck → blocked", False) in row
    assert ("reader at host", False) in row


@pytest.mark.parametrize("cause", [*LagCause, *IncidentCause])
def test_every_cause_has_a_next_step(cause: LagCause | IncidentCause) -> None:
    assert NEXT_STEPS[cause]
