"""Principals: authenticated identities, and the scope that a token sets on them."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class PrincipalKind(StrEnum):
    """Kinds of identities, by the names in tokens and bindings."""

    USER = "user"
    SERVICE_ACCOUNT = "service_account"
    BROKER = "broker_internal"
    """A broker of the cluster, proved by its certificate or the cluster's secret, never by a token or a header."""


class TokenScope(StrEnum):
    """Upper bound that a token sets on what its principal may do, as presets for assistants."""

    OBSERVER = "observer"
    """Reads alone."""
    OPERATOR = "operator"
    """Reads, writes and moves; destroys by plans that somebody else approves."""
    ADMIN = "admin"
    """All that the principal may do, approval included."""


@dataclass(frozen=True, slots=True)
class PrincipalName:
    """Identity without what proved it."""

    kind: PrincipalKind
    name: str

    @classmethod
    def of(cls, text: str) -> Self:
        """The identity that `kind:name` names; a name alone is a user's."""
        kind, _, name = text.rpartition(":")
        known = kind == PrincipalKind.SERVICE_ACCOUNT
        return (
            cls(PrincipalKind.SERVICE_ACCOUNT, name) if known else cls(PrincipalKind.USER, text.removeprefix("user:"))
        )

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Authenticated identity of a caller."""

    id: PrincipalName
    scope: TokenScope = TokenScope.ADMIN
    token_id: str = ""
    names_kind: bool = True
    """False for a token without `principal_type`, as identity providers issue it."""
    subject: str = ""
    """Claim `sub` of the token, where it is another name than the principal's."""
    issued_s: float = 0.0
    """Unix seconds; 0 where the proof does not say."""
    expires_s: float | None = None
    """Unix seconds after which the proof is void; None for never."""

    def __str__(self) -> str:
        return str(self.id)


def name_of(who: str) -> str:
    """The name of a principal without its kind: one person's user and service account are the same somebody."""
    return PrincipalName.of(who).name
