"""Queries as people write them: addresses, certificates, durations and folders as texts."""

import os
from typing import Any

from danube.model.address import host_and_port
from danube.model.calls.stream import FetchTime
from danube.model.errors import InvalidRequestError
from danube.model.limits.faces import CLI_RETRY_TOTAL_S
from danube.model.text import SPAN_WORDS, parse_start, span_s
from danube.query.bounds import QUERY_READ_BYTES_MAX, QUERY_ROWS_MAX, QUERY_TIMEOUT_S, QueryBounds
from danube.query.session import Answer, Query, Question
from danube.runtime.clock import Clock, SystemClock
from danube.tables.link import Endpoint, read_certificate
from danube.tables.segments import segment_place


def sql(query: str, service_url: str | None = None, **options: Any) -> Answer:  # noqa: ANN401 - see query_of
    """Rows of one SELECT over topics, for scripts and notebooks; `options` are those of `query_of`.

        danube.sql("select key, count(*) as n from orders group by key", since="1h").to_pandas()

    Without an address it asks the broker of DANUBE_SERVICE_ADDR, or the one on this machine. Raises DanubeError.
    """
    service_url = service_url or os.environ.get("DANUBE_SERVICE_ADDR") or "http://127.0.0.1:6650"
    return query_of(query, service_url=service_url, **options).run()


def query_of(
    sql: str,
    *,
    service_url: str,
    ca_cert: str | None = None,
    token: str | None = None,
    since: str | None = None,
    until: str | None = None,
    folder: str | None = None,
    rows_max: int = QUERY_ROWS_MAX,
    read_bytes_max: int = QUERY_READ_BYTES_MAX,
    timeout_s: float = QUERY_TIMEOUT_S,
    clock: Clock | None = None,
) -> Query:
    """A query that has not begun.

    `since` and `until` are a time, or a duration such as `10m` before now; `folder` is the brokers' shared folder, or
    the URL of their bucket and prefix. Raises SettingsError, InvalidRequestError.
    """
    host_and_port(service_url)
    now_ms = (clock or SystemClock()).now_ms()
    question = Question(
        sql=sql,
        since_ms=None if since is None else moment_ms(since, now_ms),
        until_ms=None if until is None else moment_ms(until, now_ms),
        folder=None if folder is None else segment_place(folder),
        bounds=QueryBounds(rows_max=rows_max, read_bytes_max=read_bytes_max, timeout_s=timeout_s),
    )
    endpoint = Endpoint(
        service_url=service_url,
        ca_pem=None if ca_cert is None else read_certificate(ca_cert),
        token=token,
        retry_s=min(CLI_RETRY_TOTAL_S, timeout_s),
    )
    return Query(endpoint, question, clock)


def moment_ms(text: str, now_ms: int) -> int:
    """A time, or the time a duration ago. Raises InvalidRequestError."""
    typed = text.strip()
    if typed[-1:].isalpha() and not typed.endswith(("Z", "z")):
        return max(0, now_ms - 1_000 * span_s(typed))
    start = parse_start(typed)
    if not isinstance(start, FetchTime):
        raise InvalidRequestError(f"{text[:40]!r} is no time: give {SPAN_WORDS}, or a time such as 2026-01-31T12:00Z")
    return start.append_time_ms
