"""The sections of a report: verdicts first, then plots, tables, and the quality of the data. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from danube.model.lag.evidence import group_evidence
from danube.model.lag.group import GroupLag, PartitionLag, harm
from danube.model.lag.next_steps import next_step
from danube.model.lag.rows import NEVER, group_of, partition_of
from danube.model.lag.verdict import LagPolicy, LagVerdict
from danube.model.records.analytics import AnalyticsJob, Row
from danube.model.text import amount_text, count_text, percent_text, span_text, time_of
from danube.report.svg import Line, bar_plot, line_plot, small_plots
from danube.report.tones import class_of

Verdict = tuple[str, str]
"""Tone (`good`, `warn`, `bad` or none) and a sentence."""
Cell = tuple[str, bool]
"""Text, and whether it is a number."""
_LINES_MAX = 6
_VERDICTS_MAX = 20


class Reported(Protocol):
    """Result of a run, as the job has it or as it was published."""

    @property
    def run_id(self) -> str: ...

    @property
    def job(self) -> str: ...

    @property
    def as_of_ms(self) -> int: ...

    @property
    def window(self) -> Mapping[str, Any]: ...

    @property
    def tables(self) -> Mapping[str, Sequence[Row]]: ...

    @property
    def totals(self) -> Mapping[str, int]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of a section."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One part of a report."""

    title: str
    verdicts: Sequence[Verdict] = ()
    plots: Sequence[str] = ()
    tables: Sequence[Table] = ()


def sections_of(result: Reported) -> list[Section]:
    """The sections of a result, the verdict first and the quality of the data last."""
    found = _SECTIONS[AnalyticsJob(result.job)](result)
    return [*found, _quality(result)]


def _lag(result: Reported) -> list[Section]:
    rows = _lag_rows(result)
    behind = [row for row in rows if row["status"] not in {"OK", "NOT_KEPT"}]
    verdicts: list[Verdict] = [(class_of(row["status"]), _lag_sentence(row)) for row in behind]
    if not behind:
        verdicts = [("good", f"None of {count_text(len(rows), 'group')} needs help.")]
    largest = sorted((row for row in rows if row["lag_messages"]), key=lambda row: -row["lag_messages"])[:10]
    bars = [(_group_name(row), row["lag_messages"], _number(row["lag_messages"])) for row in largest]
    names = (
        *("status", "topic", "subscription", "cause", "lag_messages", "lag_s", "arrival_rate", "consume_rate"),
        *("eta_s", "in_flight", "consumers", "retention", "evidence"),
    )
    return [
        Section(title="Verdict", verdicts=_first(verdicts, "groups are behind: the table has them, too")),
        Section(
            title="Lag",
            plots=[bar_plot("Messages that wait, by group", bars)] if bars else [],
            tables=[_table(rows, result.totals.get("groups", len(rows)), names)],
        ),
    ]


def _lag_rows(result: Reported) -> list[Row]:
    """The groups, the one with the most harm first, each with what its worst partition tells."""
    groups = [(group_of(row), row) for row in result.tables["groups"]]
    plain = {one.topic for one, _ in groups}
    members: dict[tuple[str, str], list[PartitionLag]] = {}
    for member in map(partition_of, result.tables["partitions"]):
        members.setdefault(member.group(plain), []).append(member)
    found = []
    for one, row in sorted(groups, key=lambda each: harm(each[0].status, each[0].cause, each[0].lag_messages)):
        own = members.get((one.topic, one.subscription), [])
        worst = next((each.verdict for each in own if each.topic == one.worst_partition), None)
        known = [each.verdict.in_flight for each in own if each.verdict.in_flight is not None]
        more = {
            "in_flight": sum(known) if known else None,
            "position": worst.position if worst else None,
            "evidence": group_evidence(one, worst, LagPolicy(), result.as_of_ms) if worst else "-",
            "retention": _retention(one, worst),
        }
        found.append({**row, **more})
    return found


def _retention(group: GroupLag, worst: LagVerdict | None) -> str:
    """Risk of the messages that wait: deleted unread, to be deleted, and the unread share of what is kept."""
    deadline_s = worst.retention_deadline_s if worst else None
    lost = f"{count_text(group.messages_lost, 'message')} deleted unread" if group.messages_lost else ""
    soon = "" if deadline_s is None else f"deletes in {span_text(deadline_s)}" if deadline_s else "deletion is due"
    share = f"{percent_text(group.retention_ratio)} unread" if group.retention_ratio else ""
    return ", ".join(filter(None, (lost, soon, share))) or "-"


