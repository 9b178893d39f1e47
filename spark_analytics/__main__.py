"""`danube-analytics`: what Spark can tell about a cluster."""

import os
import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer

from danube import __version__
from danube.model.errors import CancelledError, DeadlineExceededError, InvalidRequestError
from danube.model.exit_codes import ExitCode
from danube.model.lag.group import LagFilter
from danube.model.limits.faces import ANALYTICS_RUN_GRACE_S, ANALYTICS_RUN_S_MAX
from danube.model.records.analytics import check_run_id
from danube.model.topic import TopicName, check_name_part
from danube.runtime.clock import SystemClock
from danube.runtime.console import ended, say, write
from danube.runtime.paths import expanded
from spark_analytics.jobs.lag_run import LagRequest, LagResult, run_lag
from spark_analytics.progress import PROGRAM, Steps
from spark_analytics.render import ResultFormat, render
from spark_analytics.results import Cluster
from spark_analytics.words import moment_ms, seconds_of

app = typer.Typer(
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)

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
_LAG_EPILOG = f"""Examples:

  danube-analytics lag

  danube-analytics lag --namespace default --since 1h

  danube-analytics lag --as-of 2026-01-31T12:00:00Z --no-publish

  danube-analytics lag -o jsonl --no-publish | jq 'select(.status == "STOP")'

  danube-analytics lag --master spark://spark:7077 --run-id nightly

The columns and the rules are explained in docs/lag.md. `danube-admin analytics result` shows what was published.

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


@app.command("lag", epilog=_LAG_EPILOG)
def lag_command(  # noqa: PLR0917 - one parameter for each flag
    service_url: Annotated[
        str, typer.Option("--service-url", envvar="DANUBE_SERVICE_ADDR", help="Broker: http://host:port.")
    ] = "http://127.0.0.1:6650",
    master: Annotated[
        str, typer.Option("--master", envvar="DANUBE_SPARK_MASTER", help="Spark: local[2], spark://host:port, ...")
    ] = "local[2]",
    since: Annotated[str, typer.Option("--since", help="How much telemetry to read: 5m, 1h.")] = "15m",
    as_of: Annotated[
        str | None, typer.Option("--as-of", help="The time to judge, ISO 8601 or ms since 1970.", show_default="now")
    ] = None,
    topic: Annotated[
        str | None, typer.Option("-t", "--topic", help="Only this topic, with all its partitions.")
    ] = None,
    subscription: Annotated[str | None, typer.Option("-s", "--subscription", help="Only this subscription.")] = None,
    namespace: Annotated[str | None, typer.Option("-n", "--namespace", help="Only this namespace.")] = None,
    publish: Annotated[
        bool, typer.Option("--publish/--no-publish", help="Store the result in /system/analytics.")
    ] = True,
    output: Annotated[ResultFormat, typer.Option("-o", "--output", help="How to write.")] = ResultFormat.TABLE,
    run_id: Annotated[
        str | None, typer.Option("--run-id", help="Name of the run; a random one by default.", show_default=False)
    ] = None,
    time_limit_s: Annotated[
        float, typer.Option("--time-limit-s", min=1, max=ANALYTICS_RUN_S_MAX, help="Give up after so many seconds.")
    ] = ANALYTICS_RUN_S_MAX,
    ca_cert: Annotated[
        Path | None,
        typer.Option(
            "--ca-cert", envvar="DANUBE_CA_CERT", callback=expanded, help="Connect over TLS and trust this authority."
        ),
    ] = None,
    token: Annotated[
        str | None, typer.Option("--token", envvar="DANUBE_TOKEN", help="Token of the caller; needs TLS.")
    ] = None,
    progress: Annotated[
        bool | None,
        typer.Option("--progress/--no-progress", help="Say each step.", show_default="on a terminal"),
    ] = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Say nothing but errors.")] = False,
) -> None:
    """Judge how far each subscription is behind, why, and when it will have caught up."""
    clock = SystemClock()

    def work() -> ExitCode:
        request = LagRequest(
            cluster=Cluster(service_url=service_url, ca_cert=ca_cert, token=token),
            run_id=check_run_id(run_id) if run_id else f"lag-{secrets.token_hex(6)}",
            attempt=secrets.token_hex(6),
            master=master,
            as_of_ms=None if as_of is None else moment_ms(as_of),
            since_s=_since_s(since),
            wanted=_filter(topic, subscription, namespace),
            publish=publish,
            time_limit_s=time_limit_s,
        )
        with _ends_in_time(time_limit_s):
            result = run_lag(request, clock, Steps.for_terminal(clock, quiet=quiet, wanted=progress))
        _show(result, output, quiet=quiet)
        return ExitCode.OK

    raise typer.Exit(ended(work, PROGRAM))


def _show(result: LagResult, output: ResultFormat, *, quiet: bool) -> None:
    write(render(result, output))
    if not result.groups and not quiet:
        say("no subscription was told of in this time: read more of it with --since, or check the filter", PROGRAM)


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

    before = signal.signal(signal.SIGALRM, too_late), signal.signal(signal.SIGTERM, told_to_end)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before[0])
        signal.signal(signal.SIGTERM, before[1])


def main() -> None:
    """Entry point of `danube-analytics`."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # it remarks on each process that Spark starts
    app(prog_name=PROGRAM)


if __name__ == "__main__":
    main()
