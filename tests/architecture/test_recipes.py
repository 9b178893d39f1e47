"""The recipes of CONTRIBUTING.md name every place that a change touches."""

import re
from pathlib import Path

FIELD = "pending_policies"
"""A field of describe_topic."""
ANOTHERS = {"danube/admin/operations/topics/subscriptions.py"}
"""Another operation has it, too."""


def test_a_field_of_describe_topic_is_in_the_places_of_its_recipe_and_in_no_other(
    root: Path, tracked: list[str]
) -> None:
    recipe = (root / "CONTRIBUTING.md").read_text().partition("**A field of an answer**")[2].partition("\n\nNo face")[0]
    places = re.findall(r"^\d\. (.*)$", recipe, flags=re.MULTILINE)
    assert (len(places), "five places" in recipe) == (5, True)
    folders = (*re.findall(r"`(danube/[\w/.]+)`", recipe), "danube/wire/protos/")
    product = [name for name in tracked if name.startswith(("danube/", "spark_analytics/")) and "_pb2" not in name]
    naming = {name for name in product if re.search(rf"\b{FIELD}\b", (root / name).read_text(errors="ignore"))}
    assert {name for name in naming - ANOTHERS if not name.startswith(folders)} == set()
    assert {folder for folder in folders if not any(name.startswith(folder) for name in naming)} == set()
    golden = [name for name in tracked if name.startswith("tests/snapshots/mcp/describe_topic")]
    assert all(FIELD in (root / name).read_text() for name in golden)
