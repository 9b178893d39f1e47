"""BrokerSettings: every setting of a broker with its unit, default and reason, and how they are loaded."""

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

from danube.broker.config.addresses import Address, Url
from danube.broker.config.auth import AuthSettings
from danube.broker.config.metadata_store import MetaStoreSettings, MetaStoreType, means_cluster
from danube.broker.config.object_store import ObjectStoreSettings
from danube.broker.config.original import translate_original
from danube.broker.config.quotas import QuotaSettings
from danube.broker.config.secret_files import check_private
from danube.model.errors import DanubeError, SettingsError
from danube.model.limits import broker as limits
from danube.model.limits.balance import (
    AUTOMATIC_CHECK_INTERVAL_S,
    BALANCE_RULES_MAX,
    LOAD_REPORT_INTERVAL_S,
    PARALLEL_REBALANCE_MOVES,
    REBALANCES_PER_HOUR_MAX,
    TOPIC_COOL_DOWN_S,
)
from danube.model.limits.metadata import BROKER_LEASE_TTL_S
from danube.model.limits.moves import (
    CARRIES_AT_ONCE_MAX,
    CARRY_BYTES_PER_S,
    LOCAL_OWNER_LOST_AFTER_S,
    PARALLEL_MOVES_MAX,
)
from danube.model.ownership import StorageMode
from danube.model.plans.durability import Durability
from danube.model.topic import check_name_part
from danube.rpc.engines import DEFAULT_ENGINE, RpcEngine
from danube.runtime.process import EventLoop, LogFormat
from danube.runtime.settings import Loaded, fields_of, leaves, load_settings, read_settings_file


class Mode(StrEnum):
    """The kind of broker."""

    STANDALONE = "standalone"
    CLUSTER = "cluster"


def _namespace(text: str) -> str:
    try:
        return check_name_part("namespace", text)
    except DanubeError as error:
        raise ValueError(str(error)) from None


def _interval(seconds: float) -> float:
    if 0 < seconds < limits.TELEMETRY_INTERVAL_MIN_S:
        raise ValueError(f"give at least {limits.TELEMETRY_INTERVAL_MIN_S}, or 0 to switch it off")
    return seconds


Limit = Annotated[int, Field(ge=0, le=limits.POLICY_NUMBER_MAX)]
Delay = Annotated[float, Field(ge=0, le=86_400)]
Ttl = Annotated[int, Field(ge=0, le=limits.MESSAGE_TTL_S_MAX)]
RetentionTime = Annotated[int, Field(ge=0, le=limits.RETENTION_TIME_S_MAX)]
RetentionBytes = Annotated[int, Field(ge=0, le=limits.RETENTION_BYTES_MAX)]
FreeBytes = Annotated[int, Field(ge=0, le=1 << 50)]
Namespace = Annotated[str, AfterValidator(_namespace)]
TelemetryInterval = Annotated[float, AfterValidator(_interval), Field(ge=0, le=3_600)]


