"""analytics.schedule.*: jobs that the runner of schedules starts again and again."""

from typing import Annotated

from pydantic import Field

from danube.admin.analytics.published import published_runs
from danube.admin.operations.fields import (
    VOLATILE,
    WIDE,
    Completes,
    NamespaceText,
    PageParams,
    PageResult,
    Params,
    Result,
    SpanS,
    SubscriptionText,
    TopicText,
)
from danube.admin.operations.operation import Call, Example, Listing, Operation
from danube.admin.operations.plan_views import caller_text
from danube.model.limits.faces import (
    ANALYTICS_RUN_ID_CHARS_MAX,
    ANALYTICS_SINCE_S_DEFAULT,
    ANALYTICS_SINCE_S_MAX,
    LAG_NUMBER_END,
    SCHEDULE_EVERY_S_MAX,
    SCHEDULE_EVERY_S_MIN,
)
from danube.model.plans.plan import Effect
from danube.model.records.analytics import AnalyticsJob, Run
from danube.model.records.schedules import Missed, Schedule

TOOLSET = "analytics"
_RUNNER = "danube-analytics run-schedules"
ScheduleText = Annotated[str, Field(min_length=1, max_length=ANALYTICS_RUN_ID_CHARS_MAX), Completes("schedule")]


class ScheduleParams(Params):
    """One schedule."""

    name: ScheduleText = Field(description="Name of the schedule.")


class AddScheduleParams(ScheduleParams):
    """A schedule to keep."""

    job: AnalyticsJob = Field(description="Job that it runs.")
    every_s: SpanS = Field(
        default=86_400,
        ge=SCHEDULE_EVERY_S_MIN,
        le=SCHEDULE_EVERY_S_MAX,
        description="Seconds between two runs.",
    )
    first_ms: int | None = Field(
        default=None,
        ge=1,
        lt=LAG_NUMBER_END,
        description="First run, milliseconds since the epoch; others follow from there. Now by default.",
    )
    missed: Missed = Field(
        default=Missed.LAST,
        description="Runs that were due while no runner ran: make up the `last`, `all` of them, or `skip` them.",
    )
    since_s: SpanS = Field(
        default=ANALYTICS_SINCE_S_DEFAULT, ge=60, le=ANALYTICS_SINCE_S_MAX, description="Seconds of telemetry to read."
    )
    table: Annotated[str, Field(max_length=1_000)] | None = Field(
        default=None, description="Read this table that ingest wrote, where the runner runs, and not the topic."
    )
    topic: TopicText | None = Field(default=None, description="Only this topic.")
    subscription: SubscriptionText | None = Field(default=None, description="Only this subscription.")
    namespace: NamespaceText | None = Field(default=None, description="Only this namespace.")


class ScheduleRow(Result):
    """One schedule, with its newest run."""

    name: str = Field(description="Its name.")
    job: str = Field(description="Job that it runs.")
    every_s: int = Field(description="Seconds between two runs.")
    arguments: Annotated[list[str], WIDE] = Field(description="Flags of `danube-analytics`.")
    missed: str = Field(description="Treatment of runs that were due while no runner ran.")
    next_ms: Annotated[int, VOLATILE] = Field(description="Next run, milliseconds since the epoch.")
    last_run: Annotated[str, VOLATILE] = Field(description="Id of its newest run; empty for none.")
    last_state: Annotated[str, VOLATILE] = Field(
        description="`running`, `finished`, `failed`, `lost`, or `begun`: it has not told of its start yet."
    )
    last_s: Annotated[float | None, VOLATILE] = Field(description="Seconds that it took; null while it runs.")
    last_rows: Annotated[int, VOLATILE] = Field(description="Rows of its result.")
    detail: Annotated[str, VOLATILE, WIDE] = Field(description="Why it failed; empty otherwise.")
    set_by: Annotated[str, VOLATILE, WIDE] = Field(description="Caller that kept it.")


class ScheduleList(PageResult):
    """Schedules."""

    runner: Annotated[str, VOLATILE] = Field(description="The runner that has the lease; empty for none.")
    hint: Annotated[str, VOLATILE] = Field(description="What to do, a sentence.")
    schedules: list[ScheduleRow] = Field(description="In the order of their names.")


class ScheduleChanged(Result):
    """A schedule that was added, changed or removed."""

    name: str = Field(description="Its name.")
    job: str = Field(description="Job that it runs.")
    every_s: int = Field(description="Seconds between two runs.")
    first_ms: Annotated[int, VOLATILE] = Field(description="First run, milliseconds since the epoch.")
    next_step: str = Field(description="What to do next.")


class RunRequested(Result):
    """A run that was asked for."""

    name: str = Field(description="Name of the schedule.")
    run_id: Annotated[str, VOLATILE] = Field(description="Ask get_analytics_result for it.")
    runner: Annotated[str, VOLATILE] = Field(description="The runner that starts it; empty for none.")
    next_step: Annotated[str, VOLATILE] = Field(description="What to do next.")


