"""Records of proofs: API keys at rest, and revocations of tokens."""

from dataclasses import dataclass

from danube.model.security.principal import PrincipalKind, TokenScope


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    """Tokens that are void before their time: one by its id, or all of a subject that were issued before a moment."""

    id: str
    token_id: str = ""
    subject: str = ""
    issued_before_ms: int = 0
    """0 for all."""
    reason: str = ""
    revoked_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """API key at rest: a digest of its secret part, never the key."""

    id: str
    principal_type: PrincipalKind
    principal_name: str
    digest: str
    """SHA-256 of the secret, in hexadecimal. The secret has 256 random bits, so no slow hash is needed."""
    scope: TokenScope = TokenScope.ADMIN
    created_ms: int = 0
    expires_ms: int = 0
    """0 for never."""
