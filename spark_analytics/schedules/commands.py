"""`danube-analytics schedule`: add, list, remove and run schedules."""

import secrets
from datetime import UTC, datetime
from typing import Annotated

import typer

from danube.model.errors import NotFoundError
from danube.model.exit_codes import ExitCode
from danube.model.records.analytics import AnalyticsJob
from danube.model.records.schedules import Missed, Schedule, schedule_record
from danube.runtime.clock import SystemClock
from danube.runtime.console import ended, write
from spark_analytics.flags import CaCert, ServiceUrl, Token
from spark_analytics.progress import PROGRAM
from spark_analytics.results import Cluster
from spark_analytics.schedules.log import ScheduleLog
from spark_analytics.words import moment_ms, seconds_of

schedules_app = typer.Typer(
    no_args_is_help=True, help="Keep schedules of jobs in the cluster; run-schedules starts them."
)

Name = Annotated[str, typer.Argument(help="Name of the schedule.")]


@schedules_app.command("add")
def add_command(  # noqa: PLR0917 - one parameter for each flag
    name: Name,
    job: Annotated[AnalyticsJob, typer.Argument(help="Job that it runs.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Flags of the job, after --.")] = None,
    every: Annotated[str, typer.Option("--every", help="Between two runs: 15m, 1h, 1d.")] = "1h",
    first: Annotated[str | None, typer.Option("--first", help="First run.", show_default="now")] = None,
    missed: Annotated[Missed, typer.Option("--missed", help="Runs that were due while no runner ran.")] = Missed.LAST,
    service_url: ServiceUrl = "http://127.0.0.1:6650",
    ca_cert: CaCert = None,
    token: Token = None,
) -> None:
    """Add a schedule, or change the one of this name."""

    def work() -> ExitCode:
        now_ms = SystemClock().now_ms()
        schedule = Schedule(
            name=name,
            job=job,
            every_s=round(seconds_of(every)),
            first_ms=now_ms if first is None else moment_ms(first),
            arguments=tuple(arguments or ()),
            missed=missed,
        ).check()
        _write(_log(service_url, ca_cert, token), schedule, removed=False)
        write(f"{name}: {job} every {every}, first at {_time(schedule.first_ms)}\n")
        return ExitCode.OK

    raise typer.Exit(ended(work, PROGRAM))


@schedules_app.command("list")
def list_command(
    service_url: ServiceUrl = "http://127.0.0.1:6650", ca_cert: CaCert = None, token: Token = None
) -> None:
    """List the schedules, with the outcome of their newest runs."""

    def work() -> ExitCode:
        log = _log(service_url, ca_cert, token)
        runs = log.runs(SystemClock().now_ms())
        for schedule in sorted(log.book.schedules.values(), key=lambda one: one.name):
            own = [run for run in runs if run.run_id.startswith(f"{schedule.name}-")]
            last = "has not run"
            if own:
                took = "" if own[0].ended_ms is None else f" in {(own[0].ended_ms - own[0].started_ms) / 1_000:.0f} s"
                rows = sum(own[0].totals.values())
                last = f"last {own[0].state}{took}, {rows:,} rows, run {own[0].run_id}"
            words = (schedule.name, schedule.job, *schedule.arguments)
            write(f"{' '.join(words)}  every {schedule.every_s} s, missed runs: {schedule.missed}, {last}\n")
        return ExitCode.OK

    raise typer.Exit(ended(work, PROGRAM))


@schedules_app.command("remove")
def remove_command(
    name: Name, service_url: ServiceUrl = "http://127.0.0.1:6650", ca_cert: CaCert = None, token: Token = None
) -> None:
    """Remove a schedule; runs under way go on."""

    def work() -> ExitCode:
        log = _log(service_url, ca_cert, token)
        schedule = log.book.schedules.get(name)
        if schedule is None:
            known = ", ".join(sorted(log.book.schedules)) or "none"
            raise NotFoundError(f"there is no schedule {name!r}: there are {known}")
        _write(log, schedule, removed=True)
        return ExitCode.OK

    raise typer.Exit(ended(work, PROGRAM))


def _log(service_url: str, ca_cert: CaCert, token: Token) -> ScheduleLog:
    log = ScheduleLog(Cluster(service_url=service_url, ca_cert=ca_cert, token=token))
    log.refresh()
    return log


def _write(log: ScheduleLog, schedule: Schedule, *, removed: bool) -> None:
    attempt = secrets.token_hex(6)
    record = schedule_record(schedule, SystemClock().now_ms(), attempt, removed=removed)
    log.write([record], f"danube-schedules-{attempt}")


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
