"""`danube-broker certs`: certificates for trying security out."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from danube.model.exit_codes import ExitCode
from danube.offline.cli_options import end
from danube.runtime.paths import PATH_FLAG

_EPILOG = """Examples:

  danube-broker certs init certs

  danube-broker certs init certs --broker broker-1 --host broker-1.example --host 10.0.0.1 --client orders

A CA that is in the folder signs the new certificates, so the command can be repeated for further brokers and clients.
"""

app = typer.Typer(
    help="Make a CA and certificates of brokers and clients, for trying security out.",
    epilog=_EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def certs() -> None:
    """Make a CA and certificates of brokers and clients, for trying security out."""


@app.command("init")
def init(
    folder: Annotated[Path, typer.Argument(**PATH_FLAG, help="Where the files are written.")],
    broker: Annotated[str, typer.Option("--broker", help="Common name of the broker's certificate.")] = "broker",
    host: Annotated[
        list[str] | None, typer.Option("--host", help="Host that the broker is dialled by; repeat for more.")
    ] = None,
    client: Annotated[
        list[str] | None, typer.Option("--client", help="Common name of a client's certificate; repeat for more.")
    ] = None,
    days: Annotated[int, typer.Option("--days", min=1, max=3_650, help="Days for which they count.")] = 365,
) -> None:
    """Write ca.pem, and a certificate with its key for a broker and for each client."""

    def work() -> ExitCode:
        from danube.security.certificate_authority import Subject, make_authority  # noqa: PLC0415 - `--help` needs none

        subjects = [Subject(broker, broker, tuple(host or ("localhost", "127.0.0.1")))]
        subjects += [Subject(name, name) for name in client or ()]
        for path in make_authority(folder, subjects, now=datetime.now(UTC), days=days):
            typer.echo(f"wrote {path}")
        typer.echo(
            f"Next: DANUBE_AUTH_MODE=tls DANUBE_AUTH_TLS_CERT={folder / broker}.pem"
            f" DANUBE_AUTH_TLS_KEY={folder / broker}.key DANUBE_AUTH_TLS_CA={folder / 'ca.pem'}, and the secret"
            " of tokens in DANUBE_AUTH_JWT_SECRET_FILE (openssl rand -hex 32)"
        )
        return ExitCode.OK

    end(work)
