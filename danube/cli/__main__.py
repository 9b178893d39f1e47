"""`danube`: produce and consume from a terminal."""

import os
import secrets
from pathlib import Path
from typing import Annotated

import typer

from danube import __version__
from danube.cli import arguments
from danube.cli.arguments import Access
from danube.cli.connect import app as connect_app
from danube.cli.output import EXIT_CODES, PROGRAM, run, say
from danube.cli.queries.command import EPILOG as _QUERY_EPILOG
from danube.cli.queries.command import query_command
from danube.cli.render import OutputFormat
from danube.cli.schema import app as schema_app
from danube.model.errors import DanubeError, InvalidRequestError
from danube.model.exit_codes import ExitCode, exit_code_of
from danube.model.limits.faces import CLI_CONNECT_TIMEOUT_S, CLI_RETRY_TOTAL_S
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy
from danube.runtime import console
from danube.runtime.paths import PATH_FLAG

app = typer.Typer(
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)

app.add_typer(schema_app, name="schema")
app.add_typer(connect_app, name="connect")
app.command("query", epilog=_QUERY_EPILOG)(query_command)

_EPILOG = f"""Examples:

  danube produce -t /default/orders -m 'hello'

  danube consume -t /default/orders -s billing --count 1

Connecting: --service-addr or DANUBE_SERVICE_ADDR says where the broker is.

{EXIT_CODES}
"""

_PRODUCE_EPILOG = f"""Examples:

  danube produce -t /default/orders orders.jsonl

  generate | danube produce -t /default/orders -a source=web

  danube produce -t /default/orders -m tick --count 100 --interval 500

  danube produce -t /default/orders --schema-file order.avsc --schema-type avro orders.jsonl

  danube consume -t /default/orders --exit-at-end -o json | danube produce -t /default/copy --json

{EXIT_CODES}
"""

_CONSUME_EPILOG = f"""Examples:

  danube consume -t /default/orders -s billing

  danube consume -t /default/orders -s billing -o raw --count 1000 --idle-timeout-s 5 > orders.jsonl

  danube consume -t /default/orders --start earliest --exit-at-end   (reads without a subscription)

  danube consume -t /default/orders -s billing --count 0   (creates the subscription, receives nothing)

A message is acknowledged after it was written to standard output and flushed.

{EXIT_CODES}
"""

_BENCH_EPILOG = f"""Examples:

  danube bench --messages 1000000 --size 100

  danube bench produce --compression zstd

  danube bench --rate 1000 --messages 30000

  danube bench --messages 20000 --compare nats://127.0.0.1:4222 --compare kafka://127.0.0.1:9092

{EXIT_CODES}
"""

DEFAULT_ADDR = "http://127.0.0.1:6650"

ServiceAddr = Annotated[
    str, typer.Option("--service-addr", envvar="DANUBE_SERVICE_ADDR", help="Broker: http://host:port.")
]
Topic = Annotated[str, typer.Option("-t", "--topic", help="Topic: /namespace/name.")]
CaCert = Annotated[
    str | None, typer.Option("--ca-cert", envvar="DANUBE_CA_CERT", help="Connect over TLS and trust this authority.")
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="DANUBE_TOKEN",
        help="Token of the caller; needs TLS.",
        show_envvar=True,
        callback=console.warn_of_token(PROGRAM, "DANUBE_TOKEN"),
    ),
]
ConnectTimeout = Annotated[
    float,
    typer.Option("--connect-timeout-s", **console.duration_flag(0.1), help="Give up on a broker that never answered."),
]
RetryFor = Annotated[
    float, typer.Option("--retry-for-s", **console.duration_flag(0.1), help="Give up on a broker that went away.")
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Say nothing but errors.")]
Debug = Annotated[bool, typer.Option(console.DEBUG, help="Show where an error came from.")]


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"danube {__version__}")
        raise typer.Exit


