"""Answers of commands as they were asked for: text for people, JSON and YAML for programs."""

import json
from collections.abc import Callable
from typing import Any

from danube.offline.cli_options import OutputFormat

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
