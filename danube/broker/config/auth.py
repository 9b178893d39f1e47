"""Settings of the group `auth`: TLS, tokens, and who administers security."""

from enum import StrEnum
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator


class AuthMode(StrEnum):
    """Kind of security, by the original's words."""

    NONE = "none"
    TLS = "tls"
    TLS_WITH_JWT = "tlswithjwt"
    """The same; the original's older files have this word."""


class ApprovalPolicy(StrEnum):
    """Plans that wait for somebody else's approval."""

    CALLER = "caller"
    DESTROY = "destroy"
    MOVE = "move"


class AuthSettings(BaseModel):
    """Settings of the group `auth`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: AuthMode = Field(
        AuthMode.NONE,
        description="none: anybody may do everything, without TLS. tls: TLS on both ports; callers prove who they are"
        " by a token or a client certificate, and do what roles grant.",
    )
    tls_cert: Path | None = Field(
        None, description="PEM file of this broker's certificate; read again when it changes."
    )
    tls_key: Path | None = Field(None, description="PEM file of its key, for its owner alone.")
    tls_ca: Path | None = Field(
        None, description="PEM file of who signs the certificates of clients and of the other brokers."
    )
    tls_requires_client: bool = Field(
        default=False, description="Whether clients without a certificate are refused; else they may send a token."
    )
    admin_tls: bool = Field(default=True, description="Whether the admin port has TLS as well, with auth.mode tls.")
    http_tls: bool = Field(
        default=True,
        description="Whether the ports of metrics and of schemas over HTTP have TLS as well, with auth.mode tls.",
    )
    jwt_secret: SecretStr | None = Field(None, description="Secret of tokens (HS256), of 32 bytes or more.")
    jwt_secret_file: Path | None = Field(
        None,
        description="File with one or more such secrets, a line each, as `key-id:secret` or alone; the first issues.",
    )
    jwt_public_keys: tuple[Path, ...] = Field(
        (), description="PEM files of public keys of tokens (RSA, P-256, Ed25519)."
    )
    jwt_key_set_file: Path | None = Field(None, description="File with a JSON Web Key Set; read again when it changes.")
    jwt_key_set_url: str | None = Field(
        None,
        pattern=r"^https://|^http://(127\.0\.0\.1|localhost|\[::1\])[:/]",
        description="URL of a JSON Web Key Set; read again every five minutes, and when an unknown key signs.",
    )
    jwt_key_set_ca: Path | None = Field(
        None, description="PEM file of who signed the certificate there; else the system's authorities."
    )
    jwt_issuer: str = Field("danube-auth", min_length=1, description="Issuer that a token must name (iss).")
    jwt_audience: str = Field("", description="Audience that a token must name (aud); empty: none is asked for.")
    super_admins: tuple[str, ...] = Field(
        (),
        description="Principals that pass every check, the first administrators: user:NAME or service_account:NAME."
        " A name alone is a user's, or that of a token that names no kind.",
    )
    broker_names: tuple[str, ...] = Field(
        (), description="Common names of the certificates of this cluster's brokers; they act as the cluster itself."
    )
    cluster_secret_file: Path | None = Field(
        None, description="File with a secret that only the brokers know, by which they know each other."
    )
    approval: ApprovalPolicy = Field(
        ApprovalPolicy.CALLER,
        description="caller: a plan waits for approval if its caller asks for that. destroy: every plan that destroys"
        " waits. move: those that move, too.",
    )
    two_person: bool = Field(
        default=False, description="Whether somebody else than who asked for a plan has to approve it."
    )

    @property
    def is_on(self) -> bool:
        """True if callers have to prove who they are."""
        return self.mode is not AuthMode.NONE

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.jwt_secret is not None and self.jwt_secret_file is not None:
            raise ValueError("give auth.jwt_secret or auth.jwt_secret_file, not both")
        if not self.is_on:
            given = sorted(self.model_fields_set - {"mode", "admin_tls", "http_tls"})
            if given:
                raise ValueError(f"auth.{given[0]} has no effect with auth.mode none: set auth.mode tls")
            return self
        if self.tls_cert is None or self.tls_key is None:
            raise ValueError(
                "auth.mode tls needs auth.tls_cert and auth.tls_key: `danube-broker certs init FOLDER` makes them for"
                " trying it out"
            )
        if self.tls_requires_client and self.tls_ca is None:
            raise ValueError("auth.tls_requires_client needs auth.tls_ca: who signs the clients' certificates")
        if self.broker_names and self.tls_ca is None:
            raise ValueError("auth.broker_names needs auth.tls_ca: who signs the brokers' certificates")
        if not self.has_tokens and self.tls_ca is None:
            raise ValueError(
                "nobody could prove who they are: set auth.jwt_secret_file, auth.jwt_public_keys or auth.tls_ca"
            )
        return self

    @property
    def has_tokens(self) -> bool:
        """True if callers may prove who they are by a token."""
        given = (self.jwt_secret, self.jwt_secret_file, self.jwt_key_set_file, self.jwt_key_set_url)
        return bool(self.jwt_public_keys) or any(one is not None for one in given)
