"""Settings of an object store: a bucket with a prefix, and the way to it. Pure."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Self
from urllib.parse import urlsplit

from danube.model.errors import SettingsError

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,221}")
_PREFIX = re.compile(r"[A-Za-z0-9!_.*'()=+@,:/-]{0,512}")
_SCHEMES = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "gcs": "gs",
    "az": "az",
    "azblob": "az",
    "abfs": "az",
    "memory": "memory",
}


class Adapter(StrEnum):
    """Library that carries the requests."""

    S3FS = "s3fs"
    OBSTORE = "obstore"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectPlace:
    """A bucket with a prefix, and the way to it.

    Keys that are not given come from the environment, a profile, or the machine's role.
    """

    scheme: str
    """s3, gs, az, or memory for tests."""
    bucket: str
    prefix: str = ""
    """Ends with `/` unless it is empty."""
    adapter: Adapter = Adapter.S3FS
    endpoint: str | None = None
    region: str | None = None
    access_key: str | None = None
    secret_key: str | None = None
    session_token: str | None = None
    profile: str | None = None
    ca_file: str | None = None
    virtual_host_style: bool = False

    @classmethod
    def of(cls, url: str, **rest: object) -> Self:
        """The place that `url` names, such as `s3://bucket/prefix`. Raises SettingsError."""
        parts = urlsplit(url)
        scheme = _SCHEMES.get(parts.scheme)
        if scheme is None:
            raise SettingsError(
                f"{parts.scheme or 'no scheme'} in object_store.url is not known: give s3://bucket/prefix,"
                " gs://bucket/prefix or az://container/prefix"
            )
        if not _BUCKET.fullmatch(parts.netloc):
            raise SettingsError(f"{parts.netloc!r} in object_store.url is no name of a bucket: give s3://bucket/prefix")
        prefix = parts.path.strip("/")
        if not _PREFIX.fullmatch(prefix) or "//" in prefix or parts.query or parts.fragment:
            raise SettingsError(
                f"the prefix {prefix!r} in object_store.url has characters that not every store keeps: use"
                " letters, digits and any of !-_.*'()=+@,:/"
            )
        return cls(scheme=scheme, bucket=parts.netloc, prefix=f"{prefix}/" if prefix else "", **rest)  # type: ignore[arg-type]

    @property
    def url(self) -> str:
        """The place in words; it holds no secret."""
        return f"{self.scheme}://{self.bucket}/{self.prefix}"
