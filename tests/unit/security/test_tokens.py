"""Tokens: who they name, and every way in which one is refused."""

import hashlib
import hmac
import json
from base64 import urlsafe_b64encode
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from danube.model.errors import SettingsError, UnauthenticatedError
from danube.model.limits.security import TOKEN_BYTES_MAX, TOKEN_LEEWAY_S
from danube.model.security.principal import PrincipalKind, PrincipalName, TokenScope
from danube.security.tokens import TokenClaims, TokenRules, issue, key_set, public_key, secret_key

SECRET = b"a secret of thirty-two bytes or more"
NOW_S = 1_800_000_000.0
RULES = TokenRules(keys=(secret_key(SECRET),), issuer="danube-auth")
CLAIMS: dict[str, Any] = {
    "iss": "danube-auth",
    "exp": int(NOW_S) + 3_600,
    "sub": "orders",
    "principal_type": "service_account",
    "principal_name": "orders",
}


def token(secret: bytes = SECRET, *, drop: str = "", headers: dict[str, Any] | None = None, **claims: Any) -> str:
    body = {key: value for key, value in {**CLAIMS, **claims}.items() if key != drop}
    return jwt.encode(body, secret, algorithm="HS256", headers=headers)


def test_a_token_as_the_original_issues_it_names_its_principal() -> None:
    principal = RULES.verify(token(), NOW_S)
    assert principal.id == PrincipalName(PrincipalKind.SERVICE_ACCOUNT, "orders")
    assert principal.scope is TokenScope.ADMIN


def test_an_issued_token_is_verified_with_its_scope_and_its_id() -> None:
    claims = TokenClaims(
        principal=PrincipalName(PrincipalKind.USER, "ada"),
        expires_s=NOW_S + 60,
        issuer="danube-auth",
        issued_s=NOW_S,
        token_id="t1",
        scope=TokenScope.OBSERVER,
    )
    principal = RULES.verify(issue(claims, SECRET), NOW_S)
    assert (principal.id, principal.scope, principal.token_id) == (claims.principal, TokenScope.OBSERVER, "t1")
    assert principal.issued_s == NOW_S


def unsigned() -> str:
    parts = [json.dumps({"alg": "none", "typ": "JWT"}), json.dumps(CLAIMS)]
    return ".".join(urlsafe_b64encode(part.encode()).rstrip(b"=").decode() for part in parts) + "."


REFUSED = {
    "garbage": "no token at all",
    "empty": "",
    "too long": "x" * (TOKEN_BYTES_MAX + 1),
    "unsigned": unsigned(),
    "signed by another secret": token(b"another secret of thirty-two bytes and more"),
    "expired": token(exp=int(NOW_S) - TOKEN_LEEWAY_S),
    "without an end": token(drop="exp"),
    "without a subject": token(drop="sub"),
    "of the future": token(nbf=int(NOW_S) + TOKEN_LEEWAY_S + 1),
    "with an end that is no time": token(exp=1 << 60),
    "of another issuer": token(iss="somebody"),
    "without an issuer": token(drop="iss"),
    "of a broker": token(principal_type="broker_internal"),
    "of no name": token(sub="", principal_name=""),
    "of a scope that is no text": token(scope=["observer"]),
    "of a key that is not known": token(headers={"kid": "other"}),
    "with critical extensions": token(headers={"crit": ["b64"]}),
    "deep": ".".join([urlsafe_b64encode(b"[" * 5_000).decode()] * 3),
}


@pytest.mark.parametrize("given", REFUSED.values(), ids=REFUSED)
def test_what_is_no_token_of_this_cluster_is_refused_without_being_repeated(given: str) -> None:
    rules = TokenRules(keys=(secret_key(SECRET, "ours"),), issuer="danube-auth")
    with pytest.raises(UnauthenticatedError) as caught:
        rules.verify(given, NOW_S)
    assert not given or given not in str(caught.value)


