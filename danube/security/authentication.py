"""Authentication of a caller: by its certificate, or by the token of a call. The clock comes in as an argument."""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass

from danube.model.errors import UnauthenticatedError
from danube.model.limits.security import TOKEN_CACHE_MAX
from danube.model.security.principal import Principal, PrincipalKind, PrincipalName
from danube.security.attempts import FailedAttempts
from danube.security.cluster_token import PREFIX, ClusterSecret
from danube.security.revocations import Revocations
from danube.security.tokens import TokenRules

_BEARER = "bearer "


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The proof that a call carries."""

    host: str
    """Of the peer, for the limit of wrong credentials."""
    authorization: str | None = None
    certificate_name: str | None = None
    """Common name of a client certificate that TLS has verified."""


class Authenticator:
    """Finds the principal of a proof. A token is verified once and remembered by its digest until it expires."""

    def __init__(
        self,
        rules: TokenRules | None,
        *,
        broker_names: frozenset[str] = frozenset(),
        cluster_secret: ClusterSecret | None = None,
    ) -> None:
        """`broker_names` are the common names of brokers' certificates; their bearers act as the cluster itself."""
        self._rules = rules
        self._cluster_secret = cluster_secret
        self._broker_names = broker_names
        self._verified: OrderedDict[bytes, Principal] = OrderedDict()
        self._attempts = FailedAttempts()
        self._certified: dict[str, Principal] = {}
        """By common name."""
        self._revocations = Revocations()
        self.refused = 0
        """Tokens that did not verify."""

    def use(self, rules: TokenRules) -> None:
        """Verify by other keys from now on, also what was verified before."""
        self._rules = rules
        self._verified.clear()

    def revoke(self, revocations: Revocations) -> None:
        """Refuse what these revoke from now on, also what was verified before."""
        self._revocations = revocations
        for digest in [one for one, principal in self._verified.items() if revocations.revoked(principal)]:
            del self._verified[digest]

    def voided(self, revocations: Revocations) -> list[Principal]:
        """The principal of each token that was verified lately and that these revoke."""
        return [principal for principal in self._verified.values() if revocations.revoked(principal)]

    def known(self, authorization: str, now_s: float) -> Principal | None:
        """The principal of a token that was verified before, and still counts: all that most calls need."""
        principal = self._verified.get(_digest(authorization))
        if principal is None or (principal.expires_s is not None and principal.expires_s <= now_s):
            return None
        return principal

    def principal_of(self, proof: Proof, now_s: float) -> Principal:
        """The principal. Raises UnauthenticatedError."""
        if proof.authorization is None:
            return self._unrevoked(self._by_certificate(proof))
        known = self.known(proof.authorization, now_s)
        return known or self._by_token(proof, proof.authorization, now_s)

    def _unrevoked(self, principal: Principal) -> Principal:
        if revocation := self._revocations.revoked(principal):
            raise UnauthenticatedError(f"the proof of {principal} was revoked: {revocation.reason or revocation.id}")
        return principal

    def _by_certificate(self, proof: Proof) -> Principal:
        name = proof.certificate_name
        if name is None:
            raise UnauthenticatedError("Authentication credentials are missing: send a token, or a client certificate")
        if name not in self._certified:
            if len(self._certified) >= TOKEN_CACHE_MAX:
                self._certified.clear()
            kind = PrincipalKind.BROKER if name in self._broker_names else PrincipalKind.SERVICE_ACCOUNT
            self._certified[name] = Principal(id=PrincipalName(kind, name))
        return self._certified[name]

    def _by_token(self, proof: Proof, authorization: str, now_s: float) -> Principal:
        digest = _digest(authorization)
        if self._verified.pop(digest, None) is not None:
            raise UnauthenticatedError("the token has expired: issue a new one")
        principal = self._unrevoked(self._verify(proof, authorization, now_s))
        self._verified[digest] = principal
        while len(self._verified) > TOKEN_CACHE_MAX:
            self._verified.popitem(last=False)
        return principal

    def _verify(self, proof: Proof, authorization: str, now_s: float) -> Principal:
        if wait_s := self._attempts.wait_s(proof.host, now_s):
            raise UnauthenticatedError(f"too many wrong credentials from this address: try again in {wait_s:.0f} s")
        try:
            return self._verified_anew(authorization, now_s)
        except UnauthenticatedError:
            self.refused += 1
            self._attempts.add(proof.host, now_s)
            raise

    def _verified_anew(self, authorization: str, now_s: float) -> Principal:
        if self._cluster_secret is not None and authorization.startswith(PREFIX):
            return self._cluster_secret.verify(authorization, now_s)
        if self._rules is None:
            raise UnauthenticatedError("this broker takes client certificates, and no tokens (auth.jwt)")
        if authorization[: len(_BEARER)].lower() != _BEARER:
            raise UnauthenticatedError("Invalid token: the header authorization has the form `Bearer <token>`")
        return self._rules.verify(authorization[len(_BEARER) :].strip(), now_s)


def _digest(authorization: str) -> bytes:
    return hashlib.sha256(authorization.encode()).digest()
