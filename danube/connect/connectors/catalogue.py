"""The connectors that a file can name, each with its section; loading one imports it and nothing else."""

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from danube.connect.sdk import Definition, Delivery, Direction, definition_of
from danube.model.errors import InvalidRequestError, SettingsError
from danube.model.text import install_text

_EXAMPLES = Path(__file__).with_name("examples")


@dataclass(frozen=True, slots=True)
class Entry:
    """One connector."""

    name: str
    """Of the connector, and of its section in a file."""
    direction: Direction
    delivery: Delivery
    summary: str
    target: str = ""
    """`module:object`; empty for one of the original's that is not in this version."""
    extra: str = ""
    """The extra that installs what it needs."""
    root_sections: tuple[str, ...] = ()
    """Sections of the root that are its settings, where its file has no section of its name; the first one tells it."""


_SINK, _SOURCE = Direction.SINK, Direction.SOURCE
_EXACT, _AT_LEAST = Delivery.EXACTLY_ONCE, Delivery.AT_LEAST_ONCE
_HERE = "danube.connect.connectors"
_HOOK = "An HTTP server: each POST becomes a record, answered after the receipt."
ENTRIES = (
    Entry("null", _SINK, _AT_LEAST, "Reads and forgets: for measurements.", f"{_HERE}.null:NullSink"),
    Entry(
        *("webhook", _SOURCE, _AT_LEAST, _HOOK, f"{_HERE}.webhook_in.source:WebhookSource"),
        root_sections=("server", "auth", "rate_limit", "routes"),
    ),
    Entry(
        *("webhook_out", _SINK, _AT_LEAST, "POSTs each record to a URL, signed.", f"{_HERE}.webhook_out:WebhookSink"),
        extra="webhook",
    ),
    Entry(
        *("postgres", _SOURCE, _EXACT, "Changes of Postgres tables, after a snapshot."),
        target=f"{_HERE}.postgres.source:PostgresSource",
        extra="postgres",
    ),
    Entry(
        *("postgres_out", _SINK, _EXACT, "Rows of a Postgres table, upserted by key."),
        target=f"{_HERE}.postgres.sink:PostgresSink",
        extra="postgres",
    ),
    Entry("mqtt", _SOURCE, _AT_LEAST, "Topics of an MQTT broker."),
    Entry("deltalake", _SINK, _EXACT, "Tables of Delta Lake."),
    Entry("qdrant", _SINK, _AT_LEAST, "Collections of Qdrant."),
    Entry("surrealdb", _SINK, _AT_LEAST, "Tables of SurrealDB."),
)
BY_NAME: Mapping[str, Entry] = {entry.name: entry for entry in ENTRIES}


def load_definition(name: str) -> Definition:
    """The connector of a name, or a user's own by `module:function`. Raises SettingsError."""
    entry = BY_NAME.get(name)
    if entry is None:
        return definition_of(_imported(name, ""))
    if not entry.target:
        raise SettingsError(f"the connector {name} is not in this version: `danube connect list` has those that are")
    return definition_of(_imported(entry.target, entry.extra))


def example(name: str) -> str:
    """A commented file for a connector, or for `own`. Raises InvalidRequestError for one that has none."""
    files = {path.stem: path for path in _EXAMPLES.glob("*.toml")}
    root = files.pop("root").read_text(encoding="utf-8")
    if name not in files:
        absent = f"{name} is not in this version" if name in BY_NAME else f"there is no connector {name!r}"
        raise InvalidRequestError(f"{absent}: use {', '.join(sorted(files))}")
    return root.replace("NAME", name) + files[name].read_text(encoding="utf-8")


def _imported(target: str, extra: str) -> Any:  # noqa: ANN401 - whatever the module has
    module, colon, attribute = target.partition(":")
    if not (module and colon and attribute):
        raise SettingsError(
            f"there is no connector {target!r}: use one of {', '.join(BY_NAME)}, or module:function for one of your own"
        )
    try:
        found = getattr(_module(module), attribute, None)
    except ImportError as error:
        missing = error.name or str(error)
        if extra:
            raise SettingsError(f"{missing} is missing: install it with {install_text(extra)}") from None
        raise SettingsError(
            f"cannot import {module} ({error}): run in its folder, or set PYTHONPATH to the folder that has it"
        ) from None
    if found is None:
        raise SettingsError(f"{module} has no {attribute}: check the name after the colon")
    return found


def _module(name: str) -> Any:  # noqa: ANN401 - a module
    """Import a module; those of the working folder are found too, as by `python -m`."""
    here = str(Path.cwd())
    if here not in sys.path and not name.startswith("danube."):
        sys.path.append(here)
    return importlib.import_module(name)