class StoragePlaceSettings(BaseModel):
    """Place of messages."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: StorageMode = Field(
        StorageMode.LOCAL,
        description="local: in data_dir. shared_fs: in a folder that all brokers of the cluster share, so that the"
        " others serve the topics of a broker that dies. object_store: in a bucket, as object_store.url says; the same,"
        " and no broker has a disk that matters.",
    )
    folder: Path | None = Field(None, description="The shared folder of `shared_fs`, mounted on every broker.")

    @model_validator(mode="after")
    def _check_folder(self) -> Self:
        if (self.mode is StorageMode.SHARED_FS) != (self.folder is not None):
            raise ValueError("storage.folder goes with the storage.mode shared_fs: give both, or neither")
        if self.mode is StorageMode.OBJECT_STORE_LOCAL:
            raise ValueError("for this storage.mode set object_store, and object_store.journal to local")
        return self


class BrokerSettings(BaseModel):
    """Settings of one broker process."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: Mode = Field(
        Mode.STANDALONE,
        description="standalone: one broker, nothing else needed. cluster: one of several; as meta_store.type says."
        " A standalone broker that is started with it becomes the first of a cluster, which others join.",
    )
    meta_store: MetaStoreSettings = MetaStoreSettings.model_validate({})
    storage: StoragePlaceSettings = StoragePlaceSettings.model_validate({})
    object_store: ObjectStoreSettings = ObjectStoreSettings.model_validate({})
    auth: AuthSettings = AuthSettings.model_validate({})
    quotas: QuotaSettings = QuotaSettings.model_validate({})
    lease_ttl_s: float = Field(
        BROKER_LEASE_TTL_S,
        ge=1,
        le=60,
        description="Seconds after which the other brokers of a cluster take a silent broker for dead; they miss one"
        " whose process has ended at once.",
    )
    move_rate_bytes_s: int = Field(
        CARRY_BYTES_PER_S,
        ge=0,
        le=1 << 40,
        description="Bytes a second at which a broker copies the logs of topics that move to its disk; 0 is no limit.",
    )
    move_parallelism: int = Field(
        CARRIES_AT_ONCE_MAX,
        ge=1,
        le=PARALLEL_MOVES_MAX,
        description="Topics whose logs a broker copies to its disk at the same time.",
    )
    local_owner_lost: Literal["wait", "recreate"] = Field(
        "wait",
        description="wait: a topic on the disk of a broker that does not run waits for it. recreate: it starts anew on"
        " another broker, without messages; those so far stay on that disk. With object_store.journal local it goes on"
        " with what is in the bucket.",
    )
    local_owner_lost_after_s: float = Field(
        LOCAL_OWNER_LOST_AFTER_S,
        ge=1,
        le=limits.RETENTION_TIME_S_MAX,
        description="Seconds that such a topic waits before `local_owner_lost: recreate` starts it anew.",
    )
    assignment_strategy: Literal["fair", "balanced", "weighted_load"] = Field(
        "balanced",
        description="How brokers are compared, for new topics and rebalances. fair: by number of topics. balanced: by"
        " the busiest resource. weighted_load: by all resources, weighted.",
    )
    load_report_interval_s: float = Field(
        LOAD_REPORT_INTERVAL_S, ge=0.1, le=3_600, description="Seconds between two load reports of a broker."
    )
    rebalance_mode: Literal["off", "conservative", "balanced", "aggressive"] = Field(
        "off", description="Whether the leader rebalances by itself, and how soon; changed at run time as well."
    )
    rebalance_check_interval_s: float = Field(
        AUTOMATIC_CHECK_INTERVAL_S, ge=0.1, le=86_400, description="Seconds between two checks of that mode."
    )
    rebalance_moves_per_hour: int = Field(
        0, ge=0, le=REBALANCES_PER_HOUR_MAX, description="Topics that mode moves in an hour; 0 is as the mode has it."
    )
    rebalance_cool_down_s: float = Field(
        TOPIC_COOL_DOWN_S, ge=0, le=86_400, description="Seconds for which no rebalance moves a topic again."
    )
    rebalance_parallel_moves: int = Field(
        PARALLEL_REBALANCE_MOVES, ge=1, le=PARALLEL_MOVES_MAX, description="Topics that a rebalance moves at a time."
    )
    rebalance_excluded_topics: tuple[str, ...] = Field(
        (),
        max_length=BALANCE_RULES_MAX,
        description="Topics that no rebalance moves: /namespace/topic, or /namespace/*.",
    )
    data_dir: Path = Field(Path("danube-data"), description="Folder that holds everything the broker keeps.")
    broker_addr: Address = Field("127.0.0.1:6650", description="host:port for clients; port 0 picks a free one.")
    admin_addr: Address = Field("127.0.0.1:50051", description="host:port for administration; port 0 picks one.")
    prom_exporter: Address | None = Field(None, description="host:port for /metrics and /health; off when not set.")
    schema_http_addr: Address | None = Field(
        None,
        description="host:port for the schema registry over HTTP, as Confluent's clients call it; off when not set.",
    )
    advertised_addr: Url | None = Field(
        None, description="What other brokers and clients are told to dial; broker_addr when not set."
    )
    connect_url: Url | None = Field(
        None, description="What clients are told to dial when a proxy stands in front; advertised_addr when not set."
    )
    cluster_name: str = Field(
        "STANDALONE", min_length=1, description="Name shown to administrators; DANUBE in a cluster without a name."
    )
    bootstrap_namespaces: tuple[Namespace, ...] = Field(
        ("default",), description="Namespaces that exist from the first start, beside `default` and `system`."
    )
    auto_create_topics: bool = Field(
        default=True, description="Whether a producer's first connection creates its topic."
    )
    max_unacked_messages: int = Field(
        limits.UNACKED_MESSAGES_DEFAULT,
        ge=1,
        le=limits.UNACKED_MESSAGES_MAX,
        description="Messages one consumer may hold unacknowledged; small, so that a slow one keeps none from others.",
    )
    ack_timeout_s: float = Field(
        limits.ACK_TIMEOUT_S, gt=0, le=86_400, description="Seconds after which an unacknowledged message is resent."
    )
    max_redelivery_count: int = Field(
        limits.REDELIVERIES_DEFAULT,
        ge=0,
        le=limits.REDELIVERIES_MAX,
        description="How often a message is sent again before poison_policy decides about it.",
    )
    redelivery_delay_s: Delay = Field(
        limits.REDELIVERY_DELAY_BASE_S, description="Seconds before a failed message is sent again."
    )
    redelivery_delay_max_s: Delay = Field(
        limits.REDELIVERY_DELAY_MAX_S, description="Seconds that this delay, which doubles, grows to."
    )
    disconnects_fail: bool = Field(
        default=True,
        description="Whether the message that a consumer had longest counts as failed when its connection breaks.",
    )
    poison_policy: Literal["block", "drop"] = Field(
        "block", description="block: a subscription waits for somebody's decision. drop: the message counts as read."
    )
    subscription_expiry_s: float = Field(
        0,
        ge=0,
        le=limits.MESSAGE_TTL_S_MAX,
        description="Seconds without a consumer after which a subscription is deleted; 0 keeps all.",
    )
    max_producers_per_topic: Limit = Field(0, description="Producers of one topic; 0 is no limit, as in all of these.")
    max_subscriptions_per_topic: Limit = Field(0, description="Subscriptions of one topic.")
    max_consumers_per_topic: Limit = Field(0, description="Connected consumers of one topic.")
    max_consumers_per_subscription: Limit = Field(0, description="Connected consumers of one subscription.")
    max_publish_rate: Limit = Field(0, description="Messages a second that one topic takes.")
    max_publish_rate_bytes: Limit = Field(0, description="Bytes a second that one topic takes.")
    max_subscription_dispatch_rate: Limit = Field(0, description="Messages a second that one subscription sends.")
    max_message_size: Limit = Field(0, description="Bytes of one payload.")
    message_ttl_s: Ttl = Field(
        0, description="Seconds after which a message that was not acknowledged is passed over; 0 is never."
    )
    retention_time_s: RetentionTime = Field(
        0, description="Seconds for which messages are kept; then whole segments of them are deleted. 0 is for ever."
    )
    retention_bytes: RetentionBytes = Field(
        0, description="Bytes of one topic above which its oldest segments are deleted; 0 is no limit."
    )
    retention_drops_unread: bool = Field(
        default=False, description="Whether retention also deletes what a subscription has not acknowledged."
    )
    key_shared_grace_s: float = Field(
        limits.KEY_SHARED_GRACE_S,
        ge=0,
        le=3_600,
        description="Seconds for which a disconnected Key-Shared consumer keeps its keys.",
    )
    durability: Durability = Field(
        Durability.FSYNC, description="fsync: acknowledged when synced. interval, os: faster, a power cut loses some."
    )
    sync_interval_ms: int = Field(
        round(limits.JOURNAL_SYNC_INTERVAL_S * 1_000),
        ge=1,
        le=60_000,
        description="Milliseconds between syncs with `durability: interval`.",
    )
    journal_file_bytes_max: int = Field(
        limits.JOURNAL_FILE_BYTES_MAX, ge=limits.MIB, le=1 << 32, description="Bytes after which a new file starts."
    )
    journal_file_age_s: float = Field(
        0,
        ge=0,
        le=limits.RETENTION_TIME_S_MAX,
        description="Seconds after which a new file starts though the last is small; 0: as retention asks for it.",
    )
    segment_bytes_max: int = Field(
        limits.SEGMENT_BYTES_MAX,
        ge=limits.MIB,
        le=limits.SEGMENT_BYTES_MAX,
        description="Bytes of one segment at most; a segment holds one topic.",
    )
    segment_compression: Literal["none", "zstd"] = Field(
        "none", description="How new segments are compressed; zstd needs the package zstandard before Python 3.14."
    )
    disk_warn_free_bytes: FreeBytes = Field(
        limits.DISK_WARN_BYTES, description="Free bytes on the disk below which the log warns; 0 is never."
    )
    disk_refuse_free_bytes: FreeBytes = Field(
        limits.DISK_REFUSE_BYTES,
        description="Free bytes below which messages are refused until there is room again; 0 is never.",
    )
    cache_bytes_max: int = Field(
        limits.CACHE_BYTES_MAX, ge=0, le=1 << 40, description="Bytes of recent messages kept in memory."
    )
    stream_memory_bytes_max: int = Field(
        limits.STREAM_MEMORY_BYTES_MAX,
        ge=limits.STREAM_MEMORY_BYTES_MIN,
        le=1 << 40,
        description="Bytes in memory of messages that clients' streams were not sent yet; they share it fairly.",
    )
    rpc_engine: RpcEngine = Field(
        DEFAULT_ENGINE, description="Carrier of calls: http2, which is Danube's own, or grpc, the library grpcio."
    )
    event_loop: EventLoop = Field(
        EventLoop.AUTO, description="Event loop: auto, which is uvloop where it is installed, or asyncio, or uvloop."
    )
    telemetry_interval_s: TelemetryInterval = Field(
        limits.TELEMETRY_INTERVAL_S,
        description="Seconds between two publications of changes to /system/telemetry; 0 is off.",
    )
    telemetry_retention_s: RetentionTime = Field(
        limits.TELEMETRY_RETENTION_S,
        description="Seconds for which /system/telemetry keeps its records, read or not; 0 is for ever.",
    )
    telemetry_retention_bytes: RetentionBytes = Field(
        limits.TELEMETRY_RETENTION_BYTES,
        description="Bytes of /system/telemetry above which its oldest segments are deleted; 0 is no limit.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is logged.")
    log_format: LogFormat = Field("text", description="text, or json with one object a line.")

    @model_validator(mode="before")
    @classmethod
    def _infer_mode(cls, given: Any) -> Any:  # noqa: ANN401 - whatever was given
        """Infer the mode from the metadata store where it is not set."""
        if not isinstance(given, Mapping):
            return given
        values = dict(given)
        kept = values.get("meta_store")
        values.setdefault("mode", Mode.CLUSTER if means_cluster(kept) else Mode.STANDALONE)
        if values["mode"] == Mode.CLUSTER:
            values.setdefault("cluster_name", "DANUBE")
        return values

    @model_validator(mode="after")
    def _check_mode(self) -> Self:
        kind = self.meta_store.type
        if kind is MetaStoreType.MEMORY if self.mode is Mode.CLUSTER else kind.is_service:
            keeps = "that its brokers share: raft, etcd or zookeeper" if self.mode is Mode.CLUSTER else "raft or memory"
            raise ValueError(f"the mode {self.mode} goes with a meta_store.type {keeps}, and the type is {kind}")
        if self.mode is Mode.STANDALONE and (self.meta_store.seed_nodes or self.meta_store.join):
            raise ValueError("meta_store.seed_nodes and meta_store.join are for the mode cluster: set it, or neither")
        if self.mode is Mode.STANDALONE and self.storage.mode.shares_logs:
            raise ValueError(
                f"the storage.mode {self.storage.mode} is for brokers of a cluster: set mode cluster as well"
            )
        if self.storage.mode is StorageMode.OBJECT_STORE and self.object_store.url is None:
            raise ValueError("the storage.mode object_store needs a bucket: set object_store.url to s3://bucket/prefix")
        if self.storage.mode is not StorageMode.OBJECT_STORE and self.object_store.journal == "local":
            raise ValueError("object_store.journal local goes with the storage.mode object_store: set both, or neither")
        return self

    @property
    def cluster_mode(self) -> StorageMode:
        """The mode that the brokers of a cluster agree on."""
        is_local = self.object_store.journal == "local"
        return StorageMode.OBJECT_STORE_LOCAL if is_local else self.storage.mode


