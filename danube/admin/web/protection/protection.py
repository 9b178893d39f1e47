"""Checks before every request: host, origin, token or login; and security headers on every answer.

Default deny: a path that is not in PUBLIC_PATHS needs somebody who may. Reading without a token is for a server that
only this machine can reach; there the Host check keeps other people's pages from reaching it through a name of theirs.
"""

from dataclasses import replace
from urllib.parse import quote, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from danube.admin.ports.cluster_logins import Credential, passing
from danube.admin.web.pages.rendering import Renderer, is_for_programs
from danube.admin.web.server import NOBODY_IN_PARTICULAR, Person, WebServer
from danube.admin.web.statuses import TooManyAttemptsError
from danube.model.errors import DanubeError, InvalidRequestError, NotPermittedError, UnauthenticatedError
from danube.rpc.address import is_loopback

PROBE_PATHS = frozenset({"/healthz", "/readyz"})
PUBLIC_PATHS = PROBE_PATHS | {"/login"}
PUBLIC_PREFIX = "/static/"
REFRESH = "danube.refresh"
"""Key of a request's scope that no client can set: a page that is open is looked at again."""
SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "referrer-policy": "same-origin",  # with no-referrer, browsers send forms with the origin `null`
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_SAFE = frozenset({"GET", "HEAD"})


class Protection:
    """ASGI middleware around everything else."""

    def __init__(self, app: ASGIApp, server: WebServer, renderer: Renderer) -> None:
        self._app = app
        self._server = server
        self._renderer = renderer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope)
        answer, token = self._app, ""
        try:
            check_host(request, self._server)
            check_origin(request, self._server)
            person = await self._person(request)
            token = person.token
            scope.setdefault("state", {})["person"] = replace(person, is_refresh=REFRESH in scope)
        except UnauthenticatedError as error:
            answer = self._login_or(request, error)
        except DanubeError as error:
            answer = self._renderer.problem(request, error)
        headed = self._with_headers(send)
        with passing(token):
            await answer(scope, receive, self._until_refused(request, headed) if token else headed)

    async def _person(self, request: Request) -> Person:
        """The sender of a request. Raises UnauthenticatedError, TooManyAttemptsError."""
        server = self._server
        if not server.exposure.has_login:
            return Person(who=NOBODY_IN_PARTICULAR, csrf=server.csrf)
        found = await self._from_bearer(request) or self._from_cookie(request)
        if found is not None:
            return found
        if request.url.path in PUBLIC_PATHS or request.url.path.startswith(PUBLIC_PREFIX):
            return Person(who="", csrf=server.csrf)
        raise UnauthenticatedError("this server needs a token")

    def _login_or(self, request: Request, error: UnauthenticatedError) -> Response:
        if not is_for_programs(request) and request.method in _SAFE:
            return to_login(request)
        answer = self._renderer.problem(request, error)
        answer.headers["www-authenticate"] = "Bearer"
        return answer

    async def _from_bearer(self, request: Request) -> Person | None:
        scheme, _, presented = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        found = await admit(self._server, request, presented.strip())
        return Person(who=found.who, csrf="", token=found.token)

    def _from_cookie(self, request: Request) -> Person | None:
        session_id = request.cookies.get(cookie_name(self._server))
        login = self._server.sessions.find(session_id, self._server.clock.monotonic_s()) if session_id else None
        if login is None or (request.method not in _SAFE and is_for_programs(request)):
            return None  # a browser's cookie never changes anything through the API
        return Person(who=login.who, csrf=login.csrf, is_logged_in=True, token=login.token)

    def _until_refused(self, request: Request, send: Send) -> Send:
        """End the login of a person whose token the cluster refuses, and lead to the next one."""
        is_over = False

        async def send_or_leave(message: Message) -> None:
            nonlocal is_over
            is_refusal = message["type"] == "http.response.start" and message["status"] == 401
            if is_refusal and request.method in _SAFE and not is_for_programs(request):
                is_over = True
                self._server.sessions.close(request.cookies.get(cookie_name(self._server), ""))
                await to_login(request)(request.scope, request.receive, send)
            elif not is_over:
                await send(message)

        return send_or_leave

    def _with_headers(self, send: Send) -> Send:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
                if self._server.exposure.is_encrypted:
                    headers["strict-transport-security"] = "max-age=31536000"
            await send(message)

        return send_with_headers


def to_login(request: Request) -> Response:
    """The way to log in, and back to the page that was asked for."""
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    query = "" if wanted == "/" else f"?next={quote(wanted, safe='')}"
    return RedirectResponse(f"/login{query}", status_code=303)


async def admit(server: WebServer, request: Request, presented: str) -> Credential:
    """The holder of what was presented: a token of the server, or a token or an API key of the cluster.

    Raises UnauthenticatedError, TooManyAttemptsError, and what keeps the cluster from answering.
    """
    address, now_s = request.client.host if request.client else "", server.clock.monotonic_s()
    wait_s = server.failures.wait_s(address, now_s)
    if wait_s > 0:
        raise TooManyAttemptsError(wait_s)
    try:
        found = await server.prove(presented, now_s)
    except UnauthenticatedError:
        server.failures.add(address, now_s)
        raise
    server.failures.forget(address)
    return found


def check_host(request: Request, server: WebServer) -> None:
    """Raise unless a server on loopback is called by a name of its own: another name may be a stranger's."""
    host = request.headers.get("host", "").lower()
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        name = ""
    if not name or len(request.headers.getlist("host")) > 1:
        raise InvalidRequestError("the request does not say which host it is for")
    if server.exposure.is_loopback and not is_loopback(name) and host != server.exposure.public_host:
        raise NotPermittedError(
            "this server does not answer to that name: open it as it was printed at its start, or name it with"
            " --public-url"
        )


def check_origin(request: Request, server: WebServer) -> None:
    """Raise when another site's page sent the request."""
    if not _is_own(request, server):
        raise NotPermittedError("this came from another site: open the page here and send it from there")


def cookie_name(server: WebServer) -> str:
    """The name of the session's cookie; its prefix binds it to this host where there is TLS."""
    return "__Host-danube_session" if server.exposure.is_encrypted else "danube_session"


def _is_own(request: Request, server: WebServer) -> bool:
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if request.method in _SAFE:  # a link may lead here; a picture or a script of another site may not
        return site in {None, "same-origin", "none"} or request.headers.get("sec-fetch-mode") == "navigate"
    if origin is None:
        return site in {"same-origin", "none"} or (site is None and is_for_programs(request))
    host = request.headers["host"].lower()
    if host == server.exposure.public_host:
        return origin.lower() == f"{urlsplit(server.exposure.public_url or '').scheme}://{host}"
    return origin.lower() in {f"http://{host}", f"https://{host}"}
