"""`danube-analytics`: what Spark can tell about a cluster."""

import os
import secrets
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer

from danube import __version__
from danube.model.errors import CancelledError, DeadlineExceededError, InvalidRequestError
from danube.model.exit_codes import ExitCode
from danube.model.lag.group import LagFilter
from danube.model.limits.faces import ANALYTICS_RUN_GRACE_S, ANALYTICS_RUN_S_MAX
from danube.model.records.analytics import AnalyticsJob, check_run_id
from danube.model.text import moment_ms, seconds_of
from danube.model.topic import TopicName, check_name_part
from danube.report.document import write_report
from danube.runtime import console
from danube.runtime.clock import SystemClock
from danube.runtime.console import ended, say, write
from danube.runtime.paths import PATH_FLAG
from spark_analytics.flags import (
    AsOf,
    CaCert,
    Debug,
    Every,
    Master,
    Namespace,
    Output,
    Percentile,
    Progress,
    Publish,
    Quiet,
    ReportFile,
    RunId,
    ServiceUrl,
    Since,
    Subscription,
    TableFolder,
    TimeLimit,
    Token,
    TokenFile,
    Topic,
    chosen_token,
)
from spark_analytics.incidents.table import backtest_table
from spark_analytics.ingest.request import IngestRequest, TableFormat
from spark_analytics.ingest.run import run_ingest
from spark_analytics.jobs.run import JobRequest, JobResult, check_spark, run_job
from spark_analytics.progress import PROGRAM, Steps
from spark_analytics.render import ResultFormat, render
from spark_analytics.results import Cluster
from spark_analytics.schedules.cluster_schedules import ClusterSchedules
from spark_analytics.schedules.commands import schedules_app
from spark_analytics.schedules.runner import EndOfRunner, ScheduleRunner, run_until_told

app = typer.Typer(
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)

_ONCE_MORE_S = 0.1

_EXIT_CODES = (
    "Exit codes: 0 done, 1 failed, 2 wrong usage, or PySpark or Java is missing, 5 the cluster cannot be reached, "
    "6 refused, 130 interrupted."
)
_EPILOG = f"""Examples:

  danube-analytics lag

  danube-analytics lag --topic /default/orders --no-publish -o json

Connecting: --service-url or DANUBE_SERVICE_ADDR says where a broker is.

{_EXIT_CODES}
"""
_JOB_EPILOG = """Examples:

  danube-analytics {job}

  danube-analytics {job} --namespace default --since 1h

  danube-analytics {job} --as-of 2026-01-31T12:00:00Z --no-publish

  danube-analytics {job} -o jsonl --no-publish | jq .

  danube-analytics {job} --since 7d --table /data/telemetry --report report.html

  danube-analytics {job} --master spark://spark:7077 --run-id nightly

The columns and the rules are explained in {page}. `danube-admin analytics result` shows what was published.

{codes}
"""


_INGEST_EPILOG = f"""Examples:

  danube-analytics ingest --table /data/telemetry

  danube-analytics ingest --table /data/telemetry --continuous --interval 30s

  danube-analytics ingest --table /data/telemetry --keep 90d

Then: danube-analytics lag --table /data/telemetry --since 7d. The table is described in docs/analytics.md.

{_EXIT_CODES}
"""


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"{PROGRAM} {__version__}")
        raise typer.Exit


