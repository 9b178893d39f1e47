"""The whole application on a seeded cluster in memory, and a browser that reads its pages."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, cast

import httpx2

from danube.admin.access import AccessLevel, Guard
from danube.admin.web.app import build_app
from danube.admin.web.protection.exposure import Exposure, WebToken
from danube.admin.web.server import WebServer
from danube.testing.simulated.clock import SimClock
from tests.faces.memory_gateway import MemoryGateway
from tests.faces.seeded import seeded_gateway

TOKEN = "a-token-of-twenty-characters"
BEARER = {"authorization": f"Bearer {TOKEN}"}
URL = "http://127.0.0.1:8080"
LABEL = "ada"


class Page(HTMLParser):
    """What a page holds: every tag with its attributes, forms with their fields, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.forms: list[tuple[dict[str, str], dict[str, str]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.tags.append((tag, attributes))
        if tag == "form":
            self.forms.append((attributes, {}))
        elif tag == "input" and self.forms and "name" in attributes and attributes.get("type") != "checkbox":
            self.forms[-1][1][attributes["name"]] = attributes.get("value", "")

    def handle_data(self, data: str) -> None:
        self.text += f" {data}"

    def form(self, action: str) -> dict[str, str]:
        """The fields of the form that is sent to this path by POST."""
        return next(
            fields
            for attributes, fields in self.forms
            if attributes["action"] == action and attributes["method"] == "post"
        )

    def links(self) -> list[str]:
        return [attributes["href"] for tag, attributes in self.tags if tag == "a"]


@dataclass
class Site:
    """One server and one browser."""

    gateway: MemoryGateway
    server: WebServer
    client: httpx2.AsyncClient
    before: str = field(init=False)

    def __post_init__(self) -> None:
        self.before = self.gateway.digest()

    @property
    def is_unchanged(self) -> bool:
        return self.gateway.digest() == self.before

    @property
    def clock(self) -> SimClock:
        return cast("SimClock", self.gateway.clock)

    async def get(self, path: str, **headers: str) -> httpx2.Response:
        return await self.client.get(path, headers=_headers(headers))

    async def page(self, path: str) -> Page:
        answer = await self.client.get(path)
        assert answer.headers["content-type"].startswith("text/html")
        return Page(answer.text)

    async def api(self, path: str, body: Mapping[str, Any] | None = None, **headers: str) -> httpx2.Response:
        """A program's call: GET without a body, else POST."""
        given = {**BEARER, **_headers(headers)}
        if body is None:
            return await self.client.get(f"/api/v1{path}", headers=given)
        return await self.client.post(f"/api/v1{path}", json=dict(body), headers=given)

    async def send(self, path: str, fields: Mapping[str, str], *, origin: str = URL) -> httpx2.Response:
        """A form, as a browser sends it."""
        answer = await self.client.post(path, data=dict(fields), headers={"origin": origin})
        if "_result=" in answer.headers.get("location", ""):
            return await self.client.get(answer.headers["location"])
        return answer

    async def submit(self, path: str, **typed: str) -> httpx2.Response:
        """Open the form of a page, type something, and send it."""
        page = await self.page(path)
        action = path.split("?", 1)[0]
        return await self.send(action, {**page.form(action), **typed})

    async def log_in(self) -> None:
        fields = (await self.page("/login")).form("/login")
        answer = await self.send("/login", {**fields, "token": TOKEN})
        assert answer.status_code == 303, answer.text

    def audit(self) -> list[tuple[str, str, str]]:
        return [
            (record.entry.caller.who, record.entry.operation, record.entry.outcome)
            for record in self.gateway.audit_records
        ]


@asynccontextmanager
async def site(
    level: AccessLevel = AccessLevel.READ,
    *,
    token: str | None = None,
    gateway: MemoryGateway | None = None,
    exposure: Exposure | None = None,
    url: str = URL,
) -> AsyncIterator[Site]:
    """A site; with a token it asks for it."""
    gateway = gateway or seeded_gateway()
    tokens = (WebToken(LABEL, token),) if token else ()
    server = WebServer(
        gateway=gateway,
        guard=Guard(level=level),
        clock=gateway.clock,
        exposure=exposure or Exposure(tokens=tokens),
        endpoint=gateway.endpoint,
    )
    transport = httpx2.ASGITransport(build_app(server))
    async with httpx2.AsyncClient(transport=transport, base_url=url) as client:
        yield Site(gateway, server, client)


def visible(text: str) -> str:
    """Text with runs of white space made one space."""
    return re.sub(r"\s+", " ", text)


def _headers(given: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in given.items()}
