"""A reader of analytics results made from `docs/formats/analytics.md` alone: it uses nothing of ours."""

import json
from collections.abc import Iterable
from typing import Any


def results(lines: Iterable[bytes]) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """The tables of each finished run, by its id."""
    started: set[tuple[str, str]] = set()
    parts: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
    found = {}
    for line in lines:
        record = json.loads(line)
        if record["version"] != 1:
            continue
        attempt = (record["run_id"], record["attempt"])
        if record["kind"] == "started":
            started.add(attempt)
        elif record["kind"] == "part":
            parts.setdefault(attempt, {})[record["part"]] = record
        elif record["kind"] == "finished" and attempt in started:
            told = parts.get(attempt, {})
            if len(told) == record["parts"]:
                found[record["run_id"]] = _tables(told, record["rows"])
    return found


def _tables(told: dict[int, dict[str, Any]], counts: dict[str, int]) -> dict[str, list[dict[str, Any]]]:
    tables: dict[str, list[dict[str, Any]]] = {name: [] for name in counts}
    for number in sorted(told):
        tables[told[number]["table"]] += told[number]["rows"]
    assert {name: len(rows) for name, rows in tables.items()} == counts
    return tables
