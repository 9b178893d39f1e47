"""The options of the data source `danube`: read once, on the driver, and wrong ones refused with what to write instead.

Spark's options are texts, and upper or lower case makes no difference. `docs/spark.md` has the table.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError, model_validator

from danube.model.address import host_and_port
from danube.model.calls.stream import FetchFrom, FetchStart, FetchTime
from danube.model.errors import DanubeError, SettingsError
from danube.model.limits.faces import SPARK_OPTION_CHARS_MAX, SPARK_PARTITION_ROWS, SPARK_RETRY_TOTAL_S
from danube.model.topic import TopicName
from danube.model.untrusted_json import decode_json
from danube.objects.place import ObjectPlace
from danube.runtime.paths import expanded
from danube.tables.link import Endpoint, read_certificate
from danube.tables.planning import Positions
from danube.tables.rows import COLUMN_NAMES
from danube.tables.segments import segment_place

_WORDS: Mapping[object, FetchFrom] = {word.value: word for word in FetchFrom}


def _parse_url(text: str) -> str:
    try:
        address = host_and_port(text)
    except SettingsError as error:
        raise ValueError(str(error)) from None
    if "@" in address:
        raise ValueError("an address holds no name and no password: use the option token")
    return text


def _parse_topic(text: str) -> str:
    try:
        return str(TopicName.parse(text))
    except DanubeError as error:
        raise ValueError(str(error)) from None


def _parse_columns(text: str) -> tuple[str, ...]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in COLUMN_NAMES:
            raise ValueError(f"there is no column {name[:80]!r}{_nearest(name, COLUMN_NAMES)}")
    return tuple(name for name in COLUMN_NAMES if name in names)


def _parse_positions(text: str) -> Positions:
    """`earliest`, `latest`, an offset, or a JSON object with one of them for each topic or partition."""
    if not text.lstrip().startswith("{"):
        return Positions(_position(int(text) if text.strip().isdecimal() else text.strip()))
    try:
        found = decode_json(text)
    except ValueError:
        raise ValueError('it begins like JSON and is none: write {"/default/orders-part-0": 1200, ...}') from None
    return Positions(by_topic={_parse_topic(topic): _position(value) for topic, value in found.items()})


def _position(value: object) -> FetchStart:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str) and value in _WORDS:
        return _WORDS[value]
    raise ValueError(f"{str(value)[:80]!r} is not a position: write earliest, latest, or an offset from 0 on")


def _parse_time(text: str) -> Positions:
    """ISO 8601 (UTC where it names no zone), or milliseconds since 1970."""
    if text.strip().isdecimal():
        return Positions(FetchTime(int(text)))
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text[:80]!r} is not a time: write 2026-01-31T12:00:00Z, or ms since 1970") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return Positions(FetchTime(max(0, round(moment.timestamp() * 1_000))))


def _parse_folder(path: str) -> Path | ObjectPlace:
    if "://" not in path and not expanded(Path(path)).is_absolute():
        raise ValueError(f"{path[:80]!r} is no absolute path: workers have other working folders")
    try:
        return segment_place(path)
    except SettingsError as error:
        raise ValueError(str(error).replace("object_store.url", "the option folder")) from None


def _parse_checkpoint(path: str) -> Path:
    return expanded(Path(path.removeprefix("file://")))


def _read_certificate(path: str) -> bytes:
    try:
        return read_certificate(path)
    except SettingsError as error:
        raise ValueError(str(error)) from None


class SourceKind(StrEnum):
    """Origin of stored batches."""

    BROKER = "broker"
    SEGMENTS = "segments"


class SourceOptions(BaseModel):
    """Options of one read or one stream, checked by `parse_options`."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, arbitrary_types_allowed=True)

    service_url: Annotated[str, BeforeValidator(_parse_url)] = "http://127.0.0.1:6650"
    """Of any broker of the cluster."""
    topic: Annotated[str, BeforeValidator(_parse_topic)]
    """A topic, one partition, or the name of a partitioned topic, which stands for all its partitions."""
    starting: Annotated[Positions, BeforeValidator(_parse_positions)] = Positions(FetchFrom.EARLIEST)
    """Where to begin."""
    starting_timestamp: Annotated[Positions, BeforeValidator(_parse_time)] | None = None
    """Begin with what was appended then or later, by the brokers' clocks, in place of `starting`."""
    ending: Annotated[Positions, BeforeValidator(_parse_positions)] = Positions(FetchFrom.LATEST)
    """Where to end, not included. Of batch reads."""
    ending_timestamp: Annotated[Positions, BeforeValidator(_parse_time)] | None = None
    """End before what was appended then or later, in place of `ending`."""
    source: SourceKind = SourceKind.BROKER
    """`segments` reads a folder that brokers share; they are asked for offsets, and for what is not in segments yet."""
    folder: Annotated[Path | ObjectPlace, BeforeValidator(_parse_folder)] | None = None
    """The brokers' shared folder, as the driver and the workers see it, or the URL of their bucket and prefix."""
    folder_endpoint: Annotated[str, BeforeValidator(_parse_url)] | None = None
    """Of the bucket, if it is a store that only speaks like S3. Keys come from the environment."""
    columns: Annotated[tuple[str, ...], BeforeValidator(_parse_columns)] = COLUMN_NAMES
    """Which columns to read."""
    decode: bool = False
    """Whether there is a column `decoded` with the payload as a typed value, by the topic's schema."""
    rows_per_partition: int = Field(SPARK_PARTITION_ROWS, ge=1)
    """At most so many rows in one Spark partition."""
    max_rows_per_trigger: int | None = Field(None, ge=1)
    """At most so many rows in one micro-batch, all topics together. Of streams."""
    checkpointlocation: Annotated[Path, BeforeValidator(_parse_checkpoint)] | None = None
    """Folder of a stream's checkpoint, which Spark passes on; the sink reads in it. Of streams that are written."""
    ca_cert: Annotated[bytes, BeforeValidator(_read_certificate)] | None = Field(None, repr=False)
    """PEM file of the authority to trust, read on the driver; it switches TLS on."""
    token: SecretStr | None = None
    """Sent with every request; it switches TLS on."""
    timeout_s: float = Field(SPARK_RETRY_TOTAL_S, gt=0, allow_inf_nan=False)
    """How long a broker that was lost is tried for."""
    fail_on_data_loss: bool = True
    """Whether records that are wanted and gone are an error."""
    skip_unreachable: bool = False
    """Whether partitions of brokers that do not run are left out, instead of an error."""

    @model_validator(mode="after")
    def _check_pairs(self) -> Self:
        for name in ("starting", "ending"):
            if {name, f"{name}_timestamp"} <= self.model_fields_set:
                raise ValueError(f"{name} and {name}_timestamp exclude each other: give one of them")
        if (self.source is SourceKind.SEGMENTS) != (self.folder is not None):
            raise ValueError("source=segments goes with the option folder: give both, or neither")
        if self.folder_endpoint is not None and not isinstance(self.folder, ObjectPlace):
            raise ValueError("folder_endpoint goes with a folder in a bucket, such as s3://bucket/prefix")
        return self

    @property
    def segments(self) -> Path | ObjectPlace | None:
        """The place of the segments to read; None to read through the brokers."""
        if isinstance(self.folder, ObjectPlace):
            return replace(self.folder, endpoint=self.folder_endpoint)
        return self.folder

    @property
    def start(self) -> Positions:
        """Start position, given as an offset or as a time."""
        return self.starting_timestamp or self.starting

    @property
    def end(self) -> Positions:
        """End position, given as an offset or as a time."""
        return self.ending_timestamp or self.ending

    @property
    def endpoint(self) -> Endpoint:
        """Endpoint of the cluster, for the workers."""
        token = self.token.get_secret_value() if self.token else None
        return Endpoint(
            service_url=self.service_url,
            ca_pem=self.ca_cert,
            token=token,
            retry_s=self.timeout_s,
            skip_unreachable=self.skip_unreachable,
        )

    def refuse_for(self, kind: Literal["batch", "stream"]) -> None:
        """Raise SettingsError for an option that this kind of read does not have."""
        if kind == "batch":
            if self.max_rows_per_trigger is not None:
                raise SettingsError("max_rows_per_trigger is for streams: leave it out, or use readStream")
            if self.start.everywhere is FetchFrom.LATEST:
                raise SettingsError("starting at latest is for streams: a batch read would have nothing to read")
        elif {"ending", "ending_timestamp"} & self.model_fields_set:
            raise SettingsError("ending is for batch reads: a stream has no end; trigger(availableNow=True) stops it")


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Spark's options, checked. Raises SettingsError; what it says names options and never shows a token."""
    given = {name.lower(): text for name, text in options.items()}
    for name, text in given.items():
        if name not in SourceOptions.model_fields:
            hint = ": name the topic with the option topic" if name == "path" else _nearest(name, option_names())
            raise SettingsError(f"the data source danube has no option {name[:80]!r}{hint}")
        if len(text) > SPARK_OPTION_CHARS_MAX:
            raise SettingsError(f"option {name} has {len(text)} characters, the limit is {SPARK_OPTION_CHARS_MAX}")
    try:
        return SourceOptions.model_validate(given)
    except ValidationError as error:
        raise SettingsError("; ".join(map(_sentence, error.errors(include_input=False, include_url=False)))) from None


def option_names() -> tuple[str, ...]:
    """All options there are."""
    return tuple(SourceOptions.model_fields)


def _nearest(name: str, known: tuple[str, ...]) -> str:
    found = get_close_matches(name, known, n=1, cutoff=0.5)
    return f": did you mean {found[0]}?" if found else f": use {', '.join(known)}"


def _sentence(error: Mapping[str, object]) -> str:
    where = error["loc"]
    name = str(where[0]) if isinstance(where, tuple) and where else ""
    if error["type"] == "missing":
        return f"option {name} is missing: name a topic, as in .option({name!r}, '/default/orders')"
    text = str(error["msg"]).removeprefix("Value error, ")
    return f"option {name}: {text}" if name else text