def _lag_sentence(row: Row) -> str:
    """A group with its lag and its first unread offset; then the evidence, and the next step."""
    cause = f", {row['cause'].replace('_', ' ')}" if row["cause"] else ""
    where = f" from offset {row['position']:,}" if row["position"] is not None else ""
    lag = "unknown" if row["lag_messages"] is None else f"{count_text(row['lag_messages'], 'message')} behind{where}"
    age = f", the oldest {span_text(row['lag_s'])} old" if row["lag_s"] is not None else ""
    eta = _eta(row)
    clears = "" if eta == "-" else f"; clears in {eta}" if eta != "never" else "; never clears at these rates"
    topic = row["worst_partition"]
    step = next_step(row["cause"], topic, row["subscription"], row["position"]) if row["cause"] else ""
    lines = [f"{row['status']}: {row['topic']} by {row['subscription']}: {lag}{age}{cause}{clears}.", row["evidence"]]
    return "\n".join([*lines, *([f"Next: {step}"] if step else [])])


def _eta(row: Row) -> str:
    if row["eta_s"] is None:
        return "never" if row.get("eta_reason") in NEVER else "-"
    return span_text(row["eta_s"])


def _group_name(row: Row) -> str:
    return f"{row['topic']} {row['subscription']}"


def _first(verdicts: Sequence[Verdict], others: str) -> Sequence[Verdict]:
    """As many as are read, and how many there are more."""
    more = len(verdicts) - _VERDICTS_MAX
    return [*verdicts[:_VERDICTS_MAX], ("", f"{more:,} more {others}.")] if more > 0 else verdicts


def _balance(result: Reported) -> list[Section]:
    summary, moments = (result.tables["summary"] or [{}])[0], result.tables["moments"]
    tone = "good" if summary.get("verdict") in {"balanced", "idle", "alone"} else "warn"
    verdicts: list[Verdict] = [(tone, str(summary.get("summary", "no load is known")))]
    if summary.get("advice"):
        verdicts.append(("warn", summary["advice"]))
    if summary.get("paying_moments"):
        share = percent_text(summary["paying_moments"] / max(1, summary["judged_moments"]))
        paid = f"A rebalance would have paid in {share} of the time, mostly at {summary['paying_hours']}."
        verdicts.append(("", paid))
    hot = [
        (row["topic"], row["messages_per_s"], f"{row['messages_per_s']:,.1f}/s")
        for row in result.tables["hot_topics"][:10]
    ]
    plots = [
        line_plot(
            "Imbalance (CV); the line is where it is called imbalanced",
            [Line(name="CV", points=_series(moments, "cv"))],
            mark=0.3,
        ),
        line_plot("Processor in use, cores", _by(result.tables["brokers"], "broker_id", "cores_used", "broker ")),
    ]
    moves = ("topic", "source", "target", "source_score_before", "source_score_after", "clients", "reason")
    return [
        Section(title="Verdict", verdicts=verdicts),
        Section(title="Load over time", plots=plots),
        Section(title="Proposed moves", tables=[_table_of(result, "moves", moves)]),
        Section(title="Hot topics", plots=[bar_plot("Messages in and out, a second", hot)]),
    ]


def _history(result: Reported) -> list[Section]:
    incidents = result.tables["incidents"]
    verdicts: list[Verdict] = [
        (str(row.get("tone", "warn")), f"{row['sentence']}\n{row['evidence']}\nNext: {row.get('next_step', '-')}")
        for row in incidents
    ]
    if not incidents:
        verdicts = [("good", "No subscription was behind in this time.")]
    names = (
        *("topic", "subscription", "chain", "began_ms", "ended_ms", "peak_lag_messages", "peak_lag_s"),
        *("messages_lost", "offset", "consumer", "evidence"),
    )
    spans: dict[str, list[tuple[float, float]]] = {}
    for row in incidents:
        spans.setdefault(_group_name(row), []).append((row["began_ms"], row["ended_ms"] or result.as_of_ms))
    worst = [*spans]

    def worst_first(line: Line) -> int:
        return worst.index(line.name) if line.name in spans else len(worst)

    lines = {
        value: [
            replace(line, spans=spans.get(line.name, ()))
            for line in sorted(_by(result.tables["lag_over_time"], "name", value, ""), key=worst_first)
        ]
        for value in ("lag_s", "lag_messages")
    }
    return [
        Section(title="Verdict", verdicts=_first(verdicts, "incidents are in the table")),
        Section(
            title="Age of the oldest unread message, seconds; incidents are shaded", plots=small_plots(lines["lag_s"])
        ),
        Section(title="Messages that wait", plots=small_plots(lines["lag_messages"])),
        Section(title="Incidents", tables=[_table(incidents, result.totals.get("incidents", len(incidents)), names)]),
    ]


def _capacity(result: Reported) -> list[Section]:
    rows = result.tables["brokers"]
    verdicts: list[Verdict] = [(str(row["tone"]), str(row["sentence"])) for row in rows[:12]]
    names = ("broker_id", "resource", "used", "limit", "per_day", "full_at_ms", "full_early_ms", "full_late_ms")
    by_name = sorted({row["name"] for row in result.tables["forecast"]})
    plots = [
        line_plot(
            f"{name}, with the 90 % interval",
            [_banded(name, [row for row in result.tables["forecast"] if row["name"] == name])],
        )
        for name in by_name[:_LINES_MAX]
    ]
    return [
        Section(title="Verdict", verdicts=verdicts or [("", "Too little is known to say when a broker will be full.")]),
        Section(title="Trend", plots=plots, tables=[_table_of(result, "brokers", names)]),
        Section(title="One more broker", verdicts=[("", str(row["sentence"])) for row in result.tables["one_more"]]),
    ]


