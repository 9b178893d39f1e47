"""`danube query`: SQL over topics. The answer is a table, JSON lines or CSV, on standard output."""

import sys
import threading
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Annotated

import typer

from danube.cli.output import EXIT_CODES, PROGRAM, Progress, say
from danube.cli.queries.answers import AnswerFormat, written
from danube.model.errors import UnsupportedError
from danube.model.exit_codes import ExitCode
from danube.model.text import count_text, install_text, size_bytes, size_text, span_text
from danube.runtime import console
from danube.runtime.clock import Clock, SystemClock

if TYPE_CHECKING:
    from danube.query.session import Answer, Query

_PROGRESS_S = 0.2

_EXAMPLES = """Examples:

  danube query 'select key, count(*) from orders group by key'

  danube query 'select * from shop.orders limit 5'

  danube query "select status, avg(amount) from orders group by 1" --since 1h

  danube query 'select "offset", decode(value) from orders' -o json

A table is a topic: orders is /default/orders, shop.orders is /shop/orders, and any name can be given as it is:
"/shop/orders". Columns: topic, partition, "offset", append_time, publish_time, producer_name, key, attributes,
schema_id, schema_version, value; with a schema also decoded, and the fields of its values. Conditions on "offset",
partition and append_time are passed down, so that little is read.
"""
EPILOG = f"{_EXAMPLES}\n{EXIT_CODES}\n"


def query_command(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT; - reads it from standard input.")],
    *,
    service_addr: Annotated[
        str, typer.Option("-s", "--service-addr", envvar="DANUBE_SERVICE_ADDR", help="Broker: http://host:port.")
    ] = "http://127.0.0.1:6650",
    since: Annotated[
        str | None, typer.Option("--since", help="Only messages appended since: a duration such as 10m, or a time.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="Only messages appended before: a duration ago, or a time.")
    ] = None,
    folder: Annotated[
        str | None,
        typer.Option(
            "--folder", help="Read the segments of the brokers' shared folder, or bucket (s3://bucket/prefix)."
        ),
    ] = None,
    rows: Annotated[int, typer.Option("--rows", min=1, max=1_000_000, help="Show at most so many rows.")] = 1_000,
    max_read: Annotated[str, typer.Option("--max-read", help="Read at most so many bytes.")] = "2GiB",
    timeout_s: Annotated[float, typer.Option("--timeout-s", min=0.1, help="Give up after so many seconds.")] = 60.0,
    output: Annotated[AnswerFormat, typer.Option("-o", "--output", help="How to write.")] = AnswerFormat.TABLE,
    ca_cert: Annotated[
        str | None, typer.Option("--ca-cert", envvar="DANUBE_CA_CERT", help="Connect over TLS, trust this authority.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            envvar="DANUBE_TOKEN",
            help="Token of the caller; needs TLS.",
            callback=console.warn_of_token(PROGRAM, "DANUBE_TOKEN"),
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Say nothing but errors.")] = False,
    debug: Annotated[bool, typer.Option(console.DEBUG, help="Show where an error came from.")] = False,
) -> None:
    """Ask topics by SQL. Reads what is stored; nothing is acknowledged."""
    del debug  # read by the console

    def work() -> ExitCode:
        try:
            from danube.query.asking import query_of  # noqa: PLC0415 - `--help` needs no DuckDB
        except ImportError as error:
            raise UnsupportedError(
                f"queries need DuckDB, and {error.name} is not installed: {install_text('query')}"
            ) from None
        query = query_of(
            sys.stdin.read() if sql == "-" else sql,
            service_url=service_addr,
            ca_cert=ca_cert,
            token=token,
            since=since,
            until=until,
            folder=folder,
            rows_max=rows,
            read_bytes_max=size_bytes(max_read),
            timeout_s=timeout_s,
        )
        return _run(query, output, SystemClock(), quiet=quiet)

    raise typer.Exit(console.ended(work, PROGRAM))


def _run(query: "Query", output: AnswerFormat, clock: Clock, *, quiet: bool) -> ExitCode:
    """Run the query in a thread, and show how far it is. Ctrl-C ends it."""
    progress = Progress("reading messages", clock, quiet=quiet)
    answered: Future[Answer] = Future()
    threading.Thread(target=_work, args=(query, answered), name="danube-query-cli", daemon=True).start()
    try:
        while not wait([answered], timeout=_PROGRESS_S).done:
            progress.update(query.usage.messages)
    except BaseException:
        query.end()
        raise
    finally:
        progress.close()
    answer = answered.result()
    sys.stdout.write("".join(written(answer, output)))
    if not quiet:
        _report(answer)
    return ExitCode.OK


def _work(query: "Query", answered: "Future[Answer]") -> None:
    try:
        answered.set_result(query.run())
    except BaseException as error:
        answered.set_exception(error)


def _report(answer: "Answer") -> None:
    cut = ", and there are more: --rows shows them" if answer.is_cut else ""
    of = ", ".join(answer.topics[:3]) or "no topic"
    say(
        f"{count_text(answer.table.num_rows, 'row')}{cut}; read {count_text(answer.messages, 'message')}"
        f" ({size_text(answer.read_bytes)}) of {of} in {span_text(answer.elapsed_s)}"
    )
