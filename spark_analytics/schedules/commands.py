"""`danube-analytics schedule`: add, list, remove and run schedules."""

from typing import Annotated

import typer

from danube.model.exit_codes import ExitCode
from danube.model.records.analytics import AnalyticsJob
from danube.model.records.schedules import Missed, Schedule
from danube.model.text import moment_ms, span_s, span_text, time_of
from danube.runtime.clock import SystemClock
from danube.runtime.console import ended, write
from spark_analytics.flags import CaCert, ServiceUrl, Token, TokenFile, chosen_token
from spark_analytics.progress import PROGRAM
from spark_analytics.results import Cluster
from spark_analytics.schedules.cluster_schedules import ClusterSchedules

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
    token_file: TokenFile = None,
) -> None:
    """Add a schedule, or change the one of this name."""

    def work() -> ExitCode:
        schedule = Schedule(
            name=name,
            job=job,
            every_s=span_s(every),
            first_ms=0 if first is None else moment_ms(first),
            arguments=tuple(arguments or ()),
            missed=missed,
        ).check()
        kept = _schedules(service_url, ca_cert, chosen_token(token, token_file)).put(schedule)
        write(f"{name}: {job} every {every}, first at {time_of(kept.first_ms)}\n")
        return ExitCode.OK

    raise typer.Exit(ended(work, PROGRAM))


@schedules_app.command("list")
def list_command(
    service_url: ServiceUrl = "http://127.0.0.1:6650",
    ca_cert: CaCert = None,
    token: Token = None,
    token_file: TokenFile = None,
) -> None:
    """List the schedules, with the outcome of their newest runs."""

    def work() -> ExitCode:
        schedules = _schedules(service_url, ca_cert, chosen_token(token, token_file))
        book, runs = schedules.book(), schedules.runs(SystemClock().now_ms())
        write(f"runner: {book.runner or 'none has the lease'}\n")
        for schedule in book.schedules:
            own = [run for run in runs if run.run_id.startswith(f"{schedule.name}-")]
            last = "has not run"
            if own:
                took = (
                    "" if own[0].ended_ms is None else f" in {span_text((own[0].ended_ms - own[0].started_ms) / 1_000)}"
                )
                rows = sum(own[0].totals.values())
                last = f"last {own[0].state}{took}, {rows:,} rows, run {own[0].run_id}"
            words = (schedule.name, schedule.job, *schedule.arguments)
            write(f"{' '.join(words)}  every {schedule.every_s} s, missed runs: {schedule.missed}, {last}\n")
        return ExitCode.OK

    raise typer.Exit(ended(work, PROGRAM))


@schedules_app.command("remove")
def remove_command(
    name: Name,
    service_url: ServiceUrl = "http://127.0.0.1:6650",
    ca_cert: CaCert = None,
    token: Token = None,
    token_file: TokenFile = None,
) -> None:
    """Remove a schedule; runs under way go on."""

    def work() -> ExitCode:
        _schedules(service_url, ca_cert, chosen_token(token, token_file)).remove(name)
        return ExitCode.OK

    raise typer.Exit(ended(work, PROGRAM))


@schedules_app.command("run")
def run_command(
    name: Name,
    service_url: ServiceUrl = "http://127.0.0.1:6650",
    ca_cert: CaCert = None,
    token: Token = None,
    token_file: TokenFile = None,
) -> None:
    """Have the runner start a run out of turn."""

    def work() -> ExitCode:
        schedule = _schedules(service_url, ca_cert, chosen_token(token, token_file)).request(name)
        write(f"run {schedule.run_id(schedule.requested_ms)} is asked for\n")
        return ExitCode.OK

    raise typer.Exit(ended(work, PROGRAM))


def _schedules(service_url: str, ca_cert: CaCert, token: str | None) -> ClusterSchedules:
    return ClusterSchedules(Cluster(service_url=service_url, ca_cert=ca_cert, token=token))
