"""Golden files. In JSON, what fits on one line is on one line, so that a changed field is a changed line.

To accept a change, look at it and run the test with `ACCEPT_SNAPSHOTS=1`.
"""

import json
import os
from pathlib import Path
from typing import Any

LINE_CHARS = 800


def check_golden(file: Path, text: str) -> None:
    """Fail unless the file holds this text."""
    if os.environ.get("ACCEPT_SNAPSHOTS"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert file.exists(), f"there is no {file.name}. {__doc__}"
    assert text == file.read_text(), f"{file.name} has changed. {__doc__}"


def golden_json(value: Any, indent: str = "") -> str:
    """The text of a value, without a line end."""
    text = json.dumps(value)
    if len(text) <= LINE_CHARS or not isinstance(value, dict | list):
        return text
    deeper = f"{indent} "
    if isinstance(value, list):
        return _within("[]", [golden_json(each, deeper) for each in value], indent)
    return _within("{}", [f"{json.dumps(name)}: {golden_json(each, deeper)}" for name, each in value.items()], indent)


def _within(brackets: str, parts: list[str], indent: str) -> str:
    lines = ",\n".join(f"{indent} {part}" for part in parts)
    return f"{brackets[0]}\n{lines}\n{indent}{brackets[1]}"
