"""Metrics and log records of a broker, as administrators read them."""

from dataclasses import dataclass
from enum import StrEnum

from danube.model.limits.inspection import LOG_READ_DEFAULT, METRICS_READ_DEFAULT
from danube.model.topic import TopicName


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadMetrics:
    """Ask for metrics."""

    prefix: str = ""
    """Of their names."""
    topic: TopicName | None = None
    limit: int = METRICS_READ_DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricLabel:
    """One label."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSample:
    """One number, under its name on the metrics port."""

    name: str
    labels: tuple[MetricLabel, ...] = ()
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsPage:
    """Metrics of one broker."""

    samples: tuple[MetricSample, ...]
    sample_count: int
    """All that were asked for, answered or not."""


class LogLevel(StrEnum):
    """Level of a log record, from little to much."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLog:
    """Ask for log records."""

    level: LogLevel = LogLevel.DEBUG
    """And what is worse."""
    topic: TopicName | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    limit: int = LOG_READ_DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """One record of a log, without secrets."""

    time_ms: int
    level: LogLevel
    logger: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    """Records of one broker's log, the oldest first."""

    records: tuple[LogRecord, ...]
    record_count: int
    """All that were asked for, answered or not."""
    kept_since_ms: int | None
    """Of the oldest record that is kept."""
    dropped_count: int
    """Older ones that are kept no longer."""
