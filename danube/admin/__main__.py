"""`danube-admin`: the command line, and the commands that start the other faces."""

import importlib
import importlib.util
from contextlib import AbstractAsyncContextManager

import typer

from danube.admin.cli.build import build_app
from danube.admin.cli.commands import PROGRAM
from danube.admin.gateway import AdminGateway
from danube.admin.target import Connect, Target

FACES = ("tui", "web", "mcp")
"""Each has `command.py` with `add_commands(app, connect)`, which imports nothing heavy."""


def app(connect: Connect) -> typer.Typer:
    """Everything, on gateways that `connect` opens."""
    built = build_app(connect)
    for face in FACES:
        name = f"danube.admin.{face}.command"
        if importlib.util.find_spec(f"danube.admin.{face}") and importlib.util.find_spec(name):
            importlib.import_module(name).add_commands(built, connect)
    return built


def connect(target: Target) -> AbstractAsyncContextManager[AdminGateway]:
    """A gateway to real brokers."""
    from danube.admin.grpc_gateway import open_gateway  # noqa: PLC0415 - `--help` needs no gRPC

    return open_gateway(target)


def main() -> None:
    """Entry point of `danube-admin`."""
    app(connect)(prog_name=PROGRAM)


if __name__ == "__main__":
    main()
