"""analytics.report: the report of a published run, as Markdown or as one HTML page."""

from typing import Annotated, Literal

from pydantic import Field

from danube.admin.analytics.published import newest_readable, published_runs
from danube.admin.operations.analytics.analytics import RunText
from danube.admin.operations.analytics.schedules import TOOLSET
from danube.admin.operations.fields import VOLATILE, Params, Result
from danube.admin.operations.operation import Call, Example, Operation
from danube.model.errors import NotFoundError, PreconditionFailedError
from danube.model.plans.plan import Effect
from danube.model.records.analytics import AnalyticsJob, Run, RunState


class ReportParams(Params):
    """Which run, and in which form."""

    job: AnalyticsJob = Field(default=AnalyticsJob.LAG, description="The newest result of this job.")
    run_id: RunText | None = Field(default=None, description="This run instead.")
    form: Literal["markdown", "html"] = Field(
        default="markdown", description="`html` is one page with plots that needs nothing else: write it to a file."
    )


class ReportAnswer(Result):
    """A report: verdicts first, then plots, tables, and the quality of the data."""

    run_id: Annotated[str | None, VOLATILE] = Field(description="The run; null when there is no finished one.")
    job: str = Field(description="The job.")
    as_of_ms: Annotated[int | None, VOLATILE] = Field(description="The time that it judges.")
    document: Annotated[str, VOLATILE] = Field(description="The report; empty without a run.")
    next_step: Annotated[str, VOLATILE] = Field(description="What to do next.")


async def _report(call: Call, params: ReportParams) -> ReportAnswer:
    runs = await published_runs(call.gateway, call.clock)
    run = _finished(runs, params.run_id) if params.run_id else newest_readable(runs, params.job)
    if run is None:
        step = "no run of this job has finished: call run_analytics, or add_schedule"
        return ReportAnswer(run_id=None, job=params.job, as_of_ms=None, document="", next_step=step)
    from danube.report.document import html, markdown  # noqa: PLC0415 - other commands start without it

    document = html(run) if params.form == "html" else markdown(run)
    return ReportAnswer.of(run, document=document, next_step="")


def _finished(runs: list[Run], run_id: str) -> Run:
    run = next((each for each in runs if each.run_id == run_id), None)
    if run is None:
        raise NotFoundError(f"there is no run {run_id[:80]!r}: call get_analytics_result to list the runs")
    if run.state is not RunState.FINISHED:
        raise PreconditionFailedError(f"run {run_id} is {run.state} and has no result: {run.detail or 'wait for it'}")
    return run


REPORT_ANALYTICS = Operation(
    name="report_analytics",
    words=("analytics", "report"),
    summary="Show the report of an analytics run.",
    description="On the command line: danube-admin analytics report --form html > report.html",
    effect=Effect.READ,
    params=ReportParams,
    result=ReportAnswer,
    run=_report,
    positional=("job",),
    toolset=TOOLSET,
    examples=(Example("The newest lag report"),),
)

OPERATIONS = (REPORT_ANALYTICS,)
