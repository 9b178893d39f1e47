"""`danube-broker`: read the settings, run one broker until it is told to stop."""

import asyncio
import json
import logging
import os
import signal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from danube import __version__
from danube.broker import storage_cli
from danube.broker.settings import BrokerSettings, load_broker_settings
from danube.model.errors import DanubeError, SettingsError
from danube.model.exit_codes import exit_code_of
from danube.runtime.disk import LocalDisk
from danube.runtime.log import configure_logging
from danube.runtime.settings import ENVIRONMENT_PREFIX, Loaded

if TYPE_CHECKING:
    from danube.broker.app import Addresses

_log = logging.getLogger("danube.broker")

_EPILOG = """Examples:

  danube-broker   (clients on 127.0.0.1:6650, administration on 127.0.0.1:50051, data in ./danube-data)

  danube-broker --data-dir /var/lib/danube --broker-addr 0.0.0.0:6650 --advertised-addr broker1.example:6650

  danube-broker --config-file broker.yml settings --explain

  danube-broker storage verify --data-dir /var/lib/danube   (while the broker does not run)

Each setting can also come from the file or from a variable: --data-dir is data_dir there and DANUBE_DATA_DIR here.

Exit codes: 0 stopped, 1 failed, 2 wrong settings or address in use, 7 data folder cannot be used, 8 stored data is
damaged.
"""

app = typer.Typer(add_completion=True, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=False)
app.add_typer(storage_cli.app, name="storage")


class SettingsFormat(StrEnum):
    """How `danube-broker settings` answers."""

    TEXT = "text"
    JSON = "json"


def _option(text: str, *, hidden: bool = False) -> Any:  # noqa: ANN401 - what typer takes for an option
    return typer.Option(help=text, show_default=False, hidden=hidden)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"danube-broker {__version__}")
        raise typer.Exit


_LATER = "of the original; its feature is not in this version"


@app.callback(invoke_without_command=True, epilog=_EPILOG)
def broker(  # noqa: PLR0917 - one parameter for each flag
    context: typer.Context,
    config_file: Annotated[Path | None, _option("Settings file (YAML), ours or the original's.")] = None,
    mode: Annotated[str | None, _option("standalone.")] = None,
    data_dir: Annotated[Path | None, _option("Folder that holds everything.  [./danube-data]")] = None,
    broker_addr: Annotated[str | None, _option("host:port for clients.  [127.0.0.1:6650]")] = None,
    admin_addr: Annotated[str | None, _option("host:port for administration.  [127.0.0.1:50051]")] = None,
    prom_exporter: Annotated[str | None, _option("host:port for /metrics and /health.  [off]")] = None,
    advertised_addr: Annotated[str | None, _option("host:port others are told to dial.  [broker-addr]")] = None,
    connect_url: Annotated[str | None, _option("host:port of a proxy that clients dial.")] = None,
    durability: Annotated[str | None, _option("fsync, interval or os.  [fsync]")] = None,
    log_level: Annotated[str | None, _option("debug, info, warning or error.  [info]")] = None,
    log_format: Annotated[str | None, _option("text or json.  [text]")] = None,
    ready_file: Annotated[Path | None, _option("Write addresses and pid here, as JSON, once it serves.")] = None,
    raft_addr: Annotated[str | None, _option(_LATER, hidden=True)] = None,
    seed_nodes: Annotated[str | None, _option(_LATER, hidden=True)] = None,
    join: Annotated[bool, typer.Option("--join", help=_LATER, hidden=True)] = False,
    edge_config: Annotated[str | None, _option(_LATER, hidden=True)] = None,
    edge_token: Annotated[str | None, _option(_LATER, hidden=True)] = None,
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True)] = False,
) -> None:
    """Run a Danube broker. Without any flag it starts at once, with nothing else needed."""
    del version
    later = {
        "--raft-addr": raft_addr,
        "--seed-nodes": seed_nodes,
        "--join": join,
        "--edge-config": edge_config,
        "--edge-token": edge_token,
    }
    flags = {
        "mode": mode,
        "data_dir": data_dir,
        "broker_addr": broker_addr,
        "admin_addr": admin_addr,
        "prom_exporter": prom_exporter,
        "advertised_addr": advertised_addr,
        "connect_url": connect_url,
        "durability": durability,
        "log_level": log_level,
        "log_format": log_format,
    }
    try:
        _refuse_later(later, mode)
        loaded = load_broker_settings(config_file, os.environ, flags)
        if context.invoked_subcommand is None:
            run(loaded.settings, ready_file)
        context.obj = loaded
    except DanubeError as error:
        typer.echo(f"danube-broker: {error}", err=True)
        raise typer.Exit(exit_code_of(error)) from None


@app.command("settings")
def show_settings(
    context: typer.Context,
    explain: Annotated[bool, typer.Option("--explain", help="Say what each setting is for.")] = False,
    output: Annotated[SettingsFormat, typer.Option("-o", "--output", help="How to answer.")] = SettingsFormat.TEXT,
) -> None:
    """Print every setting, its value and where that came from. Flags go before the word `settings`."""
    loaded: Loaded[BrokerSettings] = context.obj
    values = loaded.settings.model_dump(mode="json")
    fields = BrokerSettings.model_fields
    if output is SettingsFormat.JSON:
        rows = {
            key: {"value": value, "origin": loaded.origins[key], "description": fields[key].description}
            for key, value in values.items()
        }
        typer.echo(json.dumps(rows, indent=2))
        return
    for key, value in values.items():
        typer.echo(f"{key} = {json.dumps(value)}   ({loaded.origins[key]})")
        if explain:
            typer.echo(f"    {fields[key].description} {ENVIRONMENT_PREFIX}{key.upper()}")


def run(settings: BrokerSettings, ready_file: Path | None) -> None:
    """Run a broker until SIGTERM or SIGINT; both drain it."""
    configure_logging(settings.log_level, settings.log_format)
    asyncio.run(_serve(settings, ready_file))


async def _serve(settings: BrokerSettings, ready_file: Path | None) -> None:
    from danube.broker.app import Broker  # noqa: PLC0415 - `--help` and `settings` need none of a broker's parts

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    broker = await Broker.start(settings)
    try:
        _log.info(
            "danube-broker %s serves clients on %s and administration on %s; metrics: %s; data: %s",
            __version__,
            broker.addresses.broker,
            broker.addresses.admin,
            broker.addresses.metrics or "off (--prom-exporter)",
            settings.data_dir.absolute(),
        )
        if ready_file is not None:
            _tell_ready(ready_file, broker.addresses)
        await stop.wait()
        _log.info("draining")
    finally:
        await broker.stop()
    _log.info("stopped")


def _tell_ready(path: Path, addresses: "Addresses") -> None:
    ready = {
        "broker": addresses.broker,
        "admin": addresses.admin,
        "metrics": addresses.metrics,
        "pid": os.getpid(),
    }
    LocalDisk(path.parent).replace_file(path.name, json.dumps(ready).encode())


def _refuse_later(flags: dict[str, Any], mode: str | None) -> None:
    given = [flag for flag, value in flags.items() if value]
    if mode in {"cluster", "edge"}:
        given.append(f"--mode {mode}")
    if given:
        raise SettingsError(
            f"{given[0]} is a flag of the original whose feature this version does not have yet: leave it out "
            "(one standalone broker is what there is)"
        )


def main() -> None:
    """Entry point of `danube-broker`."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # gRPC tells of every peer that goes, in a format of its own
    app(prog_name="danube-broker")


if __name__ == "__main__":
    main()
