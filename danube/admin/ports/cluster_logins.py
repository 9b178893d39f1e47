"""Logins with credentials of the cluster: its tokens, and API keys, which are exchanged for tokens.

The broker judges each; what it accepted is remembered for a minute, by digest.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256

from danube.admin.gateway import AdminGateway
from danube.admin.target import PASSED_TOKEN
from danube.model.errors import NotPermittedError, UnauthenticatedError
from danube.model.limits.faces import WEB_PROOF_S, WEB_SESSIONS_MAX
from danube.security.api_keys import is_key
from danube.security.tokens import claimed_principal

_NO_TOKEN = "a.b.c"  # noqa: S105 - no cluster with security accepts it, and one without accepts everything


@dataclass(frozen=True, slots=True)
class Credential:
    """Name of who logged in, and the token that calls are made with; empty for the server's own."""

    who: str
    token: str = field(default="", repr=False)


class ClusterLogins:
    """Proofs of callers, by the cluster's word."""

    def __init__(self, gateway: AdminGateway) -> None:
        self._gateway = gateway
        self._proven: OrderedDict[bytes, tuple[Credential, float]] = OrderedDict()
        self._has_security = False

    async def prove(self, presented: str, now_s: float) -> Credential:
        """The credential to call with. Raises UnauthenticatedError, NotPermittedError for a cluster without security,
        and what keeps the broker from answering.
        """
        digest = sha256(presented.encode("utf-8", "surrogateescape")).digest()
        known, until_s = self._proven.get(digest, (None, 0.0))
        if known is not None and now_s < until_s:
            return known
        await self._require_security()
        token = await self._gateway.exchange_api_key(presented) if is_key(presented) else presented
        who = str(claimed_principal(token))
        with passing(token):
            await self._gateway.namespaces()
        self._proven[digest] = Credential(who, token), now_s + WEB_PROOF_S
        while len(self._proven) > WEB_SESSIONS_MAX:
            self._proven.popitem(last=False)
        return self._proven[digest][0]

    async def _require_security(self) -> None:
        if self._has_security:
            return
        try:
            with passing(_NO_TOKEN):
                await self._gateway.namespaces()
        except UnauthenticatedError:
            self._has_security = True
        else:
            raise NotPermittedError("the cluster asks nobody who they are (auth.mode none), so nobody can log in")


@contextmanager
def passing(token: str) -> Iterator[None]:
    """Have calls to the broker made with a token; empty for the server's own."""
    kept = PASSED_TOKEN.set(token or None)
    try:
        yield
    finally:
        PASSED_TOKEN.reset(kept)
