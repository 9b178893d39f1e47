"""Settings of webhooks in: the original's file."""

from typing import Literal

from pydantic import Field, model_validator

from danube.connect.config.routes import Section, SourceRoute, SourceSettings
from danube.model.limits.broker import MESSAGE_BYTES_MAX
from danube.model.limits.faces import WEBHOOK_BODY_BYTES_DEFAULT


class Server(Section):
    """`[server]`: the port."""

    host: str = "0.0.0.0"  # noqa: S104 - as the original; requests come from other machines
    port: int = Field(default=8_080, ge=0, le=65_535)
    timeout_seconds: float = Field(default=30, gt=0, le=600)
    max_body_size: int = Field(default=WEBHOOK_BODY_BYTES_DEFAULT, ge=1, le=MESSAGE_BYTES_MAX)


class Auth(Section):
    """`[auth]`: the proof that a request has to bring."""

    type: Literal["none", "apikey", "hmac", "jwt"]
    secret_env: str = ""
    """Variable with the key, or with the secret of signatures and tokens."""
    header: str = ""
    """Of the key, the signature or the token."""
    algorithm: str = ""
    """sha256 or sha512 of a signature; HS256, RS256, ES256, ... of a token."""
    style: Literal["", "standard", "stripe", "github", "plain"] = ""
    """Form of a signature; told by the header where it is left out."""
    public_key_path: str = ""
    """Of tokens with a public key, its PEM file."""
    issuer: str | None = None
    audience: str | None = None

    @model_validator(mode="after")
    def _complete(self) -> "Auth":
        if self.type in {"apikey", "hmac"} and not self.secret_env:
            raise ValueError(f"type {self.type} needs secret_env: name the variable that has the secret")
        if self.type == "jwt" and bool(self.secret_env) == bool(self.public_key_path):
            raise ValueError("type jwt needs secret_env or public_key_path, one of them")
        return self


class RateLimit(Section):
    """`[rate_limit]`: requests a second, of all together and of each address."""

    requests_per_second: float = Field(gt=0)
    burst_size: int = Field(default=0, ge=0)
    """0 is one second's worth."""
    per_ip_enabled: bool = False
    per_ip_requests_per_second: float = Field(default=10, gt=0)


class WebhookRoute(SourceRoute):
    """A path, and the topic of its requests."""

    source: str = Field(alias="from", pattern=r"^/[^?#]*$", description="Path of the requests.")
    key_header: str = Field(default="", description="Header with the routing key.")
    idempotency_header: str = Field(default="", description="Header with an id; webhook-id and the like without it.")
    auth: Auth | None = Field(default=None, description="In place of the [auth] of all.")
    rate_limit: RateLimit | None = Field(default=None, description="Beside the [rate_limit] of all.")


class WebhookSettings(SourceSettings):
    """All sections."""

    server: Server = Server()
    auth: Auth = Field(description="type = 'none' has to be said: nobody is let in by mistake.")
    rate_limit: RateLimit | None = None
    routes: tuple[WebhookRoute, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _paths(self) -> "WebhookSettings":
        paths = [route.source for route in self.routes]
        twice = next((path for path in paths if paths.count(path) > 1), None)
        if twice is not None:
            raise ValueError(f"two routes have the path {twice}: give each its own")
        return self
