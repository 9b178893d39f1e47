"""What we wrote is still true: commands exist, links lead somewhere, the example shown is the example that runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for folder in (".", "docs", "tests")
    for path in (ROOT / folder).rglob("*.md")
    if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
)


def test_the_example_in_the_readme_is_the_one_that_runs() -> None:
    (shown,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert shown == (ROOT / "examples/hello.py").read_text()


def test_the_readme_names_every_example() -> None:
    named = set(re.findall(r"`(?:examples/)?(\w+\.py)`", (ROOT / "README.md").read_text()))
    assert {path.name for path in (ROOT / "examples").glob("*.py")} - named == set()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_make_command_that_a_document_names_exists(document: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", (ROOT / document).read_text(), flags=re.MULTILINE))
    assert named <= targets


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_within_the_project_leads_somewhere(document: str) -> None:
    links = re.findall(r"\]\((?!\w+:|#)([^)#]+)", (ROOT / document).read_text())
    assert [link for link in links if not ((ROOT / document).parent / link).exists()] == []


def test_every_decision_has_its_three_parts() -> None:
    pages = sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))
    assert [page.name[:4] for page in pages] == [f"{number:04}" for number in range(1, len(pages) + 1)]
    for page in pages:
        assert re.findall(r"^## (\w+)", page.read_text(), flags=re.MULTILINE) == ["Context", "Decision", "Consequences"]
