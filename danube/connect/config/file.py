"""Files of connectors: TOML as the original has it, with one connector or several, and the environment's part."""

import difflib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from danube.connect.config.routes import Section, Topic
from danube.connect.connectors.catalogue import BY_NAME, ENTRIES, Entry, load_definition
from danube.connect.failures import Backoff
from danube.model.address import host_and_port
from danube.model.errors import DanubeError, SettingsError
from danube.model.limits import faces as limits

_CONNECTOR_KEYS = ("connector_name", "retry", "processing", "schemas", "connector", *BY_NAME)
_ROOT_KEYS = (
    "danube_service_url", "danube_ca_cert", "metrics_port", "connectors",
    *(key for entry in ENTRIES for key in entry.root_sections), *_CONNECTOR_KEYS,
)  # fmt: skip


class Retry(Section):
    """`[retry]`: tries of a record that fails, and the delays between them."""

    max_retries: int = Field(default=limits.CONNECT_RETRIES_DEFAULT, ge=1, le=100)
    retry_backoff_ms: int = Field(
        default=limits.CONNECT_RETRY_DELAY_MS,
        ge=1,
        le=600_000,
        validation_alias=AliasChoices("retry_backoff_ms", "initial_interval_ms"),
    )
    max_backoff_ms: int = Field(
        default=limits.CONNECT_RETRY_DELAY_MAX_MS,
        ge=1,
        le=600_000,
        validation_alias=AliasChoices("max_backoff_ms", "max_interval_ms"),
    )

    @property
    def backoff(self) -> Backoff:
        """The delays."""
        return Backoff(first_s=self.retry_backoff_ms / 1_000, longest_s=self.max_backoff_ms / 1_000)


class Processing(Section):
    """`[processing]`: batches, and what the process tells of itself."""

    batch_size: int = Field(default=limits.CONNECT_BATCH_RECORDS_DEFAULT, ge=1, le=limits.CONNECT_BATCH_RECORDS_MAX)
    batch_timeout_ms: int = Field(default=limits.CONNECT_BATCH_LINGER_MS, ge=0, le=600_000)
    poll_interval_ms: int = Field(default=100, ge=1, description="Of sources that ask again and again.")
    metrics_port: int = Field(default=9_090, ge=0, le=65_535, description="0 is any free port.")
    metrics_host: str = "0.0.0.0"  # noqa: S104 - as the original; a scraper is on another machine
    log_level: Literal["trace", "debug", "info", "warn", "warning", "error"] = "info"
    health_check_interval_ms: int = Field(default=30_000, ge=1)
    health_check_failure_threshold: int = Field(default=3, ge=1)

    @property
    def level(self) -> str:
        """The level as Python names it."""
        return {"trace": "debug", "warn": "warning"}.get(self.log_level, self.log_level)


class Strategy(Section):
    """A version of a subject, other than the latest."""

    pinned: int | None = Field(default=None, ge=1)
    minimum: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _one(self) -> "Strategy":
        if (self.pinned is None) == (self.minimum is None):
            raise ValueError("has { pinned = N } or { minimum = N }")
        return self


class SchemaMapping(Section):
    """`[[schemas]]`: the schema that a source writes a topic with."""

    topic: Topic
    subject: str = Field(min_length=1)
    schema_type: Literal["json_schema", "string", "bytes", "number", "avro", "protobuf"]
    schema_file: str = ""
    auto_register: bool = True
    version_strategy: Literal["latest"] | Strategy = "latest"

    @model_validator(mode="after")
    def _file(self) -> "SchemaMapping":
        if self.auto_register and not self.schema_file and self.schema_type not in {"string", "bytes", "number"}:
            raise ValueError(f"schema {self.subject} has no schema_file: name one, or set auto_register = false")
        return self


