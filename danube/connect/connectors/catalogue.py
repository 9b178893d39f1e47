"""The connectors that a file can name, each with its section; loading one imports it and nothing else."""

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from danube.connect.sdk import Definition, Delivery, Direction, definition_of
from danube.model.errors import SettingsError
from danube.model.text import install_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One connector."""

    name: str
    """Of the connector, and of its section in a file."""
    direction: Direction
    delivery: Delivery
    summary: str
    target: str | None
    """`module:object`; None for one of the original's that is not in this version."""
    settings: str | None = None
    """The settings of one without a target."""
    extra: str | None = None
    """The extra that installs what it needs."""
    root_sections: tuple[str, ...] = ()
    """Sections of the root that are its settings, where its file has no section of its name."""
    known_by: str = ""
    """The section of the root that tells such a file."""


_ABSENT = "danube.connect.config.original"
ENTRIES = (
    Entry(
        name="null",
        direction=Direction.SINK,
        delivery=Delivery.AT_LEAST_ONCE,
        summary="Reads and forgets: for measurements.",
        target="danube.connect.connectors.null:NullSink",
    ),
    Entry(
        name="webhook",
        direction=Direction.SOURCE,
        delivery=Delivery.AT_LEAST_ONCE,
        summary="An HTTP server: each POST becomes a record, answered after the receipt.",
        target="danube.connect.connectors.webhook_in.source:WebhookSource",
        root_sections=("server", "auth", "rate_limit", "routes"),
        known_by="server",
    ),
    Entry(
        name="webhook_out",
        direction=Direction.SINK,
        delivery=Delivery.AT_LEAST_ONCE,
        summary="POSTs each record to a URL, signed.",
        target="danube.connect.connectors.webhook_out:WebhookSink",
        extra="webhook",
    ),
    Entry(
        name="mqtt",
        direction=Direction.SOURCE,
        delivery=Delivery.AT_LEAST_ONCE,
        summary="Topics of an MQTT broker.",
        target=None,
        settings=f"{_ABSENT}:MqttSettings",
    ),
    Entry(
        name="deltalake",
        direction=Direction.SINK,
        delivery=Delivery.EXACTLY_ONCE,
        summary="Tables of Delta Lake.",
        target=None,
        settings=f"{_ABSENT}:DeltaSettings",
    ),
    Entry(
        name="qdrant",
        direction=Direction.SINK,
        delivery=Delivery.AT_LEAST_ONCE,
        summary="Collections of Qdrant.",
        target=None,
        settings=f"{_ABSENT}:QdrantSettings",
    ),
    Entry(
        name="surrealdb",
        direction=Direction.SINK,
        delivery=Delivery.AT_LEAST_ONCE,
        summary="Tables of SurrealDB.",
        target=None,
        settings=f"{_ABSENT}:SurrealSettings",
    ),
)
BY_NAME: Mapping[str, Entry] = {entry.name: entry for entry in ENTRIES}


def load_definition(name: str) -> Definition:
    """The connector of a name, or a user's own by `module:function`. Raises SettingsError."""
    entry = BY_NAME.get(name)
    if entry is None:
        return _definition(name, _imported(name, None))
    if entry.target is None:
        raise SettingsError(f"the connector {name} is not in this version: `danube connect list` has those that are")
    return _definition(name, _imported(entry.target, entry.extra))


def settings_class(name: str) -> type[Any]:
    """The settings of a connector, also of one that is not in this version. Raises SettingsError."""
    entry = BY_NAME.get(name)
    if entry is not None and entry.settings is not None:
        found: type[Any] = _imported(entry.settings, None)
        return found
    return load_definition(name).settings


def _definition(name: str, found: object) -> Definition:
    definition = definition_of(found)
    if definition is None:
        raise SettingsError(f"{name} is no connector: decorate it with @sink or @source of danube.connect")
    return definition


def _imported(target: str, extra: str | None) -> Any:  # noqa: ANN401 - whatever the module has
    module, colon, attribute = target.partition(":")
    if not (module and colon and attribute):
        raise SettingsError(
            f"there is no connector {target!r}: use one of {', '.join(BY_NAME)}, or module:function for one of your own"
        )
    try:
        found = getattr(_module(module), attribute, None)
    except ImportError as error:
        missing = error.name or str(error)
        if extra is not None:
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