def load_broker_settings(
    path: Path | None, environment: Mapping[str, str], flags: Mapping[str, Any]
) -> Loaded[BrokerSettings]:
    """Settings from a file (ours or the original's), the environment and flags. Raises SettingsError.

    The warnings list what an original's file asks for and this version does not have.
    """
    content = {} if path is None else read_settings_file(path)
    values, warnings = translate_original(content, str(path))
    loaded = load_settings(BrokerSettings, file=values, file_name=str(path), environment=environment, flags=flags)
    if path is not None:
        warnings += _check_secrets(values, path, leaves(content, list(fields_of(BrokerSettings))))
    return replace(loaded, warnings=tuple(warnings))


def _check_secrets(values: Mapping[str, Any], path: Path, own: Mapping[str, Any]) -> list[str]:
    """Refuse a settings file that holds a secret and that others can read; a warning for one of the original's keys.

    The original reads its file whatever its mode is, and its files are to be taken as they are.
    """
    warnings: list[str] = []
    for key, field in fields_of(BrokerSettings).items():
        if SecretStr not in get_args(field.annotation) or not values.get(key):
            continue
        try:
            check_private(path, key, otherwise=f", or keep it in a file of its own, {key}_file")
        except SettingsError as error:
            if key in own:
                raise
            warnings.append(str(error))
    return warnings
