"""Settings of the object store of `storage.mode` object_store, and of tiering to it."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from danube.model.errors import SettingsError
from danube.model.limits.objects import (
    BATCH_TIMEOUT_MS,
    BATCH_TIMEOUT_MS_MAX,
    OBJECT_CACHE_BYTES,
    TIER_AFTER_S,
    TIER_SEGMENT_BYTES_MIN,
    UPLOAD_LAG_BYTES_MAX,
)
from danube.objects.bill import Prices
from danube.objects.place import Adapter, ObjectPlace

Price = Annotated[float, Field(ge=0, le=1e6)]


class ObjectStoreSettings(BaseModel):
    """A bucket, the way to it, and prices."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str | None = Field(
        None, description="s3://bucket/prefix, gs://bucket/prefix or az://container/prefix; one prefix per cluster."
    )
    adapter: Adapter = Field(
        Adapter.S3FS, description="s3fs: the extra s3. obstore: the extra obstore, which also reaches gs and az."
    )
    endpoint: str | None = Field(None, description="URL of a store that speaks S3, such as MinIO; AWS when not set.")
    region: str | None = Field(None, description="Region of the bucket; AWS_REGION when not set.")
    access_key: str | None = Field(
        None, description="Access key; from AWS_ACCESS_KEY_ID, a profile or the machine's role when not set."
    )
    secret_key: SecretStr | None = Field(None, description="The secret that goes with access_key.")
    session_token: SecretStr | None = Field(None, description="Session token of temporary keys.")
    profile: str | None = Field(None, description="Profile in ~/.aws, with the adapter s3fs.")
    ca_file: Path | None = Field(None, description="Certificate of the authority that signed the store's certificate.")
    virtual_host_style: bool = Field(
        default=False, description="Whether the bucket is a part of the host's name, not of the path."
    )
    journal: Literal["object", "local"] = Field(
        "object",
        description="With the storage.mode object_store. object: a message is acknowledged once it is in the bucket,"
        " and another broker goes on at once. local: once it is synced on the owner's disk; it is uploaded behind that,"
        " and the topic waits for its owner, as local_owner_lost says.",
    )
    upload_lag_bytes_max: int = Field(
        UPLOAD_LAG_BYTES_MAX,
        ge=1 << 20,
        le=1 << 42,
        description="Bytes that may wait to be uploaded with journal local; then messages are refused.",
    )
    batch_timeout_ms: int = Field(
        BATCH_TIMEOUT_MS,
        ge=0,
        le=BATCH_TIMEOUT_MS_MAX,
        description="Milliseconds between two objects of the journal: the choice between latency, or upload lag, and"
        " requests.",
    )
    cache_bytes_max: int = Field(
        OBJECT_CACHE_BYTES, ge=1 << 20, le=1 << 36, description="Bytes of read segments that are kept in memory."
    )
    tier_after_s: float = Field(
        TIER_AFTER_S,
        ge=0,
        le=315_360_000,
        description="Age after which segments of the modes local and shared_fs move into the bucket, if url is set.",
    )
    tier_segment_bytes_min: int = Field(
        TIER_SEGMENT_BYTES_MIN,
        ge=1,
        le=1 << 32,
        description="Bytes of a segment below which it stays on the disk while there is room.",
    )
    price_put_per_million: Price = Field(5.0, description="Dollars for a million PUT and LIST requests.")
    price_get_per_million: Price = Field(0.4, description="Dollars for a million GET and HEAD requests.")
    price_stored_gb_month: Price = Field(0.023, description="Dollars for a GB stored for a month.")
    price_egress_gb: Price = Field(0.0, description="Dollars for a GB read.")

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        try:
            if self.url is not None:
                self.place()
        except SettingsError as error:
            raise ValueError(str(error)) from None
        if (self.access_key is None) != (self.secret_key is None):
            raise ValueError("object_store.access_key goes with object_store.secret_key: give both, or neither")
        return self

    def place(self) -> ObjectPlace:
        """The place that `url` names. Raises SettingsError."""
        secret, token = self.secret_key, self.session_token
        return ObjectPlace.of(
            self.url or "",
            adapter=self.adapter,
            endpoint=self.endpoint,
            region=self.region,
            access_key=self.access_key,
            secret_key=secret.get_secret_value() if secret is not None else None,
            session_token=token.get_secret_value() if token is not None else None,
            profile=self.profile,
            ca_file=str(self.ca_file) if self.ca_file is not None else None,
            virtual_host_style=self.virtual_host_style,
        )

    @property
    def prices(self) -> Prices:
        """Prices of the bill."""
        return Prices(
            put_per_million=self.price_put_per_million,
            get_per_million=self.price_get_per_million,
            stored_gb_month=self.price_stored_gb_month,
            egress_gb=self.price_egress_gb,
        )
