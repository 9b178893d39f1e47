"""Prometheus' HTTP API: instant and range queries, bounded, without redirects. Runs on a thread of its own."""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

from danube.admin.gateway import PromQuery, PromSeries
from danube.model.errors import (
    DeadlineExceededError,
    InternalError,
    InvalidRequestError,
    NotPermittedError,
    SettingsError,
    UnavailableError,
)
from danube.model.limits.inspection import PROMETHEUS_ANSWER_BYTES_MAX, PROMETHEUS_ERROR_BYTES_MAX
from danube.model.untrusted_json import decode_json
from danube.runtime.blocking import run_apart

_SAID_CHARS_MAX = 400


class Prometheus:
    """One Prometheus, or what speaks its API (Thanos, Mimir, VictoriaMetrics)."""

    def __init__(self, url: str, timeout_s: float) -> None:
        """`http://[user:password@]host:port[/path]`. Raises SettingsError."""
        self._url = url
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise SettingsError(f"{shown_url(url)} is no address of a Prometheus: give http://host:9090")
        self._parts = parts
        self._timeout_s = timeout_s

    async def ask(self, wanted: PromQuery) -> Sequence[PromSeries]:
        """The series of an answer; of a scalar one without labels.

        Raises InvalidRequestError with Prometheus' own words, UnavailableError, DeadlineExceededError.
        """
        return await run_apart("prometheus", partial(self._ask, wanted))

    def _ask(self, wanted: PromQuery) -> Sequence[PromSeries]:
        status, body = self._answer(wanted)
        try:
            said = decode_json(body)
        except ValueError:
            said = None
        if not isinstance(said, dict):
            raise UnavailableError(f"{self._shown} answered {status} and no JSON: check that a Prometheus is there")
        if said.get("status") != "success":
            raise self._refusal(status, said)
        try:
            return list(_series(said["data"]))
        except (KeyError, TypeError, ValueError, IndexError):
            raise InternalError(f"{self._shown} answered something else than Prometheus' API says") from None

    def _answer(self, wanted: PromQuery) -> tuple[int, bytes]:
        parts = self._parts
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=self._timeout_s)
        try:
            connection.request("POST", f"{parts.path.rstrip('/')}/api/v1/{_path(wanted)}", _form(wanted), self._headers)
            with connection.getresponse() as response:  # an answer that is not read to its end keeps the socket open
                most = PROMETHEUS_ANSWER_BYTES_MAX if response.status == 200 else PROMETHEUS_ERROR_BYTES_MAX
                body = response.read(most + 1)
        except TimeoutError:
            raise DeadlineExceededError(
                f"{self._shown} did not answer within {self._timeout_s:g} s: ask for less, or with a larger --timeout-s"
            ) from None
        except (OSError, HTTPException) as error:
            raise UnavailableError(f"no Prometheus answers at {self._shown} ({error}): check that it runs") from None
        finally:
            connection.close()
        if len(body) > most:
            raise InvalidRequestError(f"the answer is larger than {most:,} bytes: aggregate, or ask for fewer series")
        return response.status, body

    def _refusal(self, status: int, said: dict[str, Any]) -> Exception:
        words = str(said.get("error", ""))[:_SAID_CHARS_MAX]
        if status in {401, 403}:
            return NotPermittedError(f"{self._shown} refuses the request ({status}): put user and password in its URL")
        if said.get("errorType") in {"bad_data", "execution"}:
            return InvalidRequestError(f"Prometheus cannot answer the query: {words}")
        return UnavailableError(f"{self._shown} answered {status}: {words}")

    @property
    def _headers(self) -> dict[str, str]:
        headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
        if self._parts.username is not None:
            pair = f"{unquote(self._parts.username)}:{unquote(self._parts.password or '')}"
            headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        return headers

    @property
    def _shown(self) -> str:
        return shown_url(self._url)


def shown_url(url: str) -> str:
    """The URL without user and password."""
    before, separator, rest = url.partition("://")
    return f"{before}{separator}{rest.rpartition('@')[2]}"[:200]


def _path(wanted: PromQuery) -> str:
    return "query" if wanted.start_ms is None else "query_range"


def _form(wanted: PromQuery) -> str:
    fields: dict[str, str] = {"query": wanted.query}
    if wanted.start_ms is not None and wanted.end_ms is not None:
        fields |= {"start": f"{wanted.start_ms / 1_000:.3f}", "end": f"{wanted.end_ms / 1_000:.3f}"}
        fields["step"] = str(wanted.step_s or 60)
    elif wanted.end_ms is not None:
        fields["time"] = f"{wanted.end_ms / 1_000:.3f}"
    return urlencode(fields)


def _series(data: dict[str, Any]) -> Iterator[PromSeries]:
    kind, result = data["resultType"], data["result"]
    if kind in {"scalar", "string"}:
        yield PromSeries(labels={}, points=[_point(result)] if kind == "scalar" else [])
        return
    for each in result:
        points = each["values"] if kind == "matrix" else [each["value"]]
        labels = {str(name): str(value) for name, value in each["metric"].items()}
        yield PromSeries(labels=labels, points=[_point(one) for one in points])


def _point(pair: Sequence[Any]) -> tuple[int, float]:
    at_s, value = pair
    return round(float(at_s) * 1_000), float(value)