@app.callback(epilog=_EPILOG)
def danube_analytics(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Compute on Spark what a cluster's telemetry tells."""
    del version


@dataclass(frozen=True, slots=True)
class _Words:
    """Help of a job."""

    help: str
    page: str = "docs/analytics.md"
    examples: tuple[str, ...] = ()


_JOBS = {
    AnalyticsJob.LAG: _Words(
        "Judge how far each subscription is behind, why, and when it will have caught up.", "docs/lag.md"
    ),
    AnalyticsJob.BALANCE: _Words("Judge the load of brokers over time, and plan a rebalance for a percentile of it."),
    AnalyticsJob.HISTORY: _Words("Find the incidents of each subscription over time, with their causes."),
    AnalyticsJob.CAPACITY: _Words("Say when which broker will be full, and what one more would change."),
    AnalyticsJob.FORECAST: _Words("Forecast rates and lag of each topic a day ahead."),
}


def _add(job: AnalyticsJob, words: _Words) -> None:
    """Add the command of a job; all have the same flags."""

    def command(  # noqa: PLR0917 - one parameter for each flag
        service_url: ServiceUrl = "http://127.0.0.1:6650",
        master: Master = "local[2]",
        since: Since = "15m",
        as_of: AsOf = None,
        every: Every = None,
        percentile: Percentile = 95.0,
        table: TableFolder = None,
        topic: Topic = None,
        subscription: Subscription = None,
        namespace: Namespace = None,
        publish: Publish = True,
        report: ReportFile = None,
        output: Output = ResultFormat.TABLE,
        run_id: RunId = None,
        time_limit_s: TimeLimit = ANALYTICS_RUN_S_MAX,
        ca_cert: CaCert = None,
        token: Token = None,
        token_file: TokenFile = None,
        progress: Progress = None,
        quiet: Quiet = False,
        debug: Debug = False,
    ) -> None:
        del debug
        clock = SystemClock()

        def work() -> ExitCode:
            request = JobRequest(
                cluster=Cluster(service_url=service_url, ca_cert=ca_cert, token=chosen_token(token, token_file)),
                run_id=check_run_id(run_id) if run_id else f"{job}-{secrets.token_hex(6)}",
                attempt=secrets.token_hex(6),
                job=job,
                master=master,
                as_of_ms=None if as_of is None else moment_ms(as_of),
                since_s=_since_s(since),
                step_s=None if every is None else seconds_of(every),
                percentile=percentile / 100,
                table=table,
                wanted=_filter(topic, subscription, namespace),
                publish=publish,
                time_limit_s=time_limit_s,
            )
            with _ends_in_time(time_limit_s):
                result = run_job(request, clock, Steps.for_terminal(clock, quiet=quiet, wanted=progress))
            if report is not None:
                write_report(report, result)
            _show(result, output, quiet=quiet)
            return ExitCode.OK

        raise typer.Exit(ended(work, PROGRAM))

    epilog = _JOB_EPILOG.format(job=job, page=words.page, codes=_EXIT_CODES)
    app.command(str(job), help=words.help, epilog=epilog)(command)


for _job, _words in _JOBS.items():
    _add(_job, _words)


@app.command("backtest")
def backtest_command(
    seeds: Annotated[int, typer.Option("--seeds", min=1, max=1_000, help="Scenarios of each kind.")] = 10,
    first_seed: Annotated[int, typer.Option("--first-seed", min=0, help="Seed of the first one.")] = 1_000,
    kind: Annotated[list[str] | None, typer.Option("--kind", help="Only this kind; may be given again.")] = None,
) -> None:
    """Judge the rules of alerts on labelled incidents, beside others; needs neither cluster nor Spark."""

    def work() -> ExitCode:
        write(backtest_table(kind, range(first_seed, first_seed + seeds)))
        return ExitCode.OK

    raise typer.Exit(ended(work, PROGRAM))


@app.command("ingest", epilog=_INGEST_EPILOG)
def ingest_command(  # noqa: PLR0917 - one parameter for each flag
    table: Annotated[Path, typer.Option("--table", **PATH_FLAG, help="Folder of the table, made when needed.")],
    form: Annotated[TableFormat, typer.Option("--format", help="Of a new table.")] = TableFormat.PARQUET,
    continuous: Annotated[
        bool, typer.Option("--continuous/--once", help="Go on, or end when all that is there is stored.")
    ] = False,
    interval: Annotated[str, typer.Option("--interval", help="Between two micro-batches of a continuous one.")] = "1m",
    max_rows: Annotated[int, typer.Option("--max-rows", min=1, help="Messages of one micro-batch.")] = 1_000_000,
    keep: Annotated[str | None, typer.Option("--keep", help="Remove days that are older: 90d.")] = None,
    compact: Annotated[bool, typer.Option("--compact/--no-compact", help="Join the small files of a day.")] = True,
    service_url: ServiceUrl = "http://127.0.0.1:6650",
    master: Master = "local[2]",
    ca_cert: CaCert = None,
    token: Token = None,
    token_file: TokenFile = None,
    progress: Progress = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Store telemetry in a table, each record once, over kills and restarts."""
    del debug
    clock = SystemClock()

    def work() -> ExitCode:
        check_spark()
        cluster = Cluster(service_url=service_url, ca_cert=ca_cert, token=chosen_token(token, token_file))
        cluster.check_telemetry()
        request = IngestRequest(
            cluster=cluster,
            folder=table,
            form=form,
            continuous=continuous,
            interval_s=seconds_of(interval),
            max_rows=max_rows,
            keep_days=None if keep is None else round(seconds_of(keep) / 86_400),
            compact=compact,
        )
        rows = run_ingest(request, clock, master, Steps.for_terminal(clock, quiet=quiet, wanted=progress))
        if not quiet:
            say(f"stored {rows:,} records in {table}", PROGRAM)
        return ExitCode.OK

    raise typer.Exit(ended(work, PROGRAM))


@app.command("run-schedules")
def run_schedules_command(  # noqa: PLR0917 - one parameter for each flag
    service_url: ServiceUrl = "http://127.0.0.1:6650",
    master: Master = "local[2]",
    ca_cert: CaCert = None,
    token: Token = None,
    token_file: TokenFile = None,
    progress: Progress = None,
    quiet: Quiet = False,
) -> None:
    """Start scheduled jobs when they are due, until the process is told to end; of several runners one works."""
    clock = SystemClock()

    def work() -> ExitCode:
        check_spark()
        steps = Steps(clock, shown=not quiet and progress is not False)
        cluster = Cluster(service_url=service_url, ca_cert=ca_cert, token=chosen_token(token, token_file))
        cluster.check_telemetry()
        runner, end = secrets.token_hex(6), EndOfRunner()
        end.follow_signals()
        steps.tell(f"runner {runner} starts jobs of {service_url} when they are due; Ctrl-C ends it")
        schedules = ScheduleRunner(ClusterSchedules(cluster), runner, clock, steps, master=master)
        return run_until_told(schedules, end, steps)

    raise typer.Exit(ended(work, PROGRAM))


app.add_typer(schedules_app, name="schedule")


def _show(result: JobResult, output: ResultFormat, *, quiet: bool) -> None:
    write(render(result, output))
    if (unread := result.window.get("unread")) and not quiet:
        say(f"the telemetry in {', '.join(unread)} is missing: no broker that runs serves it", PROGRAM)
    if not any(result.tables.values()) and not quiet:
        say("no telemetry tells of this in this time: read more of it with --since, or check the filter", PROGRAM)


def _since_s(text: str) -> float:
    since_s = seconds_of(text)
    if not 1 <= since_s <= 366 * 86_400:
        raise InvalidRequestError("--since is from 1s to 366d")
    return since_s


def _filter(topic: str | None, subscription: str | None, namespace: str | None) -> LagFilter:
    return LagFilter(
        topic=None if topic is None else str(TopicName.parse(topic)),
        subscription=subscription,
        namespace=None if namespace is None else check_name_part("namespace", namespace),
    )


@contextmanager
def _ends_in_time(limit_s: float) -> Iterator[None]:
    """Raise DeadlineExceededError in what takes longer, and CancelledError when the process is told to end.

    What does not even end then, within the grace, is ended by the system: the alarm is not caught a second time.
    """

    def too_late(_number: int, _frame: FrameType | None) -> NoReturn:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, ANALYTICS_RUN_GRACE_S)
        raise DeadlineExceededError(f"it took longer than {limit_s:g} s: read less with --since, or give it more Spark")

    def told_to_end(_number: int, _frame: FrameType | None) -> NoReturn:
        raise CancelledError("it was told to end before it was done")

    def once_more(ignored: "sys.UnraisableHookArgs") -> None:
        """Raise again what was raised where Python ignores errors, such as in a finalizer or while it forks."""
        if not isinstance(ignored.exc_value, DeadlineExceededError | CancelledError):
            hook(ignored)
            return
        late = isinstance(ignored.exc_value, DeadlineExceededError)
        signal.signal(signal.SIGALRM, too_late if late else told_to_end)
        signal.setitimer(signal.ITIMER_REAL, _ONCE_MORE_S)

    before = signal.signal(signal.SIGALRM, too_late), signal.signal(signal.SIGTERM, told_to_end)
    hook, sys.unraisablehook = sys.unraisablehook, once_more
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = hook
        signal.signal(signal.SIGALRM, before[0])
        signal.signal(signal.SIGTERM, before[1])


def main() -> None:
    """Entry point of `danube-analytics`."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # it remarks on each process that Spark starts
    console.main(lambda: app(prog_name=PROGRAM), PROGRAM)


if __name__ == "__main__":
    main()