class _Root(BaseModel):
    """The keys of a connector that are the same for all."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    danube_service_url: str
    danube_ca_cert: str | None = None
    danube_token: SecretStr | None = None
    connector_name: str = Field(min_length=1, max_length=100)
    retry: Retry = Retry()
    processing: Processing = Processing()
    schemas: tuple[SchemaMapping, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorConfig:
    """One connector of a file."""

    name: str
    kind: str
    """Name of the connector's entry, or a user's `module:function`."""
    service_url: str
    retry: Retry
    processing: Processing
    schemas: tuple[SchemaMapping, ...] = ()
    section: Mapping[str, Any] = field(default_factory=dict)
    """Its settings as the file has them."""
    section_name: str = "connector"
    ca_cert: str | None = None
    token: str | None = field(default=None, repr=False)
    origin: str = ""
    """The file."""

    def settings(self) -> Any:  # noqa: ANN401 - each connector has a class of its own
        """The settings, checked by the connector's own class. Raises SettingsError."""
        kind = load_definition(self.kind).settings
        try:
            return kind.model_validate(self.section)
        except ValidationError as error:
            raise SettingsError(explained(error, kind, f"{self.origin}, [{self.section_name}]")) from None


def read_files(paths: Sequence[Path], environment: Mapping[str, str]) -> list[ConnectorConfig]:
    """The connectors of these files. Raises SettingsError, also for two of one name."""
    found = [config for path in paths for config in parse(_content(path), str(path), environment)]
    names = [config.name for config in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SettingsError(f"two connectors have the name {twice[0]}: give each its own connector_name")
    if len(found) > limits.CONNECT_CONNECTORS_MAX:
        raise SettingsError(
            f"{len(found)} connectors are more than {limits.CONNECT_CONNECTORS_MAX}: run them in several processes"
        )
    return found


def parse(text: str, origin: str, environment: Mapping[str, str]) -> list[ConnectorConfig]:
    """The connectors of a file's text. Raises SettingsError."""
    try:
        root = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{origin} is not valid TOML: {error}") from None
    _check_keys(root, _ROOT_KEYS, origin)
    several = root.pop("connectors", None)
    if several is None:
        return [_connector(_with_environment(root, environment), origin, environment)]
    if not isinstance(several, list) or not all(isinstance(each, dict) for each in several):
        raise SettingsError(f"{origin}: connectors is a list of tables: write [[connectors]] before each")
    for each in several:
        _check_keys(each, tuple(key for key in _ROOT_KEYS if key != "connectors"), f"{origin}, [[connectors]]")
    shared = _with_environment(root, {key: each for key, each in environment.items() if key != "CONNECTOR_NAME"})
    return [_connector(_merged(shared, each), origin, environment) for each in several]


def _connector(values: dict[str, Any], origin: str, environment: Mapping[str, str]) -> ConnectorConfig:
    if "metrics_port" in values:
        values["processing"] = {"metrics_port": values["metrics_port"]} | values.get("processing", {})
    entry, section_name, section = _section(values, origin)
    try:
        root = _Root.model_validate(values)
        host_and_port(root.danube_service_url.split(",")[0].strip())
    except ValidationError as error:
        raise SettingsError(explained(error, _Root, origin)) from None
    except DanubeError as error:
        raise SettingsError(f"{origin}: danube_service_url: {error}") from None
    if entry is not None:
        section = {**section, **dict(_secrets(entry, section, environment))}
    return ConnectorConfig(
        name=root.connector_name,
        kind=entry.name if entry is not None else _own_name(section, origin),
        service_url=root.danube_service_url,
        retry=root.retry,
        processing=root.processing,
        schemas=root.schemas,
        section={key: value for key, value in section.items() if entry is not None or key != "name"},
        section_name=section_name,
        ca_cert=root.danube_ca_cert,
        token=root.danube_token.get_secret_value() if root.danube_token else None,
        origin=origin,
    )


def _section(values: Mapping[str, Any], origin: str) -> tuple[Entry | None, str, dict[str, Any]]:
    """The connector that the file is for, and its settings; the entry is None for a user's own."""
    named = [key for key in ("connector", *BY_NAME) if key in values]
    named += [entry.name for entry in ENTRIES if entry.root_sections and entry.root_sections[0] in values]
    if len(named) != 1:
        what = f"{' and '.join(f'[{each}]' for each in named)} are two" if named else "no section names one"
        raise SettingsError(
            f"{origin}: a file has one connector, and {what}: give one section, or [[connectors]] for several"
        )
    name = named[0]
    entry = BY_NAME.get(name)
    roots = entry.root_sections if entry is not None and name not in values else ()
    stray = [key for each in ENTRIES for key in each.root_sections if key in values and key not in roots]
    if stray:
        raise SettingsError(f"{origin}: [{stray[0]}] does not belong to [{name}]: put it below that, or leave it out")
    section = {key: values[key] for key in roots if key in values} if roots else values[name]
    if not isinstance(section, dict):
        raise SettingsError(f"{origin}: {name} is a table: write [{name}]")
    return entry, name, section


def _own_name(section: Mapping[str, Any], origin: str) -> str:
    name = section.get("name")
    if not isinstance(name, str) or not name:
        raise SettingsError(f'{origin}: [connector] has no name: write name = "module:function"')
    return name


def _secrets(entry: Entry, section: Mapping[str, Any], environment: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """`MQTT_PASSWORD` sets `password` of `[mqtt]`: secrets and addresses need not be in the file."""
    prefix = f"{entry.name.upper()}_"
    if not any(name.startswith(prefix) for name in environment) or entry.root_sections or not entry.target:
        return
    for key in load_definition(entry.name).settings.model_fields:
        name = prefix + key.upper()
        if name in environment and key != "routes" and not isinstance(section.get(key), dict | list):
            yield key, environment[name]


def _with_environment(root: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    variables = {
        "danube_service_url": "DANUBE_SERVICE_URL",
        "connector_name": "CONNECTOR_NAME",
        "danube_ca_cert": "DANUBE_CA_CERT",
        "danube_token": "DANUBE_TOKEN",
    }
    return root | {key: environment[name] for key, name in variables.items() if environment.get(name)}


def _merged(shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """A connector's own keys over those of the root; of `[retry]` and `[processing]` each key by itself."""
    groups = {key: {**shared.get(key, {}), **own.get(key, {})} for key in ("retry", "processing")}
    return {**shared, **own, **groups}


def _check_keys(values: Mapping[str, Any], known: Sequence[str], origin: str) -> None:
    for key in values:
        if key not in known:
            raise SettingsError(f"{origin}: there is no key {key!r}{_nearest(key, known)}")


def _nearest(key: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    return f": did you mean {near[0]!r}?" if near else f"; known are {', '.join(dict.fromkeys(known))}"


def explained(error: ValidationError, model: type[BaseModel], origin: str) -> str:
    """The first fault as one sentence; the values of secrets are left out."""
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = _known_keys(model, [part for part in first["loc"] if isinstance(part, str)])
        return f"{origin}: there is no key {place!r}{_nearest(str(first['loc'][-1]), known)}"
    if first["type"] == "missing":
        return f"{origin}: {place} is missing: set it"
    reason = first["msg"].removeprefix("Value error, ")
    return f"{origin}: {place}: {reason}" if place else f"{origin}: {reason}"


def _known_keys(model: type[BaseModel], path: Sequence[str]) -> list[str]:
    """The keys beside the last part of a path."""
    for part in path[:-1]:
        for name, info in model.model_fields.items():
            if part in {name, info.alias}:
                kinds = [info.annotation, *getattr(info.annotation, "__args__", ())]
                model = next((each for each in kinds if isinstance(each, type) and issubclass(each, BaseModel)), model)
                break
    return [info.alias or name for name, info in model.model_fields.items()]


def _content(path: Path) -> str:
    try:
        if path.stat().st_size > limits.CONNECT_FILE_BYTES_MAX:
            raise SettingsError(f"{path} has more than {limits.CONNECT_FILE_BYTES_MAX:,} bytes: split it")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not text in UTF-8: save it as such") from None
