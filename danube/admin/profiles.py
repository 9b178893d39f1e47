"""Contexts: named clusters in a file of the user's; and which cluster a face speaks to, from all there is.

Flags stand over variables, these over a context, and that over the defaults. Two rules keep a command from the wrong
cluster: whoever names an endpoint and no context gets nothing of the current one, its token least of all; and what a
context named with `--context` says stands over variables too. A context that pins an access level, or who has to
approve, can be made stricter by flags and variables and never looser.
"""

import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from danube.admin.access import AccessLevel, ApprovalMode, Guard
from danube.admin.target import DEFAULT_ENDPOINT, Colour, Target
from danube.model.errors import NotFoundError, SettingsError
from danube.model.limits.broker import (
    ADMIN_CALL_TIMEOUT_MAX_S,
    ADMIN_CALL_TIMEOUT_S,
    CONTEXT_FILE_BYTES_MAX,
    TOKEN_CHARS_MAX,
)
from danube.model.limits.faces import ENDPOINTS_MAX
from danube.runtime.disk import LocalDisk
from danube.runtime.paths import expanded, user_folder
from danube.runtime.settings import read_settings_file

E = TypeVar("E", bound=StrEnum)

_NAME = re.compile(r"[\w.-]{1,100}")
_READABLE_BY_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_PORT = urlsplit(DEFAULT_ENDPOINT).port
_APPROVAL_STRICTNESS = (ApprovalMode.NONE, ApprovalMode.DESTROY, ApprovalMode.MOVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFlags:
    """Flags of the command line; None where it said nothing."""

    endpoint: str | None = None
    context: str | None = None
    access: AccessLevel | None = None
    approval: ApprovalMode | None = None
    timeout_s: float | None = None
    config_file: Path | None = None
    """The file of contexts, another than the usual one."""
    yes: bool = False


class Context(BaseModel):
    """A named cluster: how to reach it, and what may be done there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    endpoint: str = Field(
        description="`http://host:port` or `https://host:port` of a broker's admin port; several with commas between."
    )
    tls: bool = Field(default=False, description="Use TLS; an `https://` endpoint does too.")
    ca: Path | None = Field(default=None, description="PEM file of who is trusted; the system's without it.")
    cert: Path | None = Field(default=None, description="PEM file of the client's certificate.")
    key: Path | None = Field(default=None, description="PEM file of its key.")
    domain: str | None = Field(default=None, description="The name in the broker's certificate, if not the host.")
    token_file: Path | None = Field(default=None, description="File that holds the token.")
    token_env: str | None = Field(default=None, description="Variable that holds the token.")
    token: SecretStr | None = Field(default=None, description="The token itself; prefer token_file or token_env.")
    access: AccessLevel | None = Field(default=None, description="The most that may be done: read, write or destroy.")
    approval: ApprovalMode | None = Field(
        default=None, description="Which plans of assistants wait for a person: destroy, move (these too) or none."
    )
    prometheus: str | None = Field(
        default=None, description="`http://host:9090` of a Prometheus that scrapes the brokers, for PromQL."
    )
    yes: bool = Field(default=False, description="Apply plans made on the command line without a question.")
    colour: Colour | None = Field(default=None, description="What faces mark the cluster with.")


class Contexts(BaseModel):
    """The file: contexts by name, and which is used when nothing else is said."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    current: str | None = None
    contexts: dict[str, Context] = Field(default_factory=dict)

    def get(self, name: str) -> Context:
        """The context of this name. Raises NotFoundError."""
        context = self.contexts.get(name)
        if context is None:
            known = ", ".join(sorted(self.contexts)) or "none"
            raise NotFoundError(f"there is no context {name[:60]!r}; known are: {known}")
        return context


# The file


def contexts_file(config_file: Path | None, environ: Mapping[str, str]) -> Path:
    """The file of contexts: the flag's file, DANUBE_ADMIN_CONFIG, or the folder of the user's settings."""
    named = config_file or environ.get("DANUBE_ADMIN_CONFIG")
    if named:
        return expanded(Path(named))
    folder = user_folder(environ, "XDG_CONFIG_HOME", ".config", instead="give --endpoint or --config-file, or ")
    return folder / "danube" / "contexts.yaml"


def read_contexts(path: Path) -> Contexts:
    """The contexts in a file; none when there is no file.

    Raises SettingsError for what cannot be read, and for a file with a token in it that others can read.
    """
    try:
        state = path.stat()
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise SettingsError(f"cannot read the contexts in {path}: {error.strerror}") from None
    if state.st_size > CONTEXT_FILE_BYTES_MAX:
        raise SettingsError(f"{path} is larger than {CONTEXT_FILE_BYTES_MAX} bytes: it is no file of contexts")
    contexts = _validated(Contexts, read_settings_file(path), str(path))
    if state.st_mode & _READABLE_BY_OTHERS and any(each.token for each in contexts.contexts.values()):
        raise SettingsError(f"{path} holds a token and others can read it: run `chmod 600 {path}`, and renew the token")
    return contexts


def list_contexts(path: Path) -> Sequence[tuple[str, Context, bool]]:
    """Name, context and whether it is the current one, sorted by name. Raises SettingsError."""
    found = read_contexts(path)
    return [(name, found.contexts[name], name == found.current) for name in sorted(found.contexts)]


def show_context(path: Path, name: str | None = None) -> dict[str, str]:
    """The fields of a context, the current one without a name; never its token. Raises NotFoundError, SettingsError."""
    found = read_contexts(path)
    wanted = name or found.current
    if wanted is None:
        raise NotFoundError("no context is in use: choose one with `danube-admin contexts use NAME`")
    said = found.get(wanted).model_dump(mode="json", exclude_none=True)
    if "token" in said:
        said["token"] = "set, and not shown"  # noqa: S105 - the opposite of one
    return {"name": wanted, **{key: str(value) for key, value in said.items()}}


def use_context(path: Path, name: str) -> None:
    """Make a context the current one. Raises NotFoundError, SettingsError."""
    found = read_contexts(path)
    found.get(name)
    _write(path, found.model_copy(update={"current": name}))


def set_context(path: Path, name: str, changes: Mapping[str, Any]) -> Context:
    """Create a context or change some of its fields, None taking one away; the first one becomes the current one.

    Raises SettingsError.
    """
    if not _NAME.fullmatch(name):
        raise SettingsError(f"{name[:60]!r} cannot name a context: use letters, digits, '_', '.' and '-'")
    found = read_contexts(path)
    before = found.contexts.get(name)
    values = {**(before.model_dump(exclude_unset=True) if before else {}), **changes}
    values = {key: value for key, value in values.items() if value is not None}
    context = _validated(Context, values, f"context {name}")
    context = context.model_copy(update={"endpoint": checked_endpoint(context.endpoint, tls=False)})
    _write(path, Contexts(current=found.current or name, contexts={**found.contexts, name: context}))
    return context


def remove_context(path: Path, name: str) -> None:
    """Forget a context; when it was the current one, there is none then. Raises NotFoundError, SettingsError."""
    found = read_contexts(path)
    found.get(name)
    left = {each: context for each, context in found.contexts.items() if each != name}
    _write(path, Contexts(current=None if found.current == name else found.current, contexts=left))


def _write(path: Path, contexts: Contexts) -> None:
    content = contexts.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    for name, context in contexts.contexts.items():
        if context.token is not None:
            content["contexts"][name]["token"] = context.token.get_secret_value()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        LocalDisk(path.parent).replace_file(path.name, yaml.safe_dump(content, sort_keys=True).encode())
    except OSError as error:
        raise SettingsError(f"cannot write the contexts to {path}: {error.strerror}") from None


# The target


def resolve_target(flags: TargetFlags, environ: Mapping[str, str]) -> Target:
    """Which cluster a face speaks to, and how. Raises SettingsError, and NotFoundError for an unknown context."""
    name, context = _context(flags, environ)
    read = _Sources(environ, context, context_first=flags.context is not None)
    named = flags.endpoint or read.text("ENDPOINT", context.endpoint if context else None)
    tls = read.text("TLS", "true" if context and context.tls else None) == "true"
    endpoint = checked_endpoint(named or DEFAULT_ENDPOINT, tls=tls)
    is_of_context = context is not None and endpoint == checked_endpoint(context.endpoint, tls=tls)
    cert, key = read.path("CERT"), read.path("KEY")
    if (cert is None) != (key is None):
        raise SettingsError("a client certificate needs its key: set both DANUBE_ADMIN_CERT and DANUBE_ADMIN_KEY")
    return Target(
        endpoint=endpoint,
        context=name if is_of_context else None,
        token=_token(context, environ, context_first=flags.context is not None),
        tls=endpoint.startswith("https://"),
        tls_domain=read.text("DOMAIN", context.domain if context else None),
        ca_file=read.path("CA"),
        cert_file=cert,
        key_file=key,
        guard=_guard(flags, environ, name, context),
        assume_yes=flags.yes or environ.get("DANUBE_ADMIN_YES") == "1" or bool(context and context.yes),
        timeout_s=_timeout(flags.timeout_s),
        prometheus=read.text("PROMETHEUS", context.prometheus if context else None),
        colour=context.colour if context else None,
    )


def checked_endpoint(text: str, *, tls: bool) -> str:
    """Endpoints in full, with commas between; `https` where TLS is asked for, and `host:port` is taken as http.

    Raises SettingsError.
    """
    found = dict.fromkeys(_checked_endpoint(each, tls=tls) for each in text.split(","))
    if len(found) > ENDPOINTS_MAX:
        raise SettingsError(f"{len(found)} endpoints are too many: name up to {ENDPOINTS_MAX} brokers of the cluster")
    if len({each.partition(":")[0] for each in found}) > 1:
        raise SettingsError("endpoints of one cluster are all http:// or all https://: give one of them")
    return ",".join(found)


def _checked_endpoint(text: str, *, tls: bool) -> str:
    full = text.strip() if "://" in text else f"http://{text.strip()}"
    try:
        parts = urlsplit(full)
        host, port = parts.hostname, parts.port or _PORT
    except ValueError:
        host, parts, port = None, urlsplit(""), None
    rest = (parts.path.strip("/"), parts.query, parts.fragment, parts.username, parts.password)
    if host is None or not host.isprintable() or " " in host or parts.scheme not in {"http", "https"} or any(rest):
        shown = re.sub(r"//[^/]*@", "//...@", text[:100])
        raise SettingsError(f"{shown!r} is no endpoint: give http://host:port or https://host:port")
    scheme = "https" if tls else parts.scheme
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


class _Sources:
    """Variables and a context, in the order in which they are asked."""

    def __init__(self, environ: Mapping[str, str], context: Context | None, *, context_first: bool) -> None:
        self._environ = environ
        self._context = context
        self._context_first = context_first

    def text(self, variable: str, of_context: str | None) -> str | None:
        of_variable = self._environ.get(f"DANUBE_ADMIN_{variable}") or None
        return (of_context or of_variable) if self._context_first else (of_variable or of_context)

    def path(self, variable: str) -> Path | None:
        of_context: Path | None = getattr(self._context, variable.lower()) if self._context else None
        found = self.text(variable, str(of_context) if of_context else None)
        return expanded(Path(found)) if found else None


def _context(flags: TargetFlags, environ: Mapping[str, str]) -> tuple[str | None, Context | None]:
    """The context that counts: a named one, else the current one where nobody names an endpoint."""
    named = flags.context or (None if flags.endpoint else environ.get("DANUBE_ADMIN_CONTEXT")) or None
    if named is None and (flags.endpoint or environ.get("DANUBE_ADMIN_ENDPOINT")):
        return None, None
    path = contexts_file(flags.config_file, environ)
    found = read_contexts(path)
    name = named or found.current
    if name is None:
        return None, None
    return name, found.get(name)


def _token(context: Context | None, environ: Mapping[str, str], *, context_first: bool) -> str | None:
    of_variable = environ.get("DANUBE_ADMIN_TOKEN") or environ.get("DANUBE_ADMIN_API_KEY") or None
    if of_variable is not None and not context_first:
        return _checked_token(of_variable, "DANUBE_ADMIN_TOKEN")
    found = _token_of(context, environ) if context else None
    return found or (_checked_token(of_variable, "DANUBE_ADMIN_TOKEN") if of_variable else None)


def _token_of(context: Context, environ: Mapping[str, str]) -> str | None:
    if context.token_file is not None:
        path = expanded(context.token_file)
        try:
            return _checked_token(path.read_text(encoding="ascii"), str(path))
        except OSError as error:
            raise SettingsError(f"cannot read the token file {path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise SettingsError(f"{path} holds no token: a token is one line of printable ASCII") from None
    if context.token_env is not None:
        if not environ.get(context.token_env):
            raise SettingsError(f"the context takes its token from the variable {context.token_env}, which is not set")
        return _checked_token(environ[context.token_env], context.token_env)
    return _checked_token(context.token.get_secret_value(), "the context's token") if context.token else None


def _checked_token(text: str, origin: str) -> str:
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token or len(token) > TOKEN_CHARS_MAX:
        raise SettingsError(f"{origin} holds no token: a token is one word of printable ASCII, and not shown here")
    return token


def _guard(flags: TargetFlags, environ: Mapping[str, str], name: str | None, context: Context | None) -> Guard:
    level = flags.access or _word(AccessLevel, environ, "DANUBE_ADMIN_ACCESS")
    pinned_level = context.access if context else None
    if level and pinned_level and not pinned_level.allows(level):
        raise SettingsError(
            f"context {name} allows access level {pinned_level} and no more: ask for {pinned_level}, or change the"
            f" context with `danube-admin contexts set {name} --access {level}`"
        )
    approval = flags.approval or _word(ApprovalMode, environ, "DANUBE_ADMIN_APPROVAL")
    pinned_approval = context.approval if context else None
    strictness = _APPROVAL_STRICTNESS.index
    if approval and pinned_approval and strictness(approval) < strictness(pinned_approval):
        raise SettingsError(
            f"context {name} has approval {pinned_approval} and no less: ask for {pinned_approval}, or change the"
            f" context with `danube-admin contexts set {name} --approval {approval}`"
        )
    defaults = Guard()
    return Guard(
        level=level or pinned_level or defaults.level, approval=approval or pinned_approval or defaults.approval
    )


def _word(kind: type[E], environ: Mapping[str, str], variable: str) -> E | None:
    text = environ.get(variable)
    if not text:
        return None
    try:
        return kind(text)
    except ValueError:
        raise SettingsError(f"{variable} is {text[:40]!r}: use one of {', '.join(kind)}") from None


def _timeout(wanted_s: float | None) -> float:
    if wanted_s is None:
        return ADMIN_CALL_TIMEOUT_S
    if not 0 < wanted_s <= ADMIN_CALL_TIMEOUT_MAX_S:
        raise SettingsError(f"a timeout of {wanted_s} s cannot be: use more than 0, up to {ADMIN_CALL_TIMEOUT_MAX_S} s")
    return wanted_s


M = TypeVar("M", bound=BaseModel)


def _validated(kind: type[M], values: Mapping[str, Any], where: str) -> M:
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, each['loc']))}: {each['msg']}"
            for each in error.errors(include_url=False, include_input=False)
        )
        raise SettingsError(f"{where}: {problems}") from None
