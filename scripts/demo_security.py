"""Security of the demo, with everything on: certificates, tokens, an assistant that may not approve its own plans."""

import os
import secrets
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from danube.model.security.principal import PrincipalKind, PrincipalName, TokenScope
from danube.security.certificate_authority import Subject, make_authority
from danube.security.tokens import TokenClaims, issue

_HOSTS = ("localhost", "127.0.0.1")
_TOKEN_S = 3_600
ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSecurity:
    """Settings of the broker, and the environment of the programs that call it. Without security both are empty."""

    settings: dict[str, str] = field(default_factory=dict)
    person: dict[str, str] = field(default_factory=dict)
    """Of the programs of a person, who administers the cluster."""
    assistant: dict[str, str] = field(default_factory=dict)
    """Of the assistant, whose token has a smaller scope."""

    @property
    def is_on(self) -> bool:
        """True if callers have to prove who they are."""
        return bool(self.settings)


def make_security(folder: Path) -> DemoSecurity:
    """Make a CA, a broker's certificate and a secret in `folder`, and tokens for an hour."""
    certs, secret, secret_file = folder / "certs", secrets.token_hex(32), folder / "token-secret"
    make_authority(certs, [Subject("broker", "broker", _HOSTS)], now=datetime.now(UTC), days=1)
    with os.fdopen(os.open(secret_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secret)
    return DemoSecurity(
        settings={
            "auth_mode": "tls",
            "auth_tls_cert": str(certs / "broker.pem"),
            "auth_tls_key": str(certs / "broker.key"),
            "auth_tls_ca": str(certs / "ca.pem"),
            "auth_jwt_secret_file": str(secret_file),
            "auth_super_admins": "root",
            "auth_approval": "destroy",
            "auth_two_person": "true",
        },
        person=_environment(certs / "ca.pem", _token(secret, "root", TokenScope.ADMIN)),
        assistant=_environment(certs / "ca.pem", _token(secret, ASSISTANT, TokenScope.OPERATOR)),
    )


def _environment(ca: Path, token: str) -> dict[str, str]:
    return {
        "DANUBE_CA_CERT": str(ca),
        "DANUBE_TOKEN": token,
        "DANUBE_ADMIN_CA": str(ca),
        "DANUBE_ADMIN_TOKEN": token,
    }


def _token(secret: str, name: str, scope: TokenScope) -> str:
    principal, expires_s = PrincipalName(PrincipalKind.USER, name), time.time() + _TOKEN_S
    return issue(
        TokenClaims(principal=principal, expires_s=expires_s, issuer="danube-auth", scope=scope), secret.encode()
    )