def _forecast(result: Reported) -> list[Section]:
    series = result.tables["series"]
    errors = [row["mase"] for row in series if row["mase"] is not None]
    text = (
        f"{len(series):,} series; median error {sorted(errors)[len(errors) // 2]:.2f} MASE"
        if errors
        else "Too little history."
    )
    shown = [row["name"] for row in series[:_LINES_MAX]]
    plots = [
        line_plot(name, [_banded(name, [row for row in result.tables["forecast"] if row["name"] == name])])
        for name in shown
    ]
    names = ("name", "model", "mase", "mase_seasonal_naive", "next_hour", "next_day_peak", "points")
    return [
        Section(title="Verdict", verdicts=[("", text)]),
        Section(title="Forecasts, with the 90 % interval", plots=plots, tables=[_table_of(result, "series", names)]),
    ]


_SECTIONS: Mapping[AnalyticsJob, Callable[[Reported], list[Section]]] = {
    AnalyticsJob.LAG: _lag,
    AnalyticsJob.BALANCE: _balance,
    AnalyticsJob.HISTORY: _history,
    AnalyticsJob.CAPACITY: _capacity,
    AnalyticsJob.FORECAST: _forecast,
}
_COMMANDS = {
    AnalyticsJob.LAG: "danube-admin analytics lag",
    AnalyticsJob.BALANCE: "danube-admin brokers rebalance",
    AnalyticsJob.HISTORY: "danube-admin analytics lag",
    AnalyticsJob.CAPACITY: "danube-admin brokers list",
    AnalyticsJob.FORECAST: "danube-admin topics list",
}


def _quality(result: Reported) -> Section:
    window = result.window
    verdicts: list[Verdict] = [("", f"{window.get('records', 0):,} records of telemetry were read.")]
    if window.get("skipped"):
        verdicts.append(("warn", f"{window['skipped']:,} messages were no records and were skipped."))
    for name, total in result.totals.items():
        kept = len(result.tables.get(name, ()))
        if total > kept:
            verdicts.append(("warn", f"{name}: {kept:,} of {total:,} rows are in the result."))
    verdicts += [("", str(row["sentence"])) for row in result.tables.get("quality", ())]
    verdicts.append(("", f"Act on this with: {_COMMANDS[AnalyticsJob(result.job)]}"))
    return Section(title="Quality of the data", verdicts=verdicts)


def _table_of(result: Reported, name: str, columns: Sequence[str]) -> Table:
    rows = result.tables[name]
    return _table(rows, result.totals.get(name, len(rows)), columns)


def _table(rows: Sequence[Row], total: int, columns: Sequence[str]) -> Table:
    cells = [
        [(_eta(row), True) if column == "eta_s" else _cell(column, row.get(column)) for column in columns]
        for row in rows
    ]
    titles = [_TITLES.get(name, name.removesuffix("_ms").removesuffix("_s").replace("_", " ")) for name in columns]
    return Table(columns=titles, rows=cells, total=total)


_TITLES = {
    "lag_messages": "lag",
    "lag_s": "oldest",
    "peak_lag_messages": "most unread",
    "peak_lag_s": "oldest",
    "messages_lost": "deleted unread",
    "chain": "causes",
    "arrival_rate": "in/s",
    "consume_rate": "out/s",
    "eta_s": "clears in",
}
"""As the other faces call them."""


def _cell(name: str, value: Any) -> Cell:  # noqa: ANN401 - any value of JSON
    if value is None:
        return "-", False
    if name.endswith("_ms"):
        return time_of(value), True
    if name in {"lag_s", "peak_lag_s"}:
        return span_text(value), True
    if name in {"cause", "chain"}:
        return str(value).replace("_", " ").replace("->", "→"), False
    return (_number(value), True) if isinstance(value, int | float) else (str(value), False)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else amount_text(value)


def _series(rows: Sequence[Row], value: str, at: str = "moment_ms") -> list[tuple[float, float]]:
    return [(float(row[at]), float(row[value])) for row in rows if row.get(value) is not None]


def _by(rows: Sequence[Row], key: str, value: str, prefix: str) -> list[Line]:
    """A line for each of the largest keys."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(str(row[key]), []).append(row)
    largest = sorted(found, key=lambda name: (-max((row[value] or 0.0) for row in found[name]), name))[:_LINES_MAX]
    return [Line(name=f"{prefix}{name}", points=_series(found[name], value)) for name in sorted(largest)]


def _banded(name: str, rows: Sequence[Row]) -> Line:
    future = [row for row in rows if row.get("high") is not None]
    return Line(name=name, points=_series(rows, "value"), low=_series(future, "low"), high=_series(future, "high"))
