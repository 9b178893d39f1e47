"""Writes the records of analytics results version 1 beside this module: `python -m tests.golden.analytics.make`.

Run it for a new version only, into a new folder: files of a version that was released are never written again.
"""

from pathlib import Path

from danube.model.lag.group import PartitionLag, groups_of
from danube.model.lag.rows import GROUPS, PARTITIONS, group_row, partition_row, policy_fields
from danube.model.lag.rules import judge
from danube.model.records.analytics import LAG_JOB, RunRecord, RunWriter, encode_record
from tests.unit.model.lag_cases import AT_S, CASES, POLICY, ms

FILE = Path(__file__).parent / "v1" / "lag.jsonl"
_CASES = ("too slow", "nobody ever read", "not reliable")
_FILTER = {"topic": None, "subscription": None, "namespace": None}


def partitions() -> list[PartitionLag]:
    """One of each kind of row: with all numbers, without rates to clear, and without any."""
    found = []
    for number, name in enumerate(_CASES):
        (case,) = (each for each in CASES if each.name == name)
        verdict = judge(case.observations, ms(AT_S), POLICY)
        assert verdict is not None
        found.append(
            PartitionLag(topic=f"/default/orders-part-{number}", subscription='größte "Rechnung"', verdict=verdict)
        )
    return found


def records() -> list[RunRecord]:
    """A run that finished, and one that failed."""
    window = {"since_ms": ms(AT_S) - 900_000, "filter": _FILTER, "policy": policy_fields(POLICY)}
    done = RunWriter(run_id="nightly", attempt="a1", job=LAG_JOB)
    tables = {
        GROUPS: [group_row(one) for one in groups_of(partitions(), POLICY)],
        PARTITIONS: [partition_row(one) for one in partitions()],
    }
    totals = {name: len(rows) for name, rows in tables.items()}
    failed = RunWriter(run_id="lag-7", attempt="b2", job=LAG_JOB)
    return [
        done.started(ms(AT_S), as_of_ms=ms(AT_S), time_limit_s=1_800.0, window=window),
        *done.result(ms(AT_S + 20), tables, totals=totals, window={**window, "records": 1_234}),
        failed.started(ms(AT_S + 30), as_of_ms=ms(AT_S), time_limit_s=1_800.0, window=window),
        failed.failed(ms(AT_S + 31), error="DEADLINE_EXCEEDED", detail="it took longer than 1 s"),
    ]


def lines() -> bytes:
    return b"".join(encode_record(record) + b"\n" for record in records())


def main() -> None:
    """Write them."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_bytes(lines())


if __name__ == "__main__":
    main()
