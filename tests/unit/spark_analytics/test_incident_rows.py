"""Rows of incidents: a sentence and a next step for each, the worst first."""

from typing import Any

from spark_analytics.jobs.history_run import _harm, _incident_row


def row(**more: Any) -> dict[str, Any]:
    return _incident_row(
        {
            "topic": "/default/orders", "subscription": "billing", "cause": "consumer_gone", "chain": "consumer_gone",
            "began_ms": 1_750_000_000_000, "ended_ms": None, "peak_lag_s": 90.0, "peak_lag_messages": 1,
            "messages_lost": 0, "retention_deadline_s": None, "offset": 7, "consumer": None, **more,
        }
    )  # fmt: skip


def test_the_sentence_names_causes_place_and_numbers_in_the_singular() -> None:
    begin = "/default/orders by billing: consumer gone (offset 7) from 2025-06-15 15:06:40Z"
    assert row()["sentence"] == f"{begin} and it lasts, at most 1 message, 1 m 30 s behind."


def test_a_consumer_is_named_and_each_cause_of_the_chain_has_its_step() -> None:
    found = row(
        cause="consumer_stuck", chain="consumer_stuck -> blocked -> data_loss", consumer="c at h", messages_lost=2
    )
    assert "consumer stuck → blocked → data loss (c at h, offset 7) from" in found["sentence"]
    assert "2 messages deleted unread" in found["sentence"]
    restart, retry, keep = found["next_step"].split("; then ")
    assert restart.startswith("restart that consumer")
    assert "topics retry-blocked /default/orders -s billing" in retry
    assert keep.endswith("topics set-retention /default/orders --keeps-unread")


def test_the_worst_come_first_and_an_idle_topic_last() -> None:
    rows = {
        "idle": row(peak_lag_messages=3, peak_lag_s=90_000.0),
        "busy": row(peak_lag_messages=9_000, peak_lag_s=100.0, ended_ms=1_750_000_900_000),
        "lost": row(peak_lag_messages=10, messages_lost=4),
    }
    assert sorted(rows, key=lambda name: _harm(rows[name])) == ["lost", "busy", "idle"]
