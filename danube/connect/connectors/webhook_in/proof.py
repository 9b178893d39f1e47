"""Proofs of requests: API keys, signatures in the forms of Standard Webhooks, Stripe and GitHub, tokens."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping
from pathlib import Path

from danube.connect.connectors.webhook_in.settings import Auth
from danube.model.errors import SettingsError
from danube.model.limits.faces import WEBHOOK_SIGNATURE_AGE_S
from danube.model.text import install_text

Headers = Mapping[str, str]
"""By lower-case name."""
Proof = Callable[[Headers, bytes, float], str | None]
"""Judges headers and body at a time in seconds since the epoch; answers what is wrong, or None."""
_STYLES = {"webhook-signature": "standard", "stripe-signature": "stripe", "x-hub-signature-256": "github"}
_HASHES = ("sha256", "sha512")


def proof_of(auth: Auth, environment: Mapping[str, str]) -> Proof:
    """The proof that settings ask for. Raises SettingsError without its secret."""
    if auth.type == "none":
        return lambda _headers, _body, _now_s: None
    if auth.type == "jwt":
        return _token(auth, environment)
    secret = _secret(auth, environment)
    if auth.type == "apikey":
        return _key(auth.header.lower() or "x-api-key", secret.encode())
    header = auth.header.lower() or "webhook-signature"
    style = auth.style or _STYLES.get(header, "plain")
    digest = auth.algorithm.lower() or "sha256"
    if digest not in _HASHES:
        raise SettingsError(f"[auth] algorithm {auth.algorithm!r} signs nothing here: use {' or '.join(_HASHES)}")
    if style == "standard":
        return _standard(standard_key(secret))
    if style == "stripe":
        return _stripe(header, secret.encode())
    return _plain(header, secret.encode(), digest)


def standard_signature(key: bytes, message_id: str, time_s: int, body: bytes) -> str:
    """A signature as Standard Webhooks has it: `v1,` and the base64 of the HMAC of id, time and body."""
    signed = b".".join((message_id.encode(), str(time_s).encode(), body))
    return "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()


def standard_key(secret: str) -> bytes:
    """The key of a secret: base64 after `whsec_`, else the text itself."""
    if not secret.startswith("whsec_"):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        raise SettingsError("the secret begins with whsec_ and is no base64 after it: copy it again") from None


def _secret(auth: Auth, environment: Mapping[str, str]) -> str:
    secret = environment.get(auth.secret_env, "")
    if not secret:
        raise SettingsError(f"the variable {auth.secret_env} is empty, and [auth] takes the secret from it: set it")
    return secret


def _key(header: str, key: bytes) -> Proof:
    def judge(headers: Headers, _body: bytes, _now_s: float) -> str | None:
        given = headers.get(header, "").removeprefix("Bearer ")
        return None if hmac.compare_digest(given.encode(), key) else f"the header {header} has no valid key"

    return judge


def _standard(key: bytes) -> Proof:
    def judge(headers: Headers, body: bytes, now_s: float) -> str | None:
        message_id, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
        if (problem := _age_problem(stamp, now_s)) is not None:
            return problem
        wanted = standard_signature(key, message_id, int(stamp), body)
        return _among(wanted, headers.get("webhook-signature", "").split(" "))

    return judge


def _stripe(header: str, key: bytes) -> Proof:
    def judge(headers: Headers, body: bytes, now_s: float) -> str | None:
        pairs = [pair.strip().partition("=") for pair in headers.get(header, "").split(",")]
        stamp = next((value for name, _, value in pairs if name == "t"), "")
        if (problem := _age_problem(stamp, now_s)) is not None:
            return problem
        wanted = hmac.new(key, stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
        return _among(wanted, [value for name, _, value in pairs if name == "v1"])

    return judge


def _plain(header: str, key: bytes, digest: str) -> Proof:
    """Hexadecimal of the body's HMAC, with or without `sha256=` as GitHub has it."""

    def judge(headers: Headers, body: bytes, _now_s: float) -> str | None:
        wanted = hmac.new(key, body, digest).hexdigest()
        return _among(wanted, [headers.get(header, "").removeprefix(f"{digest}=").lower()])

    return judge


def _age_problem(stamp: str, now_s: float) -> str | None:
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 12):
        return "the signature has no time"
    if abs(now_s - int(stamp)) > WEBHOOK_SIGNATURE_AGE_S:
        return "the signature is too old, or the clocks differ"
    return None


def _among(wanted: str, given: list[str]) -> str | None:
    is_there = any(hmac.compare_digest(wanted.encode(), each.encode()) for each in given)
    return None if is_there else "the signature is wrong"


def _token(auth: Auth, environment: Mapping[str, str]) -> Proof:
    try:
        import jwt  # noqa: PLC0415 - an extra
    except ImportError:
        raise SettingsError(f"[auth] type jwt needs PyJWT: install it with {install_text('security')}") from None
    if auth.public_key_path:
        try:
            key: str | bytes = Path(auth.public_key_path).read_bytes()
        except OSError as error:
            raise SettingsError(f"cannot read {auth.public_key_path}: {error.strerror}") from None
    else:
        key = _secret(auth, environment)
    algorithm = auth.algorithm or ("RS256" if auth.public_key_path else "HS256")
    if algorithm.startswith("HS") == bool(auth.public_key_path):
        raise SettingsError(f"[auth] algorithm {algorithm} does not go with its key: HS... is for secret_env alone")

    def judge(headers: Headers, _body: bytes, _now_s: float) -> str | None:
        given = headers.get(auth.header.lower() or "authorization", "").removeprefix("Bearer ")
        try:
            jwt.decode(
                given,
                key,
                algorithms=[algorithm],
                audience=auth.audience,
                issuer=auth.issuer,
                options={"require": ["exp"], "verify_aud": auth.audience is not None},
            )
        except jwt.ExpiredSignatureError:
            return "the token has ended: get a new one"
        except (jwt.PyJWTError, ValueError):
            return "the token is not valid"
        return None

    return judge
