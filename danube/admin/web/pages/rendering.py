"""Pages of HTML, and errors as a page or as JSON. Every text is escaped, and shown without control characters."""

import json
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from danube import __version__
from danube.admin.present import as_commands, cell, label, printable
from danube.admin.web.assets import TEMPLATES, VERSION
from danube.admin.web.pages.catalog import english, groups, page_path, page_url
from danube.admin.web.pages.forms import field_text
from danube.admin.web.pages.units import unit_of
from danube.admin.web.server import Person, WebServer
from danube.admin.web.statuses import TooManyAttemptsError, problem_of, status_of
from danube.model.errors import DanubeError
from danube.model.text import size_text, span_text
from danube.report.tones import class_of

_JSON_PREFIXES = ("/api/", "/ui/")
_JSON_PATHS = frozenset({"/healthz", "/openapi.json", "/readyz"})


def is_for_programs(request: Request) -> bool:
    """True if a request is answered as JSON, errors too."""
    return request.url.path.startswith(_JSON_PREFIXES) or request.url.path in _JSON_PATHS


class Renderer:
    """The templates, with what all of them know."""

    def __init__(self, server: WebServer) -> None:
        self._known = {
            "cluster": server.endpoint,
            "level": server.guard.level.value,
            "may": server.guard.level.allows,
            "needs_token": server.exposure.has_login,
            "of_cluster": server.exposure.passes_tokens,
        }

    def page(self, request: Request, name: str, status: int = 200, **values: Any) -> Response:  # noqa: ANN401 - a template's
        person: Person | None = getattr(request.state, "person", None)
        known = {**self._known, "person": person, "path": request.url.path, "status": status}
        text = _ENVIRONMENT.get_template(name).render({**known, **values})
        return HTMLResponse(text, status_code=status)

    def problem(self, request: Request, error: DanubeError) -> Response:
        """An error, as whoever asked can read it."""
        status, problem = status_of(error), problem_of(error)
        headers = {"retry-after": str(round(error.wait_s) + 1)} if isinstance(error, TooManyAttemptsError) else {}
        if is_for_programs(request):
            return JSONResponse(problem, status_code=status, headers=headers)
        answer = self.page(request, "problem.html", status, problem=problem)
        answer.headers.update(headers)
        return answer


def _shown(value: object) -> object:
    """The value as a template writes it: text from a cluster never moves a cursor; escaping comes after this."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _lines(text: str) -> Markup:
    """Text that keeps its line breaks and nothing else."""
    return Markup("\n").join(Markup.escape(printable(line)) for line in text.splitlines())


def _ticks(text: str) -> Markup:
    """A text of ours, with what stands between backticks as code."""
    parts = _lines(text).split("`")
    return Markup().join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))


def _pretty(value: object) -> Markup:
    return _lines(json.dumps(value, indent=2))


def _environment() -> Environment:
    environment = Environment(
        loader=DictLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "as_commands": as_commands,
        "cell": cell,
        "class": class_of,
        "field_text": field_text,
        "label": label,
        "lines": _lines,
        "pretty": _pretty,
        "size": size_text,
        "span": span_text,
        "ticks": _ticks,
    }
    environment.globals |= {
        "asset_version": VERSION,
        "english": english,
        "groups": groups(),
        "page_path": page_path,
        "page_url": page_url,
        "unit_of": unit_of,
        "version": __version__,
    }
    return environment


_ENVIRONMENT = _environment()
"""Templates are compiled when they are shown for the first time, once in a process."""
