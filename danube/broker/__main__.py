"""`danube-broker`: read the settings, run one broker until it is told to stop."""

import asyncio
import json
import logging
import os
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from danube import __version__
from danube.broker.config.settings import BrokerSettings, load_broker_settings
from danube.model.errors import DamagedDataError, DanubeError, DataFolderInUseError, SettingsError, UnavailableError
from danube.model.exit_codes import exit_code_of
from danube.offline import certificates_cli
from danube.offline.metadata import metadata_cli
from danube.offline.storage import storage_cli
from danube.runtime import console
from danube.runtime.paths import PATH_FLAG
from danube.runtime.process import configure_logging, on_end, run_loop, settle_memory
from danube.runtime.ready_file import ReadyFile
from danube.runtime.rng import SystemRng
from danube.runtime.settings import Loaded, fields_of, values_of, variable_of
from danube.runtime.tasks import TaskScope
from danube.storage.damage import with_data_folder

if TYPE_CHECKING:
    from danube.broker.app import Broker
    from danube.broker.environment import Addresses

_log = logging.getLogger("danube.broker")

_EPILOG = """Examples:

  danube-broker   (clients on 127.0.0.1:6650, administration on 127.0.0.1:50051, data in ./danube-data)

  danube-broker --data-dir /var/lib/danube --broker-addr 0.0.0.0:6650 --advertised-addr broker1.example:6650

  danube-broker --config-file broker.yml settings --explain

  DANUBE_META_STORE_SECRET_FILE=secret danube-broker --seed-nodes h1:7650,h2:7650,h3:7650 --raft-addr h1:7650
  (on h1, one of three)

  danube-broker --meta-store-type etcd   (brokers that share an etcd on 127.0.0.1:2379)

  danube-broker --meta-store-type etcd --storage-mode shared_fs --storage-folder /mnt/danube
  (the others serve the topics of a broker that dies)

  danube-broker storage verify --data-dir /var/lib/danube   (while the broker does not run)

Each setting can also come from the file or from a variable: --data-dir is data_dir there and DANUBE_DATA_DIR here;
meta_store.secret_file is nested in the file, and DANUBE_META_STORE_SECRET_FILE here. `settings --explain` names all.

Exit codes: 0 stopped, 1 failed, 2 wrong settings or address in use, 6 refused: the cluster knows this broker at another
Raft address, 7 data folder cannot be used or is in use, 8 stored data is damaged.
"""

app = typer.Typer(
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(storage_cli.app, name="storage")
app.add_typer(metadata_cli.app, name="metadata")
app.add_typer(certificates_cli.app, name="certs")


class SettingsFormat(StrEnum):
    """The output format of `danube-broker settings`."""

    TEXT = "text"
    JSON = "json"


def _option(text: str, *, hidden: bool = False) -> Any:  # noqa: ANN401 - what typer takes for an option
    return typer.Option(help=text, show_default=False, hidden=hidden)


def _path_option(text: str) -> Any:  # noqa: ANN401 - as above
    return typer.Option(help=text, show_default=False, **PATH_FLAG)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"danube-broker {__version__}")
        raise typer.Exit


_LATER = "of the original; its feature is not in this version"


@app.callback(invoke_without_command=True, epilog=_EPILOG)
def broker(  # noqa: PLR0917 - one parameter for each flag
    context: typer.Context,
    config_file: Annotated[Path | None, _path_option("Settings file (YAML), ours or the original's.")] = None,
    mode: Annotated[str | None, _option("standalone, or cluster: one of several.  [as the metadata is kept]")] = None,
    data_dir: Annotated[Path | None, _path_option("Folder that holds everything.  [./danube-data]")] = None,
    broker_addr: Annotated[str | None, _option("host:port for clients.  [127.0.0.1:6650]")] = None,
    admin_addr: Annotated[str | None, _option("host:port for administration.  [127.0.0.1:50051]")] = None,
    prom_exporter: Annotated[str | None, _option("host:port for /metrics and /health.  [off]")] = None,
    advertised_addr: Annotated[str | None, _option("host:port others are told to dial.  [broker-addr]")] = None,
    connect_url: Annotated[str | None, _option("host:port of a proxy that clients dial.")] = None,
    durability: Annotated[str | None, _option("fsync, interval or os.  [fsync]")] = None,
    rpc_engine: Annotated[str | None, _option("http2 or grpc: carrier of calls.  [http2]")] = None,
    log_level: Annotated[str | None, _option("debug, info, warning or error.  [info]")] = None,
    log_format: Annotated[str | None, _option("text or json.  [text]")] = None,
    ready_file: Annotated[Path | None, _path_option("Write addresses and pid here, as JSON, while it serves.")] = None,
    meta_store_type: Annotated[
        str | None, _option("What keeps the metadata: raft, etcd, zookeeper or memory.  [raft]")
    ] = None,
    raft_addr: Annotated[str | None, _option("Raft: host:port for the other brokers.  [127.0.0.1:7650]")] = None,
    seed_nodes: Annotated[
        str | None, _option("Raft: addresses of all brokers that form the cluster, with commas between.")
    ] = None,
    join: Annotated[bool, typer.Option("--join", help="Raft: wait to be added to a cluster that is there.")] = False,
    storage_mode: Annotated[str | None, _option("local, shared_fs or object_store.  [local]")] = None,
    storage_folder: Annotated[Path | None, _path_option("The shared folder of shared_fs.")] = None,
    object_store_url: Annotated[str | None, _option("The bucket of object_store: s3://bucket/prefix.")] = None,
    object_store_endpoint: Annotated[str | None, _option("URL of a store that speaks S3; AWS when not set.")] = None,
    edge_config: Annotated[str | None, _option(_LATER, hidden=True)] = None,
    edge_token: Annotated[str | None, _option(_LATER, hidden=True)] = None,
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True)] = False,
) -> None:
    """Run a Danube broker. Without any flag it starts at once, with nothing else needed."""
    del version
    later = {
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
        "rpc_engine": rpc_engine,
        "log_level": log_level,
        "log_format": log_format,
        "meta_store.type": meta_store_type,
        "meta_store.raft_addr": raft_addr,
        "meta_store.seed_nodes": seed_nodes.split(",") if seed_nodes else None,
        "meta_store.join": join or None,
        "storage.mode": storage_mode,
        "storage.folder": storage_folder,
        "object_store.url": object_store_url,
        "object_store.endpoint": object_store_endpoint,
    }
    try:
        with ReadyFile(ready_file if context.invoked_subcommand is None else None) as ready:
            _refuse_later(later, mode)
            loaded = load_broker_settings(config_file, os.environ, flags)
            for warning in loaded.warnings:
                typer.echo(f"danube-broker: warning: {warning}", err=True)
            if context.invoked_subcommand is None:
                run(loaded.settings, ready)
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
    values, fields = values_of(loaded.settings), fields_of(BrokerSettings)
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
            typer.echo(f"    {fields[key].description} {variable_of(key)}")


