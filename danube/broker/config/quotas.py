"""Settings of the group `quotas`: what one namespace, or one principal, may take of this broker."""

import re

from pydantic import BaseModel, ConfigDict, Field, field_validator

from danube.model.limits.security import QUOTA_EXCEPTIONS_MAX, QUOTA_MAX

_EXCEPTION = re.compile(
    r"(?P<who>[^/=\s]+)/(?P<limit>topics|stored_bytes|streams|bytes_in_s|bytes_out_s)=(?P<most>\d{1,15})"
)
_OF_NAMESPACES = frozenset({"topics", "stored_bytes"})


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
    exceptions: tuple[str, ...] = Field(
        (),
        max_length=QUOTA_EXCEPTIONS_MAX,
        description="Limits of one alone, 0 for none: `payments/topics=100`, `user:ada/streams=20`.",
    )

    @field_validator("exceptions")
    @classmethod
    def _readable(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for text in given:
            found = _EXCEPTION.fullmatch(text)
            if found is None or (":" in found["who"] and found["limit"] in _OF_NAMESPACES):
                raise ValueError(f"{text[:80]!r} is no quota: write namespace/limit=number or user:name/limit=number")
        return given

    def of_each(self) -> dict[str, dict[str, int]]:
        """Limits of the exceptions, by namespace or principal; a principal has a colon in its name."""
        limits: dict[str, dict[str, int]] = {}
        for found in map(_EXCEPTION.fullmatch, self.exceptions):
            if found is not None:
                limits.setdefault(found["who"], {})[found["limit"]] = int(found["most"])
        return limits
