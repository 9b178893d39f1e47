"""The page about schemas has every kind of difference, with its judgement."""

from pathlib import Path

import pytest

from danube.schema.avro.rules import RULES as AVRO
from danube.schema.differences import Direction, Rules
from danube.schema.json_schema.rules import STRICT
from danube.schema.protobuf.rules import RULES as PROTOBUF

PAGE = Path(__file__).resolve().parents[3] / "docs/schemas.md"


def table(rules: Rules) -> str:
    """Rows of the page."""
    rows = [
        f"| `{kind}` | {' '.join(each.value[0].upper() for each in Direction if each in rule.compatible)} "
        f"| {rule.says} | {rule.remedy} |"
        for kind, rule in rules.items()
    ]
    return "\n".join(("| kind | compatible | meaning | to make it compatible |", "|---|---|---|---|", *rows))


@pytest.mark.parametrize("rules", [STRICT, AVRO, PROTOBUF], ids=["json", "avro", "protobuf"])
def test_the_page_has_the_table_of_a_format(rules: Rules) -> None:
    assert table(rules) in PAGE.read_text()
