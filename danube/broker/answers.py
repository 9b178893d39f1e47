"""Answers of commands as they were asked for: text for people, JSON and YAML for programs."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from danube.broker.cli_options import OutputFormat

Facts = dict[str, Any]
"""Plain data, as JSON and YAML show it."""


def shown(facts: Facts, output: OutputFormat, text: Callable[[Facts], str]) -> str:
    """The facts as they were asked for; `text` makes a page for people of them."""
    return plain(facts, output) if output is not OutputFormat.TABLE else text(facts)


def plain(facts: Facts, output: OutputFormat) -> str:
    """The facts for programs."""
    if output is OutputFormat.YAML:
        import yaml  # noqa: PLC0415 - for those who ask for it

        page: str = yaml.safe_dump(json.loads(json.dumps(facts)), sort_keys=False)  # plain, without enums
        return page
    return json.dumps(facts, indent=2) + "\n"


def time_of(time_ms: int) -> str:
    """A time as people read it."""
    try:
        return datetime.fromtimestamp(time_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"


def counted(count: int, what: str) -> str:
    """So many of them: `1 topic`, `2,000 topics`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
