"""Settings of the group `quotas`: what one namespace, or one principal, may take of this broker."""

from pydantic import BaseModel, ConfigDict, Field

from danube.model.limits.security import QUOTA_MAX


class QuotaSettings(BaseModel):
    """Settings of the group `quotas`; 0 is no limit. The namespace `system` has none, nor have brokers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    namespace_topics: int = Field(0, ge=0, le=QUOTA_MAX, description="Topics of one namespace, partitions counted.")
    namespace_stored_bytes: int = Field(
        0, ge=0, le=QUOTA_MAX, description="Bytes that this broker stores of one namespace; above it publishes fail."
    )
    namespace_streams: int = Field(0, ge=0, le=QUOTA_MAX, description="Open streams to topics of one namespace.")
    namespace_bytes_in_s: int = Field(0, ge=0, le=QUOTA_MAX, description="Bytes a second published to one namespace.")
    namespace_bytes_out_s: int = Field(0, ge=0, le=QUOTA_MAX, description="Bytes a second read from one namespace.")
    principal_streams: int = Field(0, ge=0, le=QUOTA_MAX, description="Streams that one principal has open.")
    principal_bytes_in_s: int = Field(0, ge=0, le=QUOTA_MAX, description="Bytes a second that one principal publishes.")
    principal_bytes_out_s: int = Field(0, ge=0, le=QUOTA_MAX, description="Bytes a second that one principal reads.")
