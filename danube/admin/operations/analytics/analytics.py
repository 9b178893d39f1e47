"""analytics.*: jobs on Spark, and what they found."""

import secrets
import shlex
from collections.abc import Sequence
from typing import Annotated, NoReturn

from pydantic import Field

from danube.admin.analytics.jobs import JOBS, Job, command_of, require_spark
from danube.admin.analytics.published import newest_readable, published_runs
from danube.admin.operations.act import before_unrecorded
from danube.admin.operations.analytics.lag import AnalyzeLagParams, LagGroupRow, report_of_run
from danube.admin.operations.fields import (
    VOLATILE,
    Completes,
    NamespaceText,
    Params,
    Result,
    ShortS,
    SpanS,
    SubscriptionText,
    TopicText,
)
from danube.admin.operations.operation import Call, Example, Operation
from danube.model.errors import (
    InternalError,
    NotFoundError,
    SettingsError,
    UnavailableError,
    UnsupportedError,
)
from danube.model.exit_codes import ExitCode
from danube.model.limits.faces import (
    ANALYTICS_POLL_S,
    ANALYTICS_RUN_ID_CHARS_MAX,
    ANALYTICS_RUNS_SHOWN_MAX,
    ANALYTICS_SINCE_S_DEFAULT,
    ANALYTICS_SINCE_S_MAX,
    ANALYTICS_START_S_MAX,
    ANALYTICS_TABLE_ROWS,
    ANALYTICS_TEXT_CHARS,
    ANALYTICS_WAIT_S_MAX,
    LAG_NUMBER_END,
)
from danube.model.plans.plan import Effect
from danube.model.records.analytics import AnalyticsJob, Row, Run, RunState, check_run_id
from danube.model.text import number_text, span_text
from danube.runtime.clock import sleep_for

_JOBS = (
    "`lag`: who is behind, why, and for how long; `history`: incidents over the time, with causes; `balance`: load over"
    " time and a plan to rebalance; `capacity`: when a broker is full; `forecast`: rates and lag a day ahead."
)
RunText = Annotated[str, Field(min_length=1, max_length=ANALYTICS_RUN_ID_CHARS_MAX), Completes("run")]


class RunAnalyticsParams(Params):
    """Which job, and of what."""

    job: AnalyticsJob = Field(default=AnalyticsJob.LAG, description=_JOBS)
    topic: TopicText | None = Field(
        default=None, description="Only this topic; of a partitioned one, all its partitions."
    )
    subscription: SubscriptionText | None = Field(default=None, description="Only this subscription.")
    namespace: NamespaceText | None = Field(default=None, description="Only this namespace.")
    since_s: SpanS = Field(
        default=ANALYTICS_SINCE_S_DEFAULT, ge=60, le=ANALYTICS_SINCE_S_MAX, description="Seconds of telemetry to read."
    )
    as_of_ms: int | None = Field(
        default=None,
        ge=1,
        lt=LAG_NUMBER_END,
        description="The time to judge, milliseconds since the epoch, and the end of what is read; now by default.",
    )
    run_id: RunText | None = Field(default=None, description="Name of the run; a random one by default.")
    wait_s: ShortS = Field(
        default=0, ge=0, le=ANALYTICS_WAIT_S_MAX, description="Wait so many seconds for the result; 0 answers at once."
    )
    dry_run: bool = Field(default=False, description="Say what would be started, and start nothing.")


class RunRow(Result):
    """One run."""

    run_id: str = Field(description="Its id.")
    job: str = Field(description="What it computes.")
    state: str = Field(
        description="`running`, `finished`, `failed`, or `lost`: it did not end in its time, so it was killed."
    )
    started_ms: Annotated[int | None, VOLATILE] = Field(description="When it began, milliseconds since the epoch.")
    ended_ms: Annotated[int | None, VOLATILE] = Field(description="When it ended; null while it runs.")
    as_of_ms: Annotated[int | None, VOLATILE] = Field(description="The time that it judges.")
    detail: str = Field(description="Why it failed; empty otherwise.")


class RunAnswer(Result):
    """A run that was started, or would be."""

    run_id: Annotated[str, VOLATILE] = Field(description="Ask for the result with it.")
    job: str = Field(description="What it computes.")
    state: str = Field(description="`planned` (with dry_run), `running`, `finished` or `failed`.")
    detail: str = Field(description="Why it failed; empty otherwise.")
    command: Annotated[str, VOLATILE] = Field(description="What was started, or would be, where this runs.")
    next_step: Annotated[str, VOLATILE] = Field(description="What to call next.")


class GetAnalyticsParams(Params):
    """Which result."""

    run_id: RunText | None = Field(default=None, description="This run; without it, the newest result of the job.")
    job: AnalyticsJob = Field(default=AnalyticsJob.LAG, description="Which job.")


class ResultTable(Result):
    """One table of a result, its most important rows first."""

    name: str = Field(description="Its name.")
    total: int = Field(description="Rows that it has.")
    columns: list[str] = Field(description="Its columns.")
    rows: list[list[str]] = Field(description="The first rows, each value as text; empty where it is unknown.")


