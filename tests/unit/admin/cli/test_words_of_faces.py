"""Names of tools are for assistants: no page of help, no label and no description of a parameter has one."""

import re
from pathlib import Path

from danube.admin.operations import BY_NAME, REGISTRY
from danube.admin.operations.fields import field_specs

PAGES = Path(__file__).parents[3] / "snapshots" / "cli"
NAMES = re.compile(rf"\b({'|'.join(name for name in BY_NAME if '_' in name)})\b")


def test_no_page_of_help_names_a_tool() -> None:
    found = {page.name: NAMES.findall(page.read_text()) for page in PAGES.glob("*.txt")}
    assert found
    assert {name: names for name, names in found.items() if names} == {}


def test_no_parameter_and_no_heading_names_a_tool() -> None:
    """Forms of the TUI and of the web show them as they are."""
    for operation in REGISTRY:
        texts = [operation.summary, *(field.description for field in field_specs(operation.params))]
        texts += [info.title or "" for info in operation.result.model_fields.values()]
        assert [name for text in texts for name in NAMES.findall(text)] == [], operation.name


def test_no_line_of_help_is_cut_off() -> None:
    found = {page.name: re.findall(r"^  .*\.\.\.$", page.read_text(), re.MULTILINE) for page in PAGES.glob("*.txt")}
    assert {name: lines for name, lines in found.items() if lines} == {}
