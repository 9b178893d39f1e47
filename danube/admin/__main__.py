"""`danube-admin`: the command line, and the commands that start the other faces."""

import sys
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from danube import __version__
from danube.runtime import console

if TYPE_CHECKING:
    import typer

    from danube.admin.gateway import AdminGateway
    from danube.admin.target import Connect, Target

PROGRAM = "danube-admin"


def app(connect: "Connect") -> "typer.Typer":
    """Everything, on gateways that `connect` opens."""
    from danube.admin.cli.build import build_app  # noqa: PLC0415 - `--version` needs no operation
    from danube.admin.mcp import command as mcp  # noqa: PLC0415 - as above
    from danube.admin.tui import command as tui  # noqa: PLC0415 - as above
    from danube.admin.web import command as web  # noqa: PLC0415 - as above

    built = build_app(connect)
    tui.add_commands(built, connect)
    web.add_commands(built, connect, mcp.serve_mcp)
    mcp.add_commands(built, connect)
    return built


def connect(target: "Target") -> "AbstractAsyncContextManager[AdminGateway]":
    """A gateway to real brokers."""
    from danube.admin.grpc_gateway import open_gateway  # noqa: PLC0415 - `--help` needs no gRPC

    return open_gateway(target)


def main() -> None:
    """Entry point of `danube-admin`."""
    if sys.argv[1:] == ["--version"]:
        console.write(f"{PROGRAM} {__version__}\n")
        return
    console.main(lambda: app(connect)(prog_name=PROGRAM), PROGRAM)


if __name__ == "__main__":
    main()
