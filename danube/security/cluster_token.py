"""Tokens of brokers to each other: short-lived, signed with a key that is derived from the cluster's secret."""

import hashlib
import hmac

from danube.model.errors import UnauthenticatedError
from danube.model.limits.security import CLUSTER_TOKEN_S
from danube.model.security.principal import Principal, PrincipalKind, PrincipalName

PREFIX = "Cluster "
"""In the header `authorization`, in place of `Bearer `."""
_PURPOSE = b"danube: tokens between brokers, 1"


class ClusterSecret:
    """Issues and verifies tokens of brokers."""

    def __init__(self, secret: bytes) -> None:
        """The key is another one than any that protects the Raft port or the tokens of clients."""
        self._key = hmac.new(secret, _PURPOSE, hashlib.sha256).digest()

    def issue(self, broker_id: int, now_s: float) -> str:
        """The header `authorization` of a broker's calls, valid for CLUSTER_TOKEN_S."""
        import jwt  # noqa: PLC0415 - it loads 12 MB that a broker without security does not need

        claims = {"sub": str(broker_id), "exp": int(now_s) + CLUSTER_TOKEN_S}
        return PREFIX + jwt.encode(claims, self._key, algorithm="HS256")

    def verify(self, authorization: str, now_s: float) -> Principal:
        """The broker that a header is of. Raises UnauthenticatedError."""
        import jwt  # noqa: PLC0415 - it loads 12 MB that a broker without security does not need

        try:
            claims = jwt.decode(
                authorization.removeprefix(PREFIX),
                self._key,
                algorithms=["HS256"],
                options={"require": ["exp", "sub"], "verify_exp": False},
            )
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise UnauthenticatedError("that is no token of a broker of this cluster") from None
        expires_s = float(claims["exp"])
        if not now_s < expires_s <= now_s + 2 * CLUSTER_TOKEN_S:
            raise UnauthenticatedError("the token of a broker has expired: compare the brokers' clocks")
        return Principal(id=PrincipalName(PrincipalKind.BROKER, str(claims["sub"])), expires_s=expires_s)
