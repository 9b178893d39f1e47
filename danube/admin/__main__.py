"""`danube-admin`: the command line, and the commands that start the other faces."""

from contextlib import AbstractAsyncContextManager

import typer

from danube.admin.cli.build import build_app
from danube.admin.gateway import AdminGateway
from danube.admin.mcp import command as mcp
from danube.admin.target import PROGRAM, Connect, Target
from danube.admin.tui import command as tui
from danube.admin.web import command as web
from danube.runtime import console


def app(connect: Connect) -> typer.Typer:
    """Everything, on gateways that `connect` opens."""
    built = build_app(connect)
    tui.add_commands(built, connect)
    web.add_commands(built, connect, mcp.serve_mcp)
    mcp.add_commands(built, connect)
    return built


def connect(target: Target) -> AbstractAsyncContextManager[AdminGateway]:
    """A gateway to real brokers."""
    from danube.admin.grpc_gateway import open_gateway  # noqa: PLC0415 - `--help` needs no gRPC

    return open_gateway(target)


def main() -> None:
    """Entry point of `danube-admin`."""
    console.main(lambda: app(connect)(prog_name=PROGRAM), PROGRAM)


if __name__ == "__main__":
    main()