@app.callback(epilog=_EPILOG)
def danube(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Send messages to Danube topics and receive them."""
    del version


@app.command("produce", epilog=_PRODUCE_EPILOG)
def produce_command(
    *,
    lines_of: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE|-]",
            **PATH_FLAG,
            help="One message a line, its bytes kept; standard input without FILE.",
            show_default=False,
        ),
    ] = None,
    service_addr: Annotated[
        str, typer.Option("-s", "--service-addr", envvar="DANUBE_SERVICE_ADDR", help="Broker: http://host:port.")
    ] = DEFAULT_ADDR,
    topic: Topic,
    message: Annotated[str | None, typer.Option("-m", "--message", help="Send this instead of lines.")] = None,
    whole_file: Annotated[
        Path | None,
        typer.Option("-f", "--file", **PATH_FLAG, help="Send this file as one message."),
    ] = None,
    count: Annotated[int, typer.Option("-c", "--count", min=1, help="Send the message this often.")] = 1,
    interval: Annotated[int, typer.Option("-i", "--interval", min=0, help="Pause between messages, ms.")] = 0,
    reliable: Annotated[
        bool,
        typer.Option(
            "-y/ ",
            "--reliable/--non-reliable",
            help="How the topic delivers, as with danube-admin; a topic that is there must agree.",
            show_default="reliable",
        ),
    ] = True,
    producer_name: Annotated[str, typer.Option("-n", "--producer-name", help="Name of the producer.")] = "danube-cli",
    attributes: Annotated[
        list[str] | None, typer.Option("-a", "--attribute", "--attributes", help="key=value, on every message.")
    ] = None,
    key: Annotated[str | None, typer.Option("-k", "--key", help="Routing key of every message.")] = None,
    is_json: Annotated[
        bool,
        typer.Option("--json", help="Each line is an object as `consume -o json` writes it: payload, routing_key, ..."),
    ] = False,
    partitions: Annotated[
        int | None,
        typer.Option(
            "-p", "--partitions", min=0, help="Of a new topic; 0 is a plain one. A topic that is there has its own."
        ),
    ] = None,
    unordered: Annotated[
        bool,
        typer.Option(
            "--unordered",
            help="Faster where the broker takes single messages only, or the topic is not reliable: messages may "
            "overtake one another. Elsewhere it changes nothing: fast and in order.",
        ),
    ] = False,
    schema_file: Annotated[
        Path | None,
        typer.Option("--schema-file", **PATH_FLAG, help="Register this definition, and write with it."),
    ] = None,
    schema_type: Annotated[
        str | None,
        typer.Option("--schema-type", metavar="avro|json_schema|protobuf|string|number|bytes", help="Its language."),
    ] = None,
    schema_subject: Annotated[
        str | None,
        typer.Option("--schema-subject", help="Its subject; without a file, write with the latest version of it."),
    ] = None,
    ca_cert: CaCert = None,
    token: Token = None,
    connect_timeout_s: ConnectTimeout = CLI_CONNECT_TIMEOUT_S,
    retry_for_s: RetryFor = CLI_RETRY_TOTAL_S,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Send messages, one a line, in order. Reliable by default: done means that the broker has stored them all."""
    del debug  # read where errors are shown
    from danube.cli.produce import ProduceRequest, run_produce  # noqa: PLC0415 - `--help` needs no gRPC

    try:
        _check_sources(lines_of, message, whole_file, count)
        if is_json and (message is not None or whole_file is not None):
            raise InvalidRequestError("--json is about lines: leave out --message and --file")
        request = ProduceRequest(
            topic=topic,
            lines_of=lines_of,
            message=None if message is None else message.encode("utf-8", "surrogateescape"),
            whole_file=whole_file,
            count=count,
            interval_s=interval / 1000,
            strategy=DispatchStrategy.RELIABLE if reliable else DispatchStrategy.NON_RELIABLE,
            producer_name=producer_name,
            attributes=arguments.attributes(attributes or []),
            partitions=partitions,
            key=key,
            is_json=is_json,
            unordered=unordered,
            schema=arguments.schema_source(schema_file, schema_type, schema_subject),
            quiet=quiet,
        )
    except DanubeError as error:
        raise _usage(error) from None
    access = Access(
        service_addr=service_addr,
        ca_cert=ca_cert,
        token=token,
        connect_timeout_s=connect_timeout_s,
        retry_for_s=retry_for_s,
    )
    run(run_produce(access, request))


@app.command("consume", epilog=_CONSUME_EPILOG)
def consume_command(
    *,
    service_addr: ServiceAddr = DEFAULT_ADDR,
    topic: Topic,
    subscription: Annotated[
        list[str] | None,
        typer.Option(
            "-s",
            "-m",
            "--subscription",
            help="Subscription; created at the end of the topic if new. Without one, stored messages are read as they "
            "are, and nothing is acknowledged.",
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--start", help="Without a subscription, the first message: earliest, latest, an offset, a time."),
    ] = None,
    exit_at_end: Annotated[
        bool, typer.Option("--exit-at-end", help="Stop after the newest message that was stored at the start.")
    ] = False,
    sub_type: Annotated[
        str, typer.Option("--sub-type", metavar="exclusive|shared|failover|key-shared", help="Who else may receive.")
    ] = "shared",
    consumer_name: Annotated[
        str | None,
        typer.Option("-n", "--consumer", "--consumer-name", help="Name of the consumer; one of its own by default."),
    ] = None,
    count: Annotated[int | None, typer.Option("-c", "--count", min=0, help="Stop after this many.")] = None,
    no_ack: Annotated[bool, typer.Option("--no-ack", help="Acknowledge nothing; the messages come again.")] = False,
    output: Annotated[OutputFormat, typer.Option("-o", "--output", help="How to write.")] = OutputFormat.TEXT,
    idle_timeout_s: Annotated[
        float | None,
        typer.Option("--idle-timeout-s", **console.duration_flag(), help="Stop when nothing came for so long."),
    ] = None,
    ca_cert: CaCert = None,
    token: Token = None,
    connect_timeout_s: ConnectTimeout = CLI_CONNECT_TIMEOUT_S,
    retry_for_s: RetryFor = CLI_RETRY_TOTAL_S,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write a subscription's messages to standard output and acknowledge them, until Ctrl-C."""
    del debug  # as above
    from danube.cli.consume import ConsumeRequest, run_consume  # noqa: PLC0415 - `--help` needs no gRPC

    try:
        service_addr, name = arguments.address_and_subscription(service_addr, subscription or [])
        first = arguments.first_message(start, topic, name)
        kind = arguments.subscription_type(sub_type)
    except DanubeError as error:
        raise _usage(error) from None
    request = ConsumeRequest(
        topic=topic,
        subscription=name,
        consumer_name=consumer_name or _consumer_name(kind),
        sub_type=kind,
        count=count,
        idle_timeout_s=idle_timeout_s,
        acknowledge=not no_ack,
        output=output,
        start=first,
        exit_at_end=exit_at_end,
        quiet=quiet,
    )
    access = Access(
        service_addr=service_addr,
        ca_cert=ca_cert,
        token=token,
        connect_timeout_s=connect_timeout_s,
        retry_for_s=retry_for_s,
    )
    run(run_consume(access, request))


@app.command("bench", epilog=_BENCH_EPILOG)
def bench_command(  # noqa: PLR0917 - one parameter for each flag
    part: Annotated[str, typer.Argument(metavar="produce|consume|end-to-end", help="What to measure.")] = "end-to-end",
    service_addr: ServiceAddr = DEFAULT_ADDR,
    topic: Topic = "/default/danube-bench",
    messages: Annotated[int, typer.Option("--messages", min=1, max=100_000_000, help="How many.")] = 100_000,
    size: Annotated[int, typer.Option("--size", help="Bytes of each.")] = 1_024,
    rate: Annotated[int, typer.Option("--rate", min=0, help="Messages a second; 0: as fast as they go.")] = 0,
    compression: Annotated[str, typer.Option("--compression", metavar="lz4|zstd|none", help="Of batches.")] = "none",
    single_calls: Annotated[bool, typer.Option("--single-calls", help="Receive by one call for each message.")] = False,
    others: Annotated[
        list[str] | None,
        typer.Option("--compare", metavar="URL", help="Beside kafka://, nats:// or redis://host:port; may repeat."),
    ] = None,
) -> None:
    """Measure a broker: messages a second, percentiles of latency, loss and order. The topic stays."""
    from danube.cli.bench import BenchRequest, Part, run_bench, run_comparison  # noqa: PLC0415 - `--help` needs no gRPC

    if part not in list(Part):
        raise _usage(InvalidRequestError(f"{part!r} cannot be measured: use {', '.join(Part)}"))
    request = BenchRequest(
        part=Part(part),
        topic=topic,
        messages=messages,
        size=size,
        rate=rate,
        streams=not single_calls,
        compression=compression,
    )
    access = Access(service_addr=service_addr)

    async def work() -> ExitCode:
        if others:
            for line in await run_comparison(access, request, others):
                typer.echo(line)
            return ExitCode.OK
        report, code = await run_bench(access, request)
        for line in report.lines():
            typer.echo(line)
        return code

    run(work())


def _usage(error: DanubeError) -> typer.Exit:
    say(str(error))
    return typer.Exit(exit_code_of(error))


def _check_sources(lines_of: Path | None, message: str | None, whole_file: Path | None, count: int) -> None:
    given = [
        word
        for word, value in (("FILE", lines_of), ("--message", message), ("--file", whole_file))
        if value is not None
    ]
    if len(given) > 1:
        raise InvalidRequestError(f"{' and '.join(given)} exclude each other: give one of them")
    for path in (lines_of, whole_file):
        if path is not None and path != Path("-") and (path.is_dir() or not path.exists()):
            raise InvalidRequestError(f"there is no file {path}: check the path")
    if count != 1 and message is None and whole_file is None:
        raise InvalidRequestError("--count repeats one message: give it with --message or --file")


def _consumer_name(kind: SubscriptionType) -> str:
    """A name for each process: a second exclusive consumer is refused, instead of taking the place of the first."""
    del kind
    return f"danube-cli-{os.getpid()}-{secrets.token_hex(2)}"


def main() -> None:
    """Entry point of `danube`."""
    console.main(lambda: app(prog_name=PROGRAM), PROGRAM)


if __name__ == "__main__":
    main()