async def _list(call: Call, _: PageParams) -> ScheduleList:
    book = await call.gateway.schedules()
    runs = await published_runs(call.gateway, call.clock)
    now_ms = call.clock.now_ms()
    rows = [_row(schedule, runs, now_ms) for schedule in book.schedules]
    hint = "" if book.runner else f"No runner has the lease, so nothing is started: start `{_RUNNER}` somewhere."
    return ScheduleList(runner=book.runner, hint=hint, schedules=rows)


async def _add(call: Call, params: AddScheduleParams) -> ScheduleChanged:
    schedule = Schedule(
        name=params.name,
        job=params.job,
        every_s=params.every_s,
        first_ms=params.first_ms or 0,
        arguments=tuple(_arguments(params)),
        missed=params.missed,
        set_by=caller_text(call.caller),
    ).check()
    kept = await call.gateway.put_schedule(schedule)
    return _changed(kept, f"`{_RUNNER}` starts it when it is due; list_schedules shows its newest run")


async def _remove(call: Call, params: ScheduleParams) -> ScheduleChanged:
    return _changed(await call.gateway.remove_schedule(params.name), "runs under way go on")


async def _request(call: Call, params: ScheduleParams) -> RunRequested:
    asked = await call.gateway.request_run(params.name)
    runner = (await call.gateway.schedules()).runner
    run_id = asked.run_id(asked.requested_ms)
    step = f"call get_analytics_result with run_id {run_id} in a minute"
    if not runner:
        step = f"no runner has the lease: start `{_RUNNER}` somewhere, it starts the run"
    return RunRequested(name=asked.name, run_id=run_id, runner=runner, next_step=step)


def _arguments(params: AddScheduleParams) -> list[str]:
    given = {
        "since": f"{params.since_s}s",
        "table": params.table,
        "topic": params.topic,
        "subscription": params.subscription,
        "namespace": params.namespace,
    }
    return [f"--{name}={value}" for name, value in given.items() if value is not None]


def _changed(schedule: Schedule, next_step: str) -> ScheduleChanged:
    return ScheduleChanged.of(schedule, next_step=next_step)


def _row(schedule: Schedule, runs: list[Run], now_ms: int) -> ScheduleRow:
    begun = schedule.run_id(schedule.begun_due_ms) if schedule.begun_due_ms else ""
    last = next((run for run in runs if run.run_id == begun), None)
    step_ms = schedule.every_s * 1_000
    waited = max(0, now_ms - schedule.first_ms + step_ms) // step_ms
    return ScheduleRow.of(
        schedule,
        arguments=list(schedule.arguments),
        next_ms=schedule.first_ms + waited * step_ms,
        last_run=begun,
        last_state=(last.state if last else "begun") if begun else "",
        last_s=(last.ended_ms - last.started_ms) / 1_000 if last and last.ended_ms else None,
        last_rows=sum(last.totals.values()) if last else 0,
        detail=last.detail if last else "",
    )


LIST_SCHEDULES = Operation(
    name="list_schedules",
    words=("analytics", "schedule", "list"),
    summary="List the schedules of analytics jobs, with the outcome of their newest runs.",
    description="get_analytics_result without run_id lists the runs of all jobs.",
    effect=Effect.READ,
    params=PageParams,
    result=ScheduleList,
    run=_list,
    pages=Listing(rows="schedules", name="name"),
    toolset=TOOLSET,
    examples=(Example("Every schedule"),),
)
ADD_SCHEDULE = Operation(
    name="add_schedule",
    words=("analytics", "schedule", "add"),
    summary="Add a schedule of an analytics job, or change the one of this name.",
    description=f"The cluster keeps it; `{_RUNNER}` starts the job when it is due. Of several runners one does.",
    effect=Effect.WRITE,
    params=AddScheduleParams,
    result=ScheduleChanged,
    run=_add,
    positional=("name", "job"),
    is_idempotent=True,
    done="Schedule kept: {name}",
    toolset=TOOLSET,
    examples=(Example("Balance of a week, each night", {"name": "weekly", "job": "balance", "since_s": 604_800}),),
)
REMOVE_SCHEDULE = Operation(
    name="remove_schedule",
    words=("analytics", "schedule", "remove"),
    summary="Remove a schedule.",
    effect=Effect.WRITE,
    params=ScheduleParams,
    result=ScheduleChanged,
    run=_remove,
    positional=("name",),
    done="Schedule removed: {name}",
    toolset=TOOLSET,
    examples=(Example("No more", {"name": "nightly"}),),
)
RUN_SCHEDULE = Operation(
    name="run_schedule",
    words=("analytics", "schedule", "run"),
    summary="Have the runner start the job of a schedule now.",
    description="Where a runner has the lease, that takes seconds. run_analytics starts a job beside this program.",
    effect=Effect.WRITE,
    params=ScheduleParams,
    result=RunRequested,
    run=_request,
    positional=("name",),
    is_idempotent=True,
    toolset=TOOLSET,
    examples=(Example("Now", {"name": "nightly"}),),
)

OPERATIONS = (LIST_SCHEDULES, ADD_SCHEDULE, REMOVE_SCHEDULE, RUN_SCHEDULE)
