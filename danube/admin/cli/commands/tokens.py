"""`danube-admin security tokens create` and `validate`: tokens of a secret, made and read without a broker."""

import os
import secrets
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from danube.admin.cli.output.help_text import EXIT_CODES
from danube.admin.cli.typer_classes import AdminCommand
from danube.admin.present import printable
from danube.model.errors import InvalidRequestError, SettingsError, UnauthenticatedError
from danube.model.limits.security import SECRET_FILE_BYTES_MAX, TOKEN_BYTES_MAX
from danube.model.security.principal import PrincipalKind, PrincipalName, TokenScope
from danube.model.text import span_s, span_text, time_of
from danube.runtime import console
from danube.runtime.paths import PATH_FLAG

NOUN = ("security", "tokens")
SECRET_VARIABLE = "DANUBE_JWT_SECRET_KEY"  # noqa: S105 - the name of a variable
_VISIBLE = (
    "warning: processes of this machine and the shell's history show what --secret-key has: use --secret-file, or"
    f" {SECRET_VARIABLE}"
)
_TTL_S_MAX = 100 * 366 * 86_400

SecretFile = Annotated[
    Path | None,
    typer.Option(
        "--secret-file",
        metavar="FILE",
        **PATH_FLAG,
        help=f"File with the secret, or as auth.jwt_secret_file has it; else {SECRET_VARIABLE}, else it is asked for.",
    ),
]
SecretKey = Annotated[
    str | None,
    typer.Option("--secret-key", metavar="SECRET", help="The secret itself, as in the original: others may see it."),
]
Issuer = Annotated[str, typer.Option("--issuer", metavar="NAME", help="Issuer, as auth.jwt_issuer.")]


def add_commands(app: typer.Typer) -> None:
    """Add them to the group of their noun."""
    app.info.help = "Create, validate and revoke."
    app.command("create", cls=AdminCommand, epilog=EXIT_CODES)(create_command)
    app.command("validate", cls=AdminCommand, epilog=EXIT_CODES)(validate_command)


def create_command(
    *,
    subject: Annotated[str, typer.Option("--subject", metavar="NAME", help="The principal that its bearer is.")],
    secret_file: SecretFile = None,
    secret_key: SecretKey = None,
    ttl: Annotated[str, typer.Option("--ttl", help="How long it counts: 12h, 30d, 2w, or seconds.")] = "8760h",
    kind: Annotated[
        str, typer.Option("--type", metavar="user|service_account", help="The kind of principal.")
    ] = "service_account",
    issuer: Issuer = "danube-auth",
    audience: Annotated[str, typer.Option("--audience", help="Audience, as auth.jwt_audience.")] = "",
    scope: Annotated[
        TokenScope, typer.Option("--scope", metavar="observer|operator|admin", help="The most that it may do.")
    ] = TokenScope.ADMIN,
    token_id: Annotated[str | None, typer.Option("--id", help="Its id, to revoke it by; a random one without.")] = None,
) -> None:
    """Print a token, and nothing else. No broker is asked: whoever has the secret can make any token."""
    from danube.security.tokens import TokenClaims, issue  # noqa: PLC0415 - `--help` needs no cryptography

    now_s = datetime.now(UTC).timestamp()
    claims = TokenClaims(
        principal=PrincipalName(_kind(kind), subject),
        expires_s=now_s + lifetime_s(ttl),
        issuer=issuer,
        issued_s=now_s,
        token_id=token_id or secrets.token_hex(8),
        scope=scope,
        audience=audience,
    )
    key_id, secret = secret_of(secret_file, secret_key, os.environ)
    console.write(issue(claims, secret, key_id=key_id) + "\n")


def validate_command(
    *,
    token: Annotated[
        str | None, typer.Option("--token", metavar="TOKEN", help="The token itself, as in the original.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", **PATH_FLAG, help="File with the token; else it is read."),
    ] = None,
    secret_file: SecretFile = None,
    secret_key: SecretKey = None,
    issuer: Issuer = "danube-auth",
) -> None:
    """Show what a token says.

    The token comes from --token, --token-file, DANUBE_ADMIN_TOKEN or standard input. It has to count now, with this
    secret.
    """
    from danube.security import tokens  # noqa: PLC0415 - as above

    now_s = datetime.now(UTC).timestamp()
    key_id, secret = secret_of(secret_file, secret_key, os.environ)
    rules = tokens.TokenRules(keys=(tokens.secret_key(secret, key_id),), issuer=issuer)
    try:
        principal = rules.verify(token or _token(token_file), now_s)
    except UnauthenticatedError as error:
        raise InvalidRequestError(f"the token does not count: {error}") from None
    left_s = max(0, int((principal.expires_s or now_s) - now_s))
    lines = {
        "Subject": principal.id.name,
        "Type": str(principal.id.kind),
        "Scope": str(principal.scope),
        "Id": principal.token_id or "none: it cannot be revoked by itself",
        "Issuer": issuer,
        "Expires": time_of(1_000 * (principal.expires_s or now_s)),
        "Remaining": span_text(left_s),
    }
    console.write("".join(f"{name + ':':<11}{printable(value)}\n" for name, value in lines.items()))


def lifetime_s(ttl: str) -> int:
    """Seconds of a time to live. Raises InvalidRequestError."""
    seconds = span_s(ttl)
    if not 0 < seconds <= _TTL_S_MAX:
        raise InvalidRequestError(f"{ttl[:40]!r} is no time to live: give 1s to {_TTL_S_MAX // 86_400}d")
    return seconds


def secret_of(file: Path | None, given: str | None, environ: Mapping[str, str]) -> tuple[str, bytes]:
    """Key id, empty for none, and secret: of a file's first line, a flag, a variable, or what a person types unseen."""
    if given is not None:
        console.say(_VISIBLE, "danube-admin")
        return "", given.encode()
    if file is not None:
        first = next(iter(_read(file).split()), b"")
        key_id, _, secret = first.rpartition(b":")
        return key_id.decode(errors="replace"), secret
    if named := environ.get(SECRET_VARIABLE):
        return "", named.encode()
    if not sys.stdin.isatty():
        raise SettingsError(f"no secret: name its file with --secret-file, or set {SECRET_VARIABLE}")
    return "", str(typer.prompt("Secret of tokens", hide_input=True, err=True)).encode()


def _token(file: Path | None) -> str:
    if file is not None:
        return _read(file).decode(errors="replace").strip()
    if given := os.environ.get("DANUBE_ADMIN_TOKEN"):
        return given
    if sys.stdin.isatty():
        return str(typer.prompt("Token", hide_input=True, err=True))
    return sys.stdin.read(TOKEN_BYTES_MAX + 1).strip()


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(SECRET_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from None
    if len(content) > SECRET_FILE_BYTES_MAX:
        raise SettingsError(f"{path} is larger than {SECRET_FILE_BYTES_MAX} bytes: it holds no secret and no token")
    return content


def _kind(word: str) -> PrincipalKind:
    if word == PrincipalKind.USER:
        return PrincipalKind.USER
    if word == PrincipalKind.SERVICE_ACCOUNT:
        return PrincipalKind.SERVICE_ACCOUNT
    raise InvalidRequestError(f"{word[:40]!r} is no kind of principal: user or service_account")
