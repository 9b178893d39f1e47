"""Requests and answers about security that are no records themselves."""

from dataclasses import dataclass

from danube.model.security.grants import BindingScope, Permission
from danube.model.security.principal import PrincipalKind, TokenScope


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingKey:
    """One binding within its scope."""

    scope: BindingScope
    resource_name: str = ""
    binding_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingsOf:
    """The bindings of one scope and resource."""

    scope: BindingScope
    resource_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainAccess:
    """Ask whether a principal may do something."""

    principal_type: str = ""
    """Empty with the name for the caller itself."""
    principal_name: str = ""
    permission: Permission
    resource: str = ""
    """`/namespace/topic`, or a namespace; empty for the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessExplained:
    """The decision, with its reason."""

    allowed: bool
    reason: str
    binding_id: str = ""
    """Of the binding that grants it, or of the nearest one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeTokens:
    """Void one token by its id, or those of a subject that were issued before a moment."""

    token_id: str = ""
    subject: str = ""
    issued_before_ms: int = 0
    """0 for all."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateApiKey:
    """Make an API key for a principal."""

    principal_type: PrincipalKind
    principal_name: str
    scope: TokenScope
    expires_ms: int = 0
    """0 for never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeyCreated:
    """The one time that a key is shown."""

    id: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeyInfo:
    """An API key without anything secret."""

    id: str
    principal_type: PrincipalKind
    principal_name: str
    scope: TokenScope
    created_ms: int
    expires_ms: int
