"""The bounds of metrics and log records that administrators read, and of PromQL."""

from danube.model.limits.broker import KIB, MIB

METRICS_READ_DEFAULT = 1_000
"""Samples of one answer of a broker, when nothing is asked for."""
METRICS_READ_MAX = 20_000
"""The same, whatever is asked for: an answer stays within 4 MiB."""

LOG_RING_RECORDS_MAX = 2_000
"""Records of its log that a broker keeps in memory; the oldest goes first."""
LOG_RING_BYTES_MAX = 1 * MIB
"""The same, in bytes of their texts."""
LOG_TEXT_CHARS_MAX = 4_000
"""Characters of one record that are kept; a traceback keeps its end."""
LOG_READ_DEFAULT = 100
"""Records of one answer, when nothing is asked for."""
LOG_READ_MAX = LOG_RING_RECORDS_MAX
"""The same, whatever is asked for."""

METRIC_RANGE_S_MAX = 7 * 86_400
"""The longest range of one question."""
METRIC_RECORDS_MAX = 50_000
"""Records of telemetry that one range is read from, the newest."""
METRIC_POINTS_MAX = 60
"""Points of one series; a longer range has fewer a minute."""
METRIC_SERIES_MAX = 1_000
"""Series that are kept while a range is read; those beyond are counted."""

PROMQL_CHARS_MAX = 4_000
"""Characters of one expression."""
PROMETHEUS_ANSWER_BYTES_MAX = 8 * MIB
"""Bytes of one answer of Prometheus that are read."""
PROMETHEUS_ERROR_BYTES_MAX = 16 * KIB
"""The same, of a refusal."""

RECOMMEND_TOPICS_MAX = 25
"""Topics whose retention and connections are looked at for recommendations: two calls each, the worst lag first."""

AUDIT_SEARCH_MAX = 20_000
"""Records of the audit log that a search goes back; older ones are found with `before`."""