def run(settings: BrokerSettings, ready: ReadyFile) -> None:
    """Run a broker until SIGTERM, SIGINT or SIGHUP; each drains it."""
    folder = str(settings.data_dir.absolute())
    configure_logging(settings.log_level, settings.log_format, lambda text: with_data_folder(text, folder))
    try:
        run_loop(_serve(settings, ready), settings.event_loop)
    except DamagedDataError as error:
        raise DamagedDataError(with_data_folder(str(error), folder)) from error


async def _serve(settings: BrokerSettings, ready: ReadyFile) -> None:
    stop, starting = asyncio.Event(), asyncio.current_task()

    def end() -> None:
        if starting is not None and not stop.is_set():
            starting.cancel()  # a start may wait for other brokers of the cluster
        stop.set()

    on_end(end)
    is_fenced, is_again = True, False
    while is_fenced and not stop.is_set():
        starting = asyncio.current_task()
        try:
            broker = await _start(settings, is_again=is_again)
        except asyncio.CancelledError:
            if not stop.is_set():
                raise
            _log.info("stopped before it served: what it waited for did not come")
            return
        starting = None
        await _run_until_end(broker, settings, ready, stop)
        is_fenced = is_again = broker.fenced.is_set()
        if is_fenced:
            _log.warning("others have taken over the topics of this broker: it starts again, without them")
            settings = at_addresses(settings, broker.addresses)  # which clients and other brokers know


async def _start(settings: BrokerSettings, *, is_again: bool) -> "Broker":
    """Start a broker. One that starts itself again waits for a store that does not answer, as a running one does."""
    from danube.broker.app import Broker  # noqa: PLC0415 - `--help` and `settings` need none of a broker's parts
    from danube.objects.retrying import next_wait_s  # noqa: PLC0415 - as above

    rng, wait_s = SystemRng(), 0.0
    while True:
        try:
            return await Broker.start(settings)
        except UnavailableError as error:
            if not is_again:
                raise
            wait_s = next_wait_s(wait_s, rng.uniform(0.0, 1.0))
            _log.warning("this broker cannot start again yet, and tries in %.1f s: %s", wait_s, error)
            await asyncio.sleep(wait_s)


def at_addresses(settings: BrokerSettings, addresses: "Addresses") -> BrokerSettings:
    """The settings with the ports that a start has picked, in place of port 0."""
    picked = {"broker_addr": addresses.broker, "admin_addr": addresses.admin, "prom_exporter": addresses.metrics}
    return settings.model_copy(update=picked)


async def _run_until_end(broker: "Broker", settings: BrokerSettings, ready: ReadyFile, stop: asyncio.Event) -> None:
    """Serve until the end is asked for, or the broker cannot go on. Raises DataFolderInUseError when it is replaced."""
    from danube.broker.config.values import advertised_urls  # noqa: PLC0415 - as above

    settle_memory()
    try:
        _log.info(
            "danube-broker %s serves clients on %s, who are told to dial %s, and administration on %s; metrics: %s; "
            "data: %s",
            __version__,
            broker.addresses.broker,
            advertised_urls(settings, broker.addresses.broker)[1],
            broker.addresses.admin,
            broker.addresses.metrics or "off (--prom-exporter)",
            settings.data_dir.absolute(),
        )
        ready.write({**asdict(broker.addresses), "pid": os.getpid()})
        await _first(stop, broker.replaced, broker.fenced)
        ready.remove()  # a reader of it finds no broker that drains
        _log.info("draining")
    finally:
        await broker.stop()
    if broker.replaced.is_set():
        raise DataFolderInUseError(
            f"another process took the place of this broker: is {settings.data_dir} a copy of a folder in use?"
        )
    _log.info("stopped")


async def _first(*events: asyncio.Event) -> None:
    """Return once one of them is set."""
    tasks = TaskScope("wait")
    try:
        waits = [tasks.spawn(event.wait(), "event") for event in events]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await tasks.close()


def _refuse_later(flags: dict[str, Any], mode: str | None) -> None:
    given = [flag for flag, value in flags.items() if value]
    if mode == "edge":
        given.append(f"--mode {mode}")
    if given:
        raise SettingsError(
            f"{given[0]} is a flag of the original whose feature this version does not have yet: leave it out"
        )


def main() -> None:
    """Entry point of `danube-broker`."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # gRPC logs every disconnect in a format of its own
    console.main(lambda: app(prog_name="danube-broker"), "danube-broker", debug=True)


if __name__ == "__main__":
    main()
