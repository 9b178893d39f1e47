"""Tokens: JSON Web Tokens that name a principal, issued with a secret and verified with pinned algorithms.

HS256 with the claims of the original (`danube-core/src/jwt.rs`): iss, exp, sub, principal_type, principal_name. Beside
it RS256, ES256 and EdDSA by public keys. The algorithm is that of the key, never the one that a token names: so no
token makes a public key a secret (RFC 8725, 3.1).
"""

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from danube.model.errors import SettingsError, UnauthenticatedError
from danube.model.limits.security import (
    RSA_BITS_MIN,
    TOKEN_BYTES_MAX,
    TOKEN_KEYS_MAX,
    TOKEN_LEEWAY_S,
    TOKEN_SECRET_BYTES_MIN,
)
from danube.model.security.principal import Principal, PrincipalKind, PrincipalName, TokenScope
from danube.model.untrusted_json import decode_json

if TYPE_CHECKING:
    from jwt.types import Options

_FORM = re.compile(r"[\w-]+\.([\w-]+)\.[\w-]+", re.ASCII)
_PUBLIC = ("RS256", "ES256", "EdDSA")
_OPTIONS: "Options" = {
    "require": ["exp", "sub"],
    "verify_signature": True,
    "verify_exp": False,  # against the broker's clock, in `_checked`
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenKey:
    """Key that verifies tokens, and the one algorithm that it is for."""

    algorithm: str
    key: Any
    key_id: str = ""
    """`kid` of its tokens; empty for tokens without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenClaims:
    """Claims of a token; times in Unix seconds."""

    principal: PrincipalName
    expires_s: float
    issuer: str
    issued_s: float = 0.0
    token_id: str = ""
    scope: TokenScope = TokenScope.ADMIN
    audience: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """Keys and claims that a token has to match. Several keys at once allow their rotation."""

    keys: tuple[TokenKey, ...]
    issuer: str
    audience: str = ""
    """Empty: a token may have none."""

    def verify(self, token: str, now_s: float) -> Principal:
        """The principal of a token. Raises UnauthenticatedError, which never repeats the token."""
        if len(token) > TOKEN_BYTES_MAX:
            raise UnauthenticatedError(f"the token is longer than {TOKEN_BYTES_MAX} bytes")
        claims = self._decoded(token)
        return _checked(claims, self, now_s)

    def _decoded(self, token: str) -> Mapping[str, Any]:
        import jwt  # noqa: PLC0415 - it loads 12 MB that a broker without security does not need

        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise UnauthenticatedError("the token is no JSON Web Token") from None
        if header.get("crit") or header.get("b64") is False:
            raise UnauthenticatedError("the token asks for extensions (crit) that are not known here")
        for key in self._candidates(header):
            try:
                return jwt.decode(token, key.key, algorithms=[key.algorithm], options=_OPTIONS)
            except jwt.MissingRequiredClaimError as error:
                raise UnauthenticatedError(f"the token has no claim {error.claim}") from None
            except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
                continue
        raise UnauthenticatedError("the token is not signed by a key of this cluster")

    def _candidates(self, header: Mapping[str, Any]) -> Sequence[TokenKey]:
        """Keys of the algorithm and the key id that a token names; without a key id all of its algorithm."""
        named = header.get("kid")
        same = [key for key in self.keys if key.algorithm == header.get("alg")]
        return [key for key in same if not isinstance(named, str) or key.key_id in {"", named}]


def claimed_principal(token: str) -> PrincipalName:
    """The principal that a token names, unverified: for what is shown, never for a decision.

    Raises UnauthenticatedError for what is no JSON Web Token.
    """
    found = _FORM.fullmatch(token) if len(token) <= TOKEN_BYTES_MAX else None
    body = found[1] if found else ""
    try:
        claims = decode_json(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except ValueError:
        claims = None
    if not isinstance(claims, dict):
        raise UnauthenticatedError("the token is no JSON Web Token")
    return _principal(claims)


def _checked(claims: Mapping[str, Any], rules: TokenRules, now_s: float) -> Principal:
    expires_s, not_before_s = _seconds(claims, "exp"), _seconds(claims, "nbf")
    if expires_s is None or expires_s + TOKEN_LEEWAY_S <= now_s:
        raise UnauthenticatedError("the token has expired: issue a new one (danube-admin security tokens create)")
    if not_before_s is not None and not_before_s - TOKEN_LEEWAY_S > now_s:
        raise UnauthenticatedError("the token is not valid yet (claim nbf): compare the clocks")
    if claims.get("iss") != rules.issuer:
        raise UnauthenticatedError(f"the token is not of the issuer {rules.issuer} (claim iss)")
    audience = claims.get("aud", [])
    if rules.audience and rules.audience not in (audience if isinstance(audience, list) else [audience]):
        raise UnauthenticatedError(f"the token is not for {rules.audience} (claim aud)")
    return Principal(
        id=_principal(claims),
        scope=_scope(claims),
        token_id=_text(claims, "jti"),
        names_kind="principal_type" in claims,
        subject=_text(claims, "sub"),
        issued_s=_seconds(claims, "iat") or 0.0,
        expires_s=expires_s + TOKEN_LEEWAY_S,
    )


def _principal(claims: Mapping[str, Any]) -> PrincipalName:
    kind = claims.get("principal_type", PrincipalKind.SERVICE_ACCOUNT)
    if kind == PrincipalKind.BROKER:
        raise UnauthenticatedError("a token cannot make its bearer a broker: brokers prove it by their certificate")
    name = _text(claims, "principal_name") or _text(claims, "sub")
    if not name:
        raise UnauthenticatedError("the token names no principal (claims principal_name, sub)")
    known = PrincipalKind.USER if kind == PrincipalKind.USER else PrincipalKind.SERVICE_ACCOUNT
    return PrincipalName(known, name)


def _scope(claims: Mapping[str, Any]) -> TokenScope:
    """The largest of our scopes among the words of `scope` (RFC 8693, 4.2).

    Identity providers put words of other services there (`openid profile`): those neither grant nor limit anything.
    """
    given = claims.get("scope", "")
    if not isinstance(given, str):
        raise UnauthenticatedError("the token's claim scope is no text of words with spaces between")
    words = set(given.split())
    return next((scope for scope in reversed(TokenScope) if scope in words), TokenScope.ADMIN)


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name, "")
    return value if isinstance(value, str) else ""


def _seconds(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1 << 53:
        raise UnauthenticatedError(f"the token's claim {name} is no time")
    return float(value)


def issue(claims: TokenClaims, secret: bytes, *, key_id: str = "") -> str:
    """A token signed with HS256. Raises SettingsError for a secret that is too short to be one."""
    import jwt  # noqa: PLC0415 - it loads 12 MB that a broker without security does not need

    secret_key(secret)
    body: dict[str, Any] = {
        "iss": claims.issuer,
        "exp": int(claims.expires_s),
        "sub": claims.principal.name,
        "principal_type": str(claims.principal.kind),
        "principal_name": claims.principal.name,
    }
    body |= {"iat": int(claims.issued_s)} if claims.issued_s else {}
    body |= {"jti": claims.token_id} if claims.token_id else {}
    body |= {"scope": str(claims.scope)} if claims.scope is not TokenScope.ADMIN else {}
    body |= {"aud": claims.audience} if claims.audience else {}
    return jwt.encode(body, secret, algorithm="HS256", headers={"kid": key_id} if key_id else None)


def secret_key(secret: bytes, key_id: str = "") -> TokenKey:
    """Key of HS256. Raises SettingsError for a secret that is too short to be one (RFC 7518, 3.2)."""
    if len(secret) < TOKEN_SECRET_BYTES_MIN:
        raise SettingsError(
            f"the secret of tokens has {len(secret)} bytes, and needs {TOKEN_SECRET_BYTES_MIN}: make one with"
            " `openssl rand -hex 32`"
        )
    return TokenKey(algorithm="HS256", key=secret, key_id=key_id)


def public_key(pem: bytes, key_id: str = "") -> TokenKey:
    """Key of RS256, ES256 or EdDSA from a public key in PEM. Raises SettingsError."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa  # noqa: PLC0415 - half a second to load
    from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: PLC0415 - the same

    try:
        key = load_pem_public_key(pem)
    except ValueError:
        raise SettingsError("a key of tokens is no public key in PEM") from None
    if isinstance(key, rsa.RSAPublicKey) and key.key_size >= RSA_BITS_MIN:
        return TokenKey(algorithm="RS256", key=key, key_id=key_id)
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        return TokenKey(algorithm="ES256", key=key, key_id=key_id)
    if isinstance(key, ed25519.Ed25519PublicKey):
        return TokenKey(algorithm="EdDSA", key=key, key_id=key_id)
    raise SettingsError("a key of tokens is of no kind that is known: use RSA from 2,048 bits, P-256 or Ed25519")


def key_set(document: Mapping[str, Any]) -> tuple[TokenKey, ...]:
    """Keys of a JSON Web Key Set (RFC 7517); keys of other kinds are left out. Raises SettingsError."""
    import jwt  # noqa: PLC0415 - it loads 12 MB that a broker without security does not need

    entries = document.get("keys")
    if not isinstance(entries, list):
        raise SettingsError("a JSON Web Key Set has a list `keys`")
    found = []
    for entry in entries[:TOKEN_KEYS_MAX]:
        if not isinstance(entry, dict) or entry.get("use", "sig") != "sig" or entry.get("kty") == "oct" or "d" in entry:
            continue
        try:
            key = jwt.PyJWK.from_dict(entry)
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
        is_short = key.key_type == "RSA" and key.key.key_size < RSA_BITS_MIN
        if key.algorithm_name in _PUBLIC and not is_short:
            found.append(TokenKey(algorithm=key.algorithm_name, key=key.key, key_id=key.key_id or ""))
    return tuple(found)
