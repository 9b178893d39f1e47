"""Sections of the original's connectors that have none of ours yet: their files are read and checked."""

from typing import Literal

from pydantic import Field, SecretStr

from danube.connect.config.routes import Section, SinkRoute, SinkSettings, SourceRoute, SourceSettings
from danube.model.topic import DispatchStrategy


class MqttRoute(SourceRoute):
    """A subscription to topics of MQTT."""

    qos: Literal["AtMostOnce", "AtLeastOnce", "ExactlyOnce"] = "AtLeastOnce"

    @property
    def strategy(self) -> DispatchStrategy:
        """As the file says, else as the quality of service promises."""
        if self.reliable_dispatch is None and self.qos == "AtMostOnce":
            return DispatchStrategy.NON_RELIABLE
        return super().strategy


class MqttSettings(SourceSettings):
    """`[mqtt]`."""

    broker_host: str = "localhost"
    broker_port: int = Field(default=1_883, ge=1, le=65_535)
    client_id: str = ""
    username: str | None = None
    password: SecretStr | None = None
    use_tls: bool = False
    keep_alive_secs: int = Field(default=60, ge=0)
    connection_timeout_secs: int = Field(default=30, ge=1)
    max_packet_size: int = Field(default=10_485_760, ge=1)
    clean_session: bool = True
    include_metadata: bool = True
    routes: tuple[MqttRoute, ...] = Field(min_length=1)


class FieldMapping(Section):
    """A field of JSON as a column."""

    json_path: str
    column: str
    data_type: str = "Utf8"
    nullable: bool = True


class DeltaRoute(SinkRoute):
    """A topic as a table of Delta Lake."""

    write_mode: Literal["append", "overwrite"] = "append"
    include_danube_metadata: bool = False
    field_mappings: tuple[FieldMapping, ...] = ()


class DeltaSettings(SinkSettings):
    """`[deltalake]`."""

    storage_backend: Literal["s3", "azure", "gcs"] = "s3"
    s3_region: str | None = None
    s3_endpoint: str | None = None
    s3_allow_http: bool = False
    azure_storage_account: str | None = None
    azure_container: str | None = None
    gcp_project_id: str | None = None
    gcs_bucket: str | None = None
    routes: tuple[DeltaRoute, ...] = Field(min_length=1)


class QdrantRoute(SinkRoute):
    """A topic as a collection of Qdrant."""

    vector_dimension: int = Field(ge=1)
    distance: Literal["Cosine", "Euclid", "Dot", "Manhattan"] = "Cosine"
    auto_create_collection: bool = True
    include_danube_metadata: bool = True


class QdrantSettings(SinkSettings):
    """`[qdrant]`."""

    url: str
    api_key: SecretStr | None = None
    timeout_secs: int = Field(default=30, ge=1)
    routes: tuple[QdrantRoute, ...] = Field(min_length=1)


class SurrealRoute(SinkRoute):
    """A topic as a table of SurrealDB."""

    storage_mode: Literal["Document", "TimeSeries"] = "Document"
    include_danube_metadata: bool = True


class SurrealSettings(SinkSettings):
    """`[surrealdb]`."""

    url: str
    namespace: str = "default"
    database: str = "default"
    username: str | None = None
    password: SecretStr | None = None
    connection_timeout_secs: int = Field(default=30, ge=1)
    request_timeout_secs: int = Field(default=30, ge=1)
    routes: tuple[SurrealRoute, ...] = Field(min_length=1)