@pytest.mark.parametrize(
    ("words", "scope"),
    [
        ("openid profile email", TokenScope.ADMIN),
        ("openid observer", TokenScope.OBSERVER),
        ("observer operator", TokenScope.OPERATOR),
        ("root", TokenScope.ADMIN),
        ("", TokenScope.ADMIN),
    ],
)
def test_a_scope_is_one_of_several_words_and_those_of_other_services_say_nothing(words: str, scope: TokenScope) -> None:
    assert RULES.verify(token(scope=words), NOW_S).scope is scope


def test_a_token_counts_for_a_leeway_after_its_end() -> None:
    late = RULES.verify(token(exp=int(NOW_S) - TOKEN_LEEWAY_S + 1), NOW_S)
    assert late.expires_s == NOW_S + 1


def test_two_secrets_at_once_allow_their_rotation() -> None:
    newer = b"the secret of tomorrow, also long enough"
    rules = TokenRules(keys=(secret_key(newer, "b"), secret_key(SECRET, "a")), issuer="danube-auth")
    for secret, key_id in ((SECRET, "a"), (newer, "b")):
        assert rules.verify(token(secret, headers={"kid": key_id}), NOW_S).id.name == "orders"
    assert rules.verify(token(), NOW_S).id.name == "orders"  # one without a key id, as the original's


def test_an_audience_is_asked_for_where_one_is_set() -> None:
    rules = TokenRules(keys=RULES.keys, issuer="danube-auth", audience="danube")
    assert rules.verify(token(aud=["x", "danube"]), NOW_S).id.name == "orders"
    with pytest.raises(UnauthenticatedError, match="aud"):
        rules.verify(token(), NOW_S)


RSA = rsa.generate_private_key(65_537, 2_048)
PRIVATE: dict[str, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey] = {
    "RS256": RSA,
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}


@pytest.mark.parametrize("algorithm", PRIVATE)
def test_public_keys_verify_and_are_never_taken_for_a_secret(algorithm: str) -> None:
    private = PRIVATE[algorithm]
    pem = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    rules = TokenRules(keys=(public_key(pem),), issuer="danube-auth")
    good = jwt.encode(CLAIMS, private, algorithm=algorithm)
    assert rules.verify(good, NOW_S).id.name == "orders"
    with pytest.raises(UnauthenticatedError):
        rules.verify(signed_with_the_public_key(pem), NOW_S)


def signed_with_the_public_key(pem: bytes) -> str:
    """A token whose HS256 secret is the text of a public key: libraries refuse to make one, so it is made by hand."""
    parts = [json.dumps({"alg": "HS256", "typ": "JWT"}), json.dumps(CLAIMS)]
    head = ".".join(urlsafe_b64encode(part.encode()).rstrip(b"=").decode() for part in parts)
    mac = hmac.new(pem, head.encode(), hashlib.sha256).digest()
    return f"{head}.{urlsafe_b64encode(mac).rstrip(b'=').decode()}"


def test_a_key_set_gives_its_public_keys_and_no_secret() -> None:
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(RSA.public_key()))
    document = {
        "keys": [
            {**public, "kid": "r", "alg": "RS256", "use": "sig"},
            {"kty": "oct", "k": "c2VjcmV0", "kid": "s", "alg": "HS256"},
            {"kty": "new"},
            "text",
        ]
    }
    assert [(key.algorithm, key.key_id) for key in key_set(document)] == [("RS256", "r")]
    with pytest.raises(SettingsError):
        key_set({})


@pytest.mark.parametrize("secret", [b"", b"short", b"x" * 31])
def test_a_secret_that_is_too_short_is_refused_with_how_to_make_one(secret: bytes) -> None:
    with pytest.raises(SettingsError, match="openssl rand"):
        secret_key(secret)


def test_a_key_of_another_kind_is_refused() -> None:
    weak = rsa.generate_private_key(65_537, 1_024).public_key()
    for pem in (b"text", weak.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)):
        with pytest.raises(SettingsError):
            public_key(pem)
