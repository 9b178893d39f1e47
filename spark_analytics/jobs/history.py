"""Incidents on Spark: one subscription after the other, by the rules of `danube.model.lag.alerts`."""

from collections.abc import Iterator
from typing import Any, TypeAlias

import pandas as pd  # type: ignore[import-untyped]
from pyspark.sql import DataFrame

from danube.model.lag.alerts import AlertPolicy, Incident, IncidentCause, incidents_of
from danube.model.lag.seasonal import usual_lag_s
from danube.model.lag.verdict import EtaReason, LagCause, LagMethod, LagRule, LagStatus, LagVerdict
from spark_analytics.jobs.lag import VERDICT, verdict_types

Frame: TypeAlias = Any  # pandas has no types here

_INCIDENT = tuple(Incident.__dataclass_fields__)
INCIDENT_SCHEMA = "topic STRING, subscription STRING, " + ", ".join(
    f"{name} {kind}" for name, kind in verdict_types(Incident).items()
)
_WORDS = {"status": LagStatus, "rule": LagRule, "cause": LagCause, "lag_method": LagMethod, "eta_reason": EtaReason}
_WHOLE = frozenset(name for name, kind in verdict_types(LagVerdict).items() if kind == "BIGINT")


def lag_incidents(partitions: DataFrame, step_s: float) -> DataFrame:
    """Rows of `lag_partitions` over time -> a row for each incident."""
    policy = AlertPolicy.for_step(step_s)

    def found(rows: Frame) -> Frame:
        return _incidents(policy, rows)

    return partitions.groupBy("topic", "subscription").applyInPandas(found, INCIDENT_SCHEMA)


def _incidents(policy: AlertPolicy, rows: Frame) -> Frame:
    key = rows["topic"].iloc[0], rows["subscription"].iloc[0]
    verdicts = list(_verdicts(rows.sort_values("as_of_ms")))
    found = incidents_of(verdicts, policy, usual_lag_s(verdicts))
    values = [(*key, *(_plain(getattr(one, name)) for name in _INCIDENT)) for one in found]
    # Columns of objects: Spark cannot take the texts of pandas 3 where a subscription has no incident.
    return pd.DataFrame(values, columns=["topic", "subscription", *_INCIDENT], dtype=object)


def _plain(value: object) -> object:
    return str(value) if isinstance(value, IncidentCause) else value


def _verdicts(rows: Frame) -> Iterator[tuple[int, LagVerdict]]:
    plain = rows.astype(object).where(rows.notna(), None)
    columns = [plain[name].tolist() for name in VERDICT]
    for at_ms, values in zip(rows["as_of_ms"].tolist(), zip(*columns, strict=True), strict=True):
        yield int(at_ms), verdict_of(dict(zip(VERDICT, values, strict=True)))


def verdict_of(row: dict[str, Any]) -> LagVerdict:
    """The verdict of a row: words become words again, and whole numbers whole."""
    values: dict[str, Any] = {
        name: value
        if value is None
        else _WORDS[name](value)
        if name in _WORDS
        else int(value)
        if name in _WHOLE
        else value
        for name, value in row.items()
    }
    return LagVerdict(**values)


def tone_of(cause: str) -> str:
    """`bad` for what loses messages or stands still, else `warn`."""
    mild = {IncidentCause.PRODUCER_BURST, IncidentCause.REBALANCE, IncidentCause.REWOUND, IncidentCause.THROTTLED}
    return "warn" if cause in mild else "bad"
