"""The pages of the schema registry: subjects, versions, and what changed between two of them."""

import json

from danube.model.calls.schemas import RegisterVersion, SetMode
from danube.model.schema import CompatibilityMode, SchemaType
from tests.faces.memory_gateway import HOSTILE
from tests.faces.memory_schemas import ORDER_1, SUBJECT
from tests.unit.admin.web.site import Page, Site

BROKEN = ORDER_1.replace("integer", "string")
PAGE = f"/schemas/subject?subject={SUBJECT}"


async def register(shown: Site, subject: str, definition: str) -> None:
    wanted = RegisterVersion(
        subject=subject, type=SchemaType.JSON_SCHEMA, definition=definition.encode(), description=HOSTILE
    )
    await shown.gateway.register_version(wanted)


async def page(shown: Site, path: str) -> Page:
    answer = await shown.get(path)
    assert answer.status_code == 200, answer.text
    return Page(answer.text)


def classes(shown: Page, name: str) -> int:
    return sum(attributes.get("class") == name for _, attributes in shown.tags)


async def test_the_navigation_leads_to_the_subjects_and_on_to_their_versions(readonly: Site) -> None:
    assert "/schemas" in (await page(readonly, "/")).links()
    subjects = await page(readonly, "/schemas")
    assert PAGE in subjects.links()
    assert f"{PAGE}&version=1" in (await page(readonly, PAGE)).links()


async def test_a_subject_shows_what_changed_with_its_newest_version(readonly: Site) -> None:
    shown = await page(readonly, PAGE)
    assert "Version 1 to 2" in shown.text
    assert "property_added_to_open_content_model" in shown.text
    assert '+    "note": {' in shown.text
    assert (classes(shown, "added"), classes(shown, "removed")) != (0, 0)
    first = await page(readonly, f"{PAGE}&version=1")
    assert "Line by line" not in first.text
    assert '"integer"' in first.text


async def test_a_change_that_breaks_readers_says_whose_and_what_to_do(readonly: Site) -> None:
    await readonly.gateway.schema_mode(SetMode(subject=SUBJECT, mode=CompatibilityMode.NONE))
    await register(readonly, SUBJECT, BROKEN)
    shown = await page(readonly, f"{PAGE}&version=3&against=1")
    assert "Version 1 to 3" in shown.text
    assert "Consumers with the new definition fail on messages of version 1." in shown.text
    assert "#/properties/id" in shown.text
    assert (classes(shown, "added"), classes(shown, "removed")) == (1, 1)


async def test_what_is_not_there_is_said_with_the_way_on(readonly: Site) -> None:
    for query, status, said in (
        ("", 400, "No subject is named"),
        ("?subject=nothing", 404, "nothing"),
        (f"?subject={SUBJECT}&version=9", 400, "here is no version"),
        (f"?subject={SUBJECT}&version=1e", 400, "here is no version"),
    ):
        answer = await readonly.get(f"/schemas/subject{query}")
        assert (answer.status_code, said in answer.text) == (status, True), answer.text


async def test_hostile_texts_are_shown_as_text(readonly: Site) -> None:
    await register(readonly, "<script>alert(2)</script>&", json.dumps({"title": HOSTILE, "type": "object"}))
    for path in [link for link in (await page(readonly, "/schemas")).links() if link.startswith("/schemas/subject")]:
        answer = await readonly.get(path)
        assert answer.status_code == 200
        assert HOSTILE not in answer.text
        assert "<script>alert" not in answer.text