class AnalyticsAnswer(Result):
    """The result of a run, or where the run stands and what to do."""

    run_id: Annotated[str | None, VOLATILE] = Field(
        description="The run that is answered; null when there is no finished one."
    )
    job: str = Field(description="What it computes.")
    state: str | None = Field(description="`running`, `finished`, `failed` or `lost`; null without a run.")
    detail: str = Field(description="Why it failed; empty otherwise.")
    as_of_ms: Annotated[int | None, VOLATILE] = Field(
        description="The time that it judges, milliseconds since the epoch."
    )
    next_step: Annotated[str, VOLATILE] = Field(description="What to call next.")
    statuses: Annotated[dict[str, int], VOLATILE] = Field(
        description="Of a finished lag run: how many groups have which status."
    )
    total: int = Field(description="Groups that it found.")
    groups: list[LagGroupRow] = Field(description="Of a finished lag run: the worst groups.")
    tables: Annotated[list[ResultTable], VOLATILE] = Field(
        default=[], description="Of a finished run of any other job: its tables."
    )
    runs: list[RunRow] = Field(description="The newest runs of all jobs, in whatever state.")


async def _run(call: Call, params: RunAnalyticsParams) -> RunAnswer:
    run_id = check_run_id(params.run_id) if params.run_id else f"{params.job}-{secrets.token_hex(6)}"
    command = command_of(_arguments(params, run_id, await _service_url(call)))
    if params.dry_run:
        return _answer(params, run_id, "planned", command, "call again without dry_run, or start the command yourself")
    require_spark()
    began_ms = call.clock.now_ms()
    await before_unrecorded()
    job = await JOBS.start(run_id, command, call.clock)
    run = await _wait(call, job, began_ms, params.wait_s)
    if run.state is RunState.RUNNING:
        step = f"call get_analytics_result with run_id {run_id} in half a minute"
    elif run.state is RunState.FINISHED:
        step = f"call get_analytics_result with run_id {run_id}"
    else:
        step = "mend what is said in detail, then run it again; analyze_consumer_lag answers live meanwhile"
    return _answer(params, run_id, run.state, command, step, detail=run.detail)


async def _get(call: Call, params: GetAnalyticsParams) -> AnalyticsAnswer:
    runs = await published_runs(call.gateway, call.clock)
    shown = [RunRow.of(run) for run in runs[:ANALYTICS_RUNS_SHOWN_MAX]]
    run = next((each for each in runs if each.run_id == params.run_id), None)
    if params.run_id is not None and run is None:
        await _raise_unknown(params.run_id, [each.run_id for each in shown])
    if run is None:
        run = newest_readable(runs, params.job)
    if run is None:
        under_way = any(each.state is RunState.RUNNING and each.job == params.job for each in runs)
        step = "a run is under way: call this again in half a minute" if under_way else "call run_analytics to make one"
    else:
        step = _next_step(run)
    is_there = run is not None and run.state is RunState.FINISHED
    is_lag = run is not None and run.job == AnalyticsJob.LAG
    report = report_of_run(run, AnalyzeLagParams(), call.clock.now_ms()) if run and is_there and is_lag else None
    return AnalyticsAnswer.of(
        run,
        job=run.job if run else params.job,
        detail=run.detail if run else "",
        next_step=step,
        statuses=report.statuses if report else {},
        total=report.total if report else 0,
        groups=report.groups if report else [],
        tables=_tables(run) if run and is_there and not is_lag else [],
        runs=shown,
    )


def _tables(run: Run) -> list[ResultTable]:
    """Tables that say something to a reader; points of plots are left to reports."""
    return [
        ResultTable(
            name=name,
            total=run.totals.get(name, len(rows)),
            columns=sorted({key for row in rows[:ANALYTICS_TABLE_ROWS] for key in row}),
            rows=_texts(rows[:ANALYTICS_TABLE_ROWS]),
        )
        for name, rows in run.tables.items()
        if name not in _POINTS and rows
    ]


def _texts(rows: Sequence[Row]) -> list[list[str]]:
    columns = sorted({key for row in rows for key in row})
    return [[_text(row.get(name)) for name in columns] for row in rows]


def _text(value: object) -> str:
    if value is None:
        return ""
    return number_text(value) if isinstance(value, float) else str(value)[:ANALYTICS_TEXT_CHARS]


_POINTS = frozenset({"moments", "forecast", "lag_over_time"})
"""Tables of a point for each moment."""


async def _raise_unknown(run_id: str, known: Sequence[str]) -> NoReturn:
    job = JOBS.get(run_id)
    if job is not None and job.exit_code is None:
        raise UnavailableError(f"run {run_id} has not told of its start yet: call this again in a few seconds")
    if job is not None:
        raise InternalError(f"run {run_id} ended before it told of its start: {await job.last_words()}")
    hint = f"there are {', '.join(known)}" if known else "call run_analytics to make one"
    raise NotFoundError(f"there is no run {run_id!r}: {hint}")


