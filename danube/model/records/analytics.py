"""Results of analytics jobs, version 1: one JSON object a record of ANALYTICS_TOPIC. Pure.

The format is described in `docs/formats/analytics.md`. A job says that it started, tells its rows in parts of bounded
size, and says that it finished. Only then is there a result: a reader shows the rows of finished runs alone. A run that
is made again under the same id is another attempt, and rows of two attempts are never mixed.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from danube.model.errors import InvalidRequestError
from danube.model.limits.faces import (
    ANALYTICS_DETAIL_CHARS_MAX,
    ANALYTICS_PART_ROWS_MAX,
    ANALYTICS_RUN_GRACE_S,
    ANALYTICS_RUN_ID_CHARS_MAX,
    LAG_NUMBER_END,
)
from danube.model.records.telemetry import SYSTEM_NAMESPACE
from danube.model.topic import TopicName
from danube.model.untrusted_json import decode_json

VERSION = 1
ANALYTICS_TOPIC = TopicName(SYSTEM_NAMESPACE, "analytics")
LAG_JOB = "lag"


class AnalyticsJob(StrEnum):
    """Jobs that Spark runs and whose results are published."""

    LAG = LAG_JOB
    BALANCE = "balance"
    HISTORY = "history"
    CAPACITY = "capacity"
    FORECAST = "forecast"


Row = dict[str, Any]
"""One row of a result, as JSON values."""
Fields = Mapping[str, Any]

_RUN_ID = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{ANALYTICS_RUN_ID_CHARS_MAX - 1}}}")


class RecordKind(StrEnum):
    """The kind of a record."""

    STARTED = "started"
    PART = "part"
    FINISHED = "finished"
    FAILED = "failed"


class RunState(StrEnum):
    """The state of a run."""

    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    LOST = "lost"
    """It neither finished nor failed in its time: it was killed, or its words were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One record: whose it is, and what it tells."""

    run_id: str
    attempt: str
    """Another one each time that a run is made."""
    job: str
    at_ms: int
    """By the clock of the job."""
    kind: RecordKind
    fields: Fields
    """What only records of this kind have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run, from its records: its newest finished attempt, else its newest."""

    run_id: str
    attempt: str
    job: str
    state: RunState
    started_ms: int
    ended_ms: int | None
    as_of_ms: int
    """The time that was judged."""
    window: Fields
    """What was read and judged, as the job tells it."""
    detail: str
    """Why it failed; empty otherwise."""
    tables: Mapping[str, Sequence[Row]]
    """Rows by table; empty unless it has finished."""
    totals: Mapping[str, int]
    """Rows that there were, by table: more than there are in `tables` where a result was cut."""


def check_run_id(text: str) -> str:
    """Answer `text` if it can be the id of a run. Raises InvalidRequestError."""
    if not _RUN_ID.fullmatch(text):
        raise InvalidRequestError(
            f"run id {text[:80]!r} is not valid: use letters, digits, '.', '_' and '-', at most"
            f" {ANALYTICS_RUN_ID_CHARS_MAX}, and begin with a letter or a digit"
        )
    return text


def encode_record(record: RunRecord) -> bytes:
    """One record: UTF-8 JSON on one line, its keys always in the same order."""
    head = {
        "version": VERSION,
        "kind": record.kind,
        "run_id": record.run_id,
        "attempt": record.attempt,
        "job": record.job,
        "at_ms": record.at_ms,
    }
    return json.dumps({**head, **record.fields}, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def decode_record(payload: bytes) -> RunRecord | None:
    """A record as it was published; None for what is none, or of a version or kind that is not known here: skip it."""
    try:
        fields = decode_json(payload)
    except ValueError:
        return None
    if not isinstance(fields, dict) or fields.get("version") is True or fields.get("version") != VERSION:
        return None
    if fields.get("kind") not in list(RecordKind):
        return None
    kind = RecordKind(fields["kind"])
    if not _is_whole(fields, kind):
        return None
    return RunRecord(
        run_id=fields["run_id"],
        attempt=fields["attempt"],
        job=fields["job"],
        at_ms=fields["at_ms"],
        kind=kind,
        fields={name: fields[name] for name in _FIELDS[kind]},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWriter:
    """Makes the records of one attempt."""

    run_id: str
    attempt: str
    job: str

    def started(self, at_ms: int, *, as_of_ms: int, time_limit_s: float, window: Fields) -> RunRecord:
        """The first record."""
        fields = {"as_of_ms": as_of_ms, "time_limit_s": time_limit_s, "window": dict(window)}
        return self._record(at_ms, RecordKind.STARTED, fields)

    def result(
        self, at_ms: int, tables: Mapping[str, Sequence[Row]], *, totals: Mapping[str, int], window: Fields
    ) -> list[RunRecord]:
        """The rows in parts, and the word that they are whole: the last record."""
        found = [
            self._record(at_ms, RecordKind.PART, {"part": number, "table": table, "rows": rows})
            for number, (table, rows) in enumerate(_parts(tables))
        ]
        counts = {table: len(rows) for table, rows in tables.items()}
        fields = {"parts": len(found), "rows": counts, "totals": dict(totals), "window": dict(window)}
        return [*found, self._record(at_ms, RecordKind.FINISHED, fields)]

    def failed(self, at_ms: int, *, error: str, detail: str) -> RunRecord:
        """The last record of a run that came to nothing; `error` is the code of a DanubeError."""
        return self._record(at_ms, RecordKind.FAILED, {"error": error, "detail": detail[:ANALYTICS_DETAIL_CHARS_MAX]})

    def _record(self, at_ms: int, kind: RecordKind, fields: Fields) -> RunRecord:
        return RunRecord(
            run_id=self.run_id, attempt=self.attempt, job=self.job, at_ms=at_ms, kind=kind, fields=dict(fields)
        )


def runs_of(records: Iterable[RunRecord], now_ms: int) -> list[Run]:
    """The runs of these records, which are in the order of the topic; the one that started last comes first.

    An attempt whose first record is not among them is left out, and so is a finished one that lacks a part.
    """
    attempts: dict[tuple[str, str], list[RunRecord]] = {}
    for record in records:
        attempts.setdefault((record.run_id, record.attempt), []).append(record)
    runs: dict[str, Run] = {}
    for told in attempts.values():
        run = _run(told, now_ms)
        if run is not None and _is_better(run, runs.get(run.run_id)):
            runs[run.run_id] = run
    return sorted(runs.values(), key=lambda run: (-run.started_ms, run.run_id))


def newest_result(runs: Iterable[Run], job: str) -> Run | None:
    """The finished run of this job that judged the latest time."""
    finished = [run for run in runs if run.job == job and run.state is RunState.FINISHED]
    return max(finished, key=lambda run: (run.as_of_ms, run.started_ms), default=None)


def _parts(tables: Mapping[str, Sequence[Row]]) -> Iterator[tuple[str, list[Row]]]:
    for table, rows in tables.items():
        for first in range(0, len(rows), ANALYTICS_PART_ROWS_MAX):
            yield table, list(rows[first : first + ANALYTICS_PART_ROWS_MAX])


def _is_better(run: Run, other: Run | None) -> bool:
    """A finished attempt beats one that is not; of two alike, the later one."""
    if other is None:
        return True
    return (run.state is RunState.FINISHED, run.started_ms) >= (other.state is RunState.FINISHED, other.started_ms)


def _run(told: Sequence[RunRecord], now_ms: int) -> Run | None:
    by_kind = {record.kind: record for record in told}
    started = by_kind.get(RecordKind.STARTED)
    if started is None:
        return None
    finished, failed = by_kind.get(RecordKind.FINISHED), by_kind.get(RecordKind.FAILED)
    tables = _tables(told, finished) if finished else None
    if finished and tables is None:
        return None
    late_ms = started.at_ms + round((started.fields["time_limit_s"] + ANALYTICS_RUN_GRACE_S) * 1_000)
    state = RunState.LOST if now_ms > late_ms else RunState.RUNNING
    state = RunState.FINISHED if finished else RunState.FAILED if failed else state
    end = finished or failed
    return Run(
        run_id=started.run_id,
        attempt=started.attempt,
        job=started.job,
        state=state,
        started_ms=started.at_ms,
        ended_ms=end.at_ms if end else None,
        as_of_ms=started.fields["as_of_ms"],
        window=(finished or started).fields["window"],
        detail=failed.fields["detail"] if failed and not finished else "",
        tables=tables or {},
        totals=finished.fields["totals"] if finished else {},
    )


def _tables(told: Sequence[RunRecord], finished: RunRecord) -> Mapping[str, Sequence[Row]] | None:
    """The rows of all parts, each once and in order; None when one is missing or there are more or fewer than said."""
    parts = {record.fields["part"]: record.fields for record in told if record.kind is RecordKind.PART}
    if len(parts) != finished.fields["parts"] or not all(number in parts for number in range(len(parts))):
        return None
    tables: dict[str, list[Row]] = {table: [] for table in finished.fields["rows"]}
    for number in sorted(parts):
        tables.setdefault(parts[number]["table"], []).extend(parts[number]["rows"])
    counted = {table: len(rows) for table, rows in tables.items()}
    return tables if counted == finished.fields["rows"] else None


_HEAD: Mapping[str, type | tuple[type, ...]] = {"run_id": str, "attempt": str, "job": str, "at_ms": int}
_FIELDS: Mapping[RecordKind, Mapping[str, type | tuple[type, ...]]] = {
    RecordKind.STARTED: {"as_of_ms": int, "time_limit_s": (int, float), "window": dict},
    RecordKind.PART: {"part": int, "table": str, "rows": list},
    RecordKind.FINISHED: {"parts": int, "rows": dict, "totals": dict, "window": dict},
    RecordKind.FAILED: {"error": str, "detail": str},
}


def _is_whole(fields: Fields, kind: RecordKind) -> bool:
    """True if every field is there, of its type and no larger than it can be: anybody may publish a result."""
    wanted = {**_HEAD, **_FIELDS[kind]}
    if not all(isinstance(fields.get(name), of) and not isinstance(fields[name], bool) for name, of in wanted.items()):
        return False
    times = [fields[name] for name in ("at_ms", "as_of_ms", "time_limit_s") if name in wanted]
    counts = [count for name in ("rows", "totals") if kind is RecordKind.FINISHED for count in fields[name].values()]
    rows = fields["rows"] if kind is RecordKind.PART else []
    return (
        bool(_RUN_ID.fullmatch(fields["run_id"]))
        and all(0 <= time < LAG_NUMBER_END for time in times)
        and all(isinstance(count, int) for count in counts)
        and len(rows) <= ANALYTICS_PART_ROWS_MAX
        and all(isinstance(row, dict) for row in rows)
    )
