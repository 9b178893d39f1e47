"""Parts of security, built from settings: keys of tokens, certificates, the carrier."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from danube.broker.config.auth import AuthSettings
from danube.broker.config.secret_files import check_private, private_content, public_content
from danube.broker.security.key_sets import keys_of
from danube.model.errors import SettingsError
from danube.security.authentication import Authenticator
from danube.security.certificates import ServerCertificates, TlsFiles, client_tls
from danube.security.cluster_token import ClusterSecret
from danube.security.tokens import TokenKey, TokenRules, public_key, secret_key

if TYPE_CHECKING:
    import ssl


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Proofs of a broker, and checks of those of others."""

    authenticator: Authenticator
    certificates: ServerCertificates
    http_certificates: ServerCertificates
    """The same, for the ports that speak HTTP/1.1."""
    client_tls: "ssl.SSLContext"
    """For connections to other brokers."""
    cluster_secret: ClusterSecret | None
    rules: TokenRules | None


def read_credentials(settings: AuthSettings) -> Credentials:
    """Read all files. Blocks. Raises SettingsError that names the wrong one."""
    assert settings.tls_cert is not None  # noqa: S101 - the settings were checked
    assert settings.tls_key is not None  # noqa: S101 - the same
    check_private(settings.tls_key, "a private key")
    files = TlsFiles(
        certificate=settings.tls_cert,
        key=settings.tls_key,
        client_ca=settings.tls_ca,
        requires_client=settings.tls_requires_client,
    )
    secret = None
    if settings.cluster_secret_file is not None:
        secret = ClusterSecret(_long(private_content(settings.cluster_secret_file, "a secret").strip()))
    names, rules = frozenset(settings.broker_names), token_rules(settings)
    return Credentials(
        authenticator=Authenticator(rules, broker_names=names, cluster_secret=secret),
        rules=rules,
        certificates=ServerCertificates(files),
        http_certificates=ServerCertificates(files, "http/1.1"),
        client_tls=client_tls(ca=settings.tls_ca, certificate=settings.tls_cert, key=settings.tls_key),
        cluster_secret=secret,
    )


def refresh_client_tls(context: "ssl.SSLContext", settings: AuthSettings) -> None:
    """Have new connections to other brokers use the certificates as they are now. Blocks."""
    assert settings.tls_cert is not None  # noqa: S101 - the settings were checked
    context.load_cert_chain(settings.tls_cert, settings.tls_key)
    if settings.tls_ca is not None:
        context.load_verify_locations(settings.tls_ca)


def token_rules(settings: AuthSettings, fetched: Sequence[TokenKey] = ()) -> TokenRules | None:
    """Keys and claims of tokens; None where tokens are not accepted. Blocks. Raises SettingsError.

    `fetched` are the keys at `auth.jwt_key_set_url`; while that is down there may be no key at all.
    """
    if not settings.has_tokens:
        return None
    keys = [*_secrets(settings), *(public_key(public_content(path)) for path in settings.jwt_public_keys)]
    if settings.jwt_key_set_file is not None:
        keys += keys_of(public_content(settings.jwt_key_set_file), str(settings.jwt_key_set_file))
    keys += fetched
    if not keys and settings.jwt_key_set_url is None:
        raise SettingsError("no key of tokens was found in the files of auth.jwt_*: nobody could prove who they are")
    return TokenRules(keys=tuple(keys), issuer=settings.jwt_issuer, audience=settings.jwt_audience)


def issuing_secret(settings: AuthSettings) -> bytes | None:
    """The secret that signs tokens for API keys: the first; None where there is none. Blocks. Raises SettingsError."""
    found = _secrets(settings)
    return bytes(found[0].key) if found else None


def _secrets(settings: AuthSettings) -> list[TokenKey]:
    if settings.jwt_secret is not None:
        return [secret_key(settings.jwt_secret.get_secret_value().encode())]
    if settings.jwt_secret_file is None:
        return []
    found = []
    for line in private_content(settings.jwt_secret_file, "secrets of tokens").splitlines():
        key_id, colon, secret = line.strip().rpartition(b":")
        if secret:
            found.append(secret_key(secret, key_id.decode(errors="replace") if colon else ""))
    return found


def _long(secret: bytes) -> bytes:
    if len(secret) < 32:
        raise SettingsError("auth.cluster_secret_file holds less than 32 bytes: make one with `openssl rand -hex 32`")
    return secret