def _next_step(run: Run) -> str:
    match run.state:
        case RunState.FINISHED:
            if run.job != AnalyticsJob.LAG:
                return "report_analytics has it with plots and all tables; run it again for a newer one"
            return "analyze_consumer_lag with source spark pages through it and filters it"
        case RunState.RUNNING:
            return f"call get_analytics_result with run_id {run.run_id} again in half a minute"
        case RunState.FAILED:
            return "mend what is said in detail, then call run_analytics; analyze_consumer_lag answers live meanwhile"
        case RunState.LOST:
            return "it was killed or its words were lost: call run_analytics again"


def _arguments(params: RunAnalyticsParams, run_id: str, service_url: str) -> list[str]:
    given = {
        "service-url": service_url,
        "run-id": run_id,
        "since": f"{params.since_s}s",
        "as-of": params.as_of_ms,
        "topic": params.topic,
        "subscription": params.subscription,
        "namespace": params.namespace,
    }
    return [params.job, *(f"--{name}={value}" for name, value in given.items() if value is not None), "--progress"]


async def _service_url(call: Call) -> str:
    """The URL at which clients reach a broker. A cluster's word is not trusted: it must be an address."""
    from danube.model.address import host_and_port  # noqa: PLC0415 - `--help` needs no gRPC

    if not (await call.gateway.connection()).is_ours:
        raise UnsupportedError("the original broker publishes no telemetry, so there is nothing to run a job on")
    brokers = await call.gateway.brokers()
    url = next((info.broker_url for info in brokers if info.status == "active"), None)
    if url is None:
        raise UnavailableError("no broker is active: call list_brokers")
    try:
        host_and_port(url)
    except SettingsError:
        raise UnavailableError(
            "the broker tells no address that clients could use: look at its advertised address"
        ) from None
    return url


async def _wait(call: Call, job: Job, began_ms: int, wait_s: float) -> Run:
    """The run as soon as it has told of its start, or with `wait_s` of its end. Raises what the job said otherwise."""
    began_s = call.clock.monotonic_s()
    while True:
        has_ended = job.exit_code is not None
        run = await _published_run(call, job.run_id, began_ms)
        waited_s = call.clock.monotonic_s() - began_s
        if run is not None and (run.state is not RunState.RUNNING or (waited_s >= wait_s and not has_ended)):
            return run
        if has_ended:
            await _raise_last_words(job)
        if run is None and waited_s >= max(wait_s, ANALYTICS_START_S_MAX):
            raise UnavailableError(
                f"run {job.run_id} has not told of its start in {span_text(waited_s)}: call get_analytics_result later"
            )
        await call.report(waited_s, wait_s or None, await job.last_words() or f"run {job.run_id} starts")
        await sleep_for(call.clock, ANALYTICS_POLL_S)


async def _published_run(call: Call, run_id: str, began_ms: int) -> Run | None:
    """The published state of the run; an older attempt under the same id does not count."""
    runs = await published_runs(call.gateway, call.clock)
    return next((run for run in runs if run.run_id == run_id and run.started_ms >= began_ms), None)


async def _raise_last_words(job: Job) -> NoReturn:
    said = await job.last_words() or f"it ended with code {job.exit_code} and said nothing"
    if job.exit_code == ExitCode.UNAVAILABLE:
        raise UnavailableError(f"run {job.run_id}: {said}")
    raise InternalError(f"run {job.run_id}: {said}")


def _answer(
    params: RunAnalyticsParams, run_id: str, state: str, command: Sequence[str], step: str, *, detail: str = ""
) -> RunAnswer:
    return RunAnswer(
        run_id=run_id, job=params.job, state=state, detail=detail, command=shlex.join(command), next_step=step
    )


RUN_ANALYTICS = Operation(
    name="run_analytics",
    words=("analytics", "run"),
    summary="Start a job on Spark: lag, incidents, balance, capacity or forecast; its result is published.",
    description=(
        "The job runs beside this program as `danube-analytics` and takes about half a minute; the answer has its"
        " run_id. With wait_s it waits for the end. Then call get_analytics_result. For lag right now,"
        " analyze_consumer_lag with source live is faster."
    ),
    effect=Effect.WRITE,
    params=RunAnalyticsParams,
    result=RunAnswer,
    run=_run,
    positional=("job",),
    examples=(Example("What would be started?", {"dry_run": True}),),
)

GET_ANALYTICS_RESULT = Operation(
    name="get_analytics_result",
    words=("analytics", "result"),
    summary="Show the result or the progress of an analytics run.",
    description=(
        "Without run_id it shows the newest finished result of the job, and which runs there are. A result is shown"
        " only when its run has finished. analyze_consumer_lag with source spark filters and pages."
    ),
    effect=Effect.READ,
    params=GetAnalyticsParams,
    result=AnalyticsAnswer,
    run=_get,
    examples=(Example("The newest lag result", {"job": "lag"}),),
)

OPERATIONS = (RUN_ANALYTICS, GET_ANALYTICS_RESULT)
