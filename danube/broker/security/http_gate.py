"""Gate of the ports that speak HTTP: certificates, and tokens in `authorization: Bearer` or as a password (`Basic`).

Clients of Confluent's registry and Prometheus can send one or the other.
"""

import base64
import binascii
import json
from collections.abc import Callable

from danube.broker.security.current import ActingAs
from danube.broker.security.gate import AUTHORIZATION, Gate
from danube.model.errors import NotPermittedError, UnauthenticatedError
from danube.model.plans.plan import Effect
from danube.model.security.grants import Permission
from danube.rpc.address import join_address
from danube.rpc.carrier import Caller
from danube.rpc.http_port import CERTIFICATE_NAME, App, Message, Receive, Send
from danube.security.decision import Target

_BASIC = "basic "


class GuardedApp:
    """An application whose requests are handled as the principal of their token; without one the answer is 401."""

    def __init__(self, app: App, gate: Gate, *, opened: frozenset[str] = frozenset()) -> None:
        """`opened` are paths that ask for nothing."""
        self._app = app
        self._gate = gate
        self._opened = opened

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """As ASGI says."""
        if scope["type"] != "http" or scope["path"] in self._opened:
            await self._app(scope, receive, send)
            return
        try:
            principal = self._gate.principal_of(caller_of(scope))
        except UnauthenticatedError as error:
            await _refuse(send, 401, str(error))
            return
        try:
            with ActingAs(principal):
                await self._app(scope, receive, send)
        except NotPermittedError as error:
            await _refuse(send, 403, str(error))


def caller_of(scope: Message) -> Caller:
    """The caller of a request: its address, and its token."""
    headers = dict(scope["headers"])
    given = headers.get(AUTHORIZATION.encode(), b"").decode("latin-1")
    if given[: len(_BASIC)].lower() == _BASIC:
        given = f"Bearer {_password(given[len(_BASIC) :])}"
    host, port = scope.get("client") or ("", 0)
    name = scope.get("state", {}).get(CERTIFICATE_NAME)
    metadata = {AUTHORIZATION: given} if given else {}
    return Caller(address=join_address(host, port), metadata=metadata, certificate_name=name)


def checker(gate: Gate | None, permission: Permission) -> Callable[[Effect, Target], None]:
    """A check of the principal that is handled now, which raises NotPermittedError. Without a gate all may pass."""

    def check(effect: Effect, target: Target) -> None:
        if gate is not None:
            gate.require(permission, effect, target)

    return check


def _password(encoded: str) -> str:
    try:
        return base64.b64decode(encoded, validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return ""


async def _refuse(send: Send, status: int, message: str) -> None:
    body = json.dumps({"error_code": status, "message": message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(b"www-authenticate", b'Bearer, Basic realm="danube"')] if status == 401 else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
