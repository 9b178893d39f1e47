"""What people see: every page, what leads where, and how something is done from a page."""

import asyncio
import re
from collections import Counter

import pytest

from danube.admin.access import AccessLevel
from danube.admin.operations import REGISTRY
from danube.admin.operations.operation import AnyOperation
from danube.admin.web import server
from danube.admin.web.assets import STATIC
from danube.admin.web.pages.catalog import page_path, page_url, required_of
from danube.admin.web.pages.tables import _class_in
from danube.model.calls.balance import BrokerPlaceState
from danube.model.errors import BrokerUnreachableError
from danube.model.limits.faces import WEB_ROWS_DEFAULT
from danube.model.ownership import OwnershipState
from danube.model.plans.plan import Effect
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.patience import PATIENCE_S
from tests.faces.memory_gateway import HOSTILE
from tests.unit.admin.web.site import TOKEN, Page, Site, site, visible

OWN_PAGES = ["/", "/balance", "/schemas", "/schemas/subject?subject=orders-value", "/operations", "/docs"]
OWN_PAGES += [
    "/group?topic=%2Fdefault%2Forders&subscription=audit",
    "/messages",
    "/messages?topic=%2Fdefault%2Forders",
    "/search",
    "/search?q=ord",
]
READS = [operation for operation in REGISTRY if operation.effect is Effect.READ]
ALL_PAGES = [*OWN_PAGES, *(page_url(each, each.examples[0].arguments) for each in REGISTRY)]


@pytest.mark.parametrize("path", ALL_PAGES)
async def test_every_page_can_be_read_without_scripts_styles_or_requests_to_elsewhere(
    logged_in: Site, path: str
) -> None:
    answer = await logged_in.get(path)
    assert answer.status_code == 200, answer.text
    page = Page(answer.text)
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], tag
        for link in (attributes.get("src"), attributes.get("href"), attributes.get("action")):
            assert link is None or link.startswith(("/", "#")), link
        assert tag != "style"
    assert [attributes["src"].split("?")[0] for tag, attributes in page.tags if tag == "script"] == ["/static/page.js"]


@pytest.mark.parametrize("path", ALL_PAGES)
async def test_every_page_can_be_used_with_a_keyboard_and_a_screen_reader(logged_in: Site, path: str) -> None:
    page = await logged_in.page(path)
    ids = Counter(attributes["id"] for _, attributes in page.tags if "id" in attributes)
    assert [name for name, count in ids.items() if count > 1] == []
    labelled = {attributes.get("for") for tag, attributes in page.tags if tag == "label"}
    asked = [
        attributes
        for tag, attributes in page.tags
        if tag in {"input", "select", "textarea"} and attributes.get("type") != "hidden"
    ]
    assert [attributes for attributes in asked if attributes.get("id") not in labelled] == []
    assert all(attributes.get("aria-describedby", attributes["id"]) in ids for attributes in asked)
    assert Counter(tag for tag, _ in page.tags)["h1"] == 1
    assert {"#main", "/"} <= set(page.links())


@pytest.mark.parametrize("path", ALL_PAGES)
async def test_every_link_and_form_of_a_page_leads_somewhere(logged_in: Site, path: str) -> None:
    page = await logged_in.page(path)
    own = {path.split("?")[0] for path in OWN_PAGES}
    known = {page_path(operation) for operation in REGISTRY} | own | {"/openapi.json", "/logout", "#main"}
    assert [link for link in page.links() if link.split("?")[0] not in known] == []
    assert [attributes["action"] for attributes, _ in page.forms if attributes["action"] not in known] == []
    for attributes, fields in page.forms:
        assert attributes["method"] == "get" or fields["_csrf"], attributes


async def test_the_overview_tells_how_the_cluster_is_and_what_waits(readonly: Site) -> None:
    page = await readonly.page("/")
    text = visible(page.text)
    assert "1 plan waits for a person." in text
    assert "Health ok" in text
    assert "http://127.0.0.1:6650" in text
    assert "/plans/list?status=waiting" in page.links()


async def test_one_part_of_the_overview_that_fails_leaves_the_others(readonly: Site) -> None:
    readonly.gateway.failures["plans"] = BrokerUnreachableError("the plans are away")
    answer = await readonly.get("/")
    assert answer.status_code == 200
    assert "http://127.0.0.1:6650" in answer.text


async def test_a_broker_that_does_not_answer_is_told_within_a_second(readonly: Site) -> None:
    readonly.gateway.held = asyncio.Event()
    async with asyncio.timeout(PATIENCE_S):
        answer = await readonly.get("/")
    assert (answer.status_code, "did not answer within 1 s" in answer.text) == (504, True)
    assert (await readonly.get("/healthz")).json() == {"status": "ok"}


@pytest.mark.parametrize("operation", READS, ids=lambda each: each.name)
async def test_every_page_that_reads_tells_that_the_broker_does_not_answer(
    readonly: Site, operation: AnyOperation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "WEB_PROBE_TIMEOUT_S", 0.01)
    readonly.gateway.held = asyncio.Event()
    answer = await readonly.get(page_url(operation, operation.examples[0].arguments))
    assert (answer.status_code, "did not answer within" in answer.text) == (504, True)


async def test_a_broker_that_is_away_leaves_healthz_and_ends_readyz(readonly: Site) -> None:
    assert (await readonly.get("/readyz")).status_code == 200
    readonly.gateway.failures["*"] = BrokerUnreachableError("no broker answers: start one")
    page = await readonly.get("/")
    assert (page.status_code, "No broker answers: start one" in page.text) == (502, True)
    assert (await readonly.get("/healthz")).status_code == 200
    ready = await readonly.get("/readyz")
    assert (ready.status_code, ready.json()["code"]) == (503, "BROKER_UNREACHABLE")


async def test_ten_thousand_topics_are_shown_a_hundred_at_a_time_and_lead_on(readonly: Site) -> None:
    for number in range(10_000):
        readonly.gateway.cluster.add_topic(TopicName("staging", f"t{number:05}"), DispatchStrategy.RELIABLE)
    page = await readonly.page("/topics/list?namespace=staging")
    shown = [link for link in page.links() if link.startswith("/topics/describe?")]
    assert (len(shown), "10,000 in all" in page.text) == (WEB_ROWS_DEFAULT, True)
    following = next(link for link in page.links() if "cursor=" in link)
    assert "namespace=staging" in following
    assert "/staging/t00100" in (await readonly.page(following)).text


async def test_the_page_of_a_topic_shows_its_lag_as_a_bar_and_what_can_be_done(readonly: Site) -> None:
    page = await readonly.page("/topics/describe?topic=/default/orders")
    bars = [attributes["width"] for tag, attributes in page.tags if tag == "rect" and attributes["class"] == "fill"]
    assert bars == ["100%", "60%"]  # of the largest: `audit` has 5 left, `billing` 3
    assert "/topics/delete?topic=%2Fdefault%2Forders" in page.links()
    assert "/topics/unsubscribe?subscription=billing&topic=%2Fdefault%2Forders" in page.links()


async def test_a_filter_is_kept_in_its_form_and_a_wrong_one_is_explained(readonly: Site) -> None:
    answer = await readonly.get("/topics/list?namespace=default&broker=1")
    assert answer.status_code == 400
    assert "exclude each other" in answer.text
    values = {attributes.get("id"): attributes.get("value") for _, attributes in Page(answer.text).tags}
    assert (values["f-namespace"], values["f-broker"]) == ("default", "1")


async def test_something_is_created_from_its_form(logged_in: Site) -> None:
    answer = await logged_in.submit("/topics/create", name="/default/new", partitions="2")
    assert (answer.status_code, "Done." in answer.text) == (200, True)
    assert "/default/new-part-1" in logged_in.gateway.cluster.topics


async def test_what_was_typed_stays_in_a_form_that_was_refused(logged_in: Site) -> None:
    answer = await logged_in.submit("/topics/create", name="/default/orders", partitions="4")
    assert answer.status_code == 409
    fields = Page(answer.text).form("/topics/create")
    assert (fields["name"], fields["partitions"]) == ("/default/orders", "4")


async def test_a_deletion_shows_its_plan_first_and_acts_when_that_is_applied(logged_in: Site) -> None:
    planned = await logged_in.submit("/topics/delete?topic=/default/orders")
    text = visible(Page(planned.text).text)
    assert "Nothing has changed yet." in text
    assert "What cannot be undone" in text
    assert logged_in.is_unchanged
    fields = Page(planned.text).form("/topics/delete")
    early = await logged_in.send("/topics/delete", fields)
    assert (early.status_code, "type /default/orders again" in early.text) == (400, True)
    assert logged_in.is_unchanged
    applied = await logged_in.send("/topics/delete", {**fields, "_confirm": "/default/orders"})
    assert "The plan was applied." in visible(Page(applied.text).text)
    assert "/default/orders" not in logged_in.gateway.cluster.topics
    again = await logged_in.send("/topics/delete", {**fields, "_confirm": "/default/orders"})
    assert (again.status_code, "applied already" in again.text) == (409, True)


async def test_a_plan_that_was_shown_is_applied_with_the_arguments_that_were_shown(logged_in: Site) -> None:
    fields = Page((await logged_in.submit("/topics/delete?topic=/default/orders")).text).form("/topics/delete")
    changed = {**fields, "_arguments": '{"topic":"/default/ticks"}', "_confirm": "/default/ticks"}
    assert (await logged_in.send("/topics/delete", changed)).status_code == 409
    assert logged_in.is_unchanged


async def test_a_waiting_plan_is_approved_on_its_page_and_then_applied(logged_in: Site) -> None:
    page = await logged_in.page("/plans/list?status=waiting")
    decide = next(link for link in page.links() if "approve" in link)
    approved = await logged_in.submit(decide, _confirm="plan-seeded")
    assert (approved.status_code, logged_in.is_unchanged) == (200, True)
    fields = {**Page(approved.text).form("/namespaces/delete"), "_confirm": "staging"}
    applied = await logged_in.send("/namespaces/delete", fields)
    assert applied.status_code == 200
    assert "staging" not in logged_in.gateway.cluster.namespaces


async def test_a_waiting_plan_is_rejected_on_its_page(logged_in: Site) -> None:
    answer = await logged_in.submit("/plans/reject?plan_id=plan-seeded")
    assert (answer.status_code, "rejected" in answer.text) == (200, True)


async def test_the_audit_trail_tells_that_it_is_whole_and_where_it_is_not(readonly: Site) -> None:
    for _ in range(3):
        await readonly.get("/api/v1/topics/list")
    page = await readonly.page("/audit?limit=2")
    assert "The chain is intact." in page.text
    records = readonly.gateway.audit_records
    assert f"/audit?limit=2&before={records[1].at_ms}" in page.links()
    records[1], records[0] = records[0], records[1]
    assert "The chain is broken at record" in (await readonly.page("/audit?verify_all=true")).text


async def test_the_audit_trail_tells_of_the_logs_of_all_brokers(readonly: Site) -> None:
    await readonly.get("/api/v1/topics/list")
    assert "/audit?verify_all=true" in (await readonly.page("/audit")).links()
    readonly.gateway.other_audit_logs = {"2": None}
    shown = await readonly.page("/audit")
    assert "in the logs of all brokers" in shown.text
    assert "1 of 2 logs cannot be read" in shown.text
    page = await readonly.page("/audit?verify_all=true")
    assert "1 of 2 logs cannot be read" in page.text
    assert "/system/audit-part-1" in page.text


@pytest.mark.parametrize("operation", [each for each in REGISTRY if each not in READS], ids=lambda each: each.name)
async def test_a_read_only_server_says_on_each_form_why_it_cannot_be_sent(
    readonly: Site, operation: AnyOperation
) -> None:
    answer = await readonly.get(page_path(operation))
    assert "This server may not do that." in answer.text
    assert re.search(r"<button[^>]* disabled", answer.text)
    fields = Page(answer.text).form(page_path(operation))
    await readonly.send(page_path(operation), {**fields, **operation.examples[0].arguments})
    assert readonly.is_unchanged


async def test_names_that_attack_are_shown_and_obeyed_nowhere(logged_in: Site) -> None:
    logged_in.gateway.serve_hostile_names()
    for operation in READS:
        arguments = {} if not required_of(operation) else operation.examples[0].arguments
        answer = await logged_in.get(page_url(operation, arguments))
        assert "<script>alert" not in answer.text, operation.name
        assert not set(re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", answer.text)), operation.name
    listed = await logged_in.get("/topics/list")
    assert "&lt;script&gt;alert(1)&lt;/script&gt; ignore previous instructions" in listed.text
    assert "\\x1b[31mred" in listed.text


async def test_what_was_typed_is_escaped_where_it_is_shown_again(readonly: Site) -> None:
    attack = '"><script>alert(1)</script>\x1b[31m'
    for path in ("/topics/describe", "/topics/create", "/plans/approve"):
        for name in ("topic", "name", "plan_id", "_csrf"):
            answer = await readonly.client.get(path, params={name: attack})
            assert "<script>alert" not in answer.text
            assert "\x1b" not in answer.text


async def test_a_hostile_plan_cannot_lead_a_form_elsewhere(logged_in: Site) -> None:
    plans = logged_in.gateway.stored_plans
    object.__setattr__(plans["plan-seeded"], "operation", HOSTILE)
    page = await logged_in.page("/plans/list")
    assert {attributes["action"] for attributes, _ in page.forms} == {"/plans/list", "/logout", "/search"}


@pytest.mark.parametrize("path", ["/nope", "/topics/nope", "/static/../assets.py", "/static/nope.css", "/topics/list/"])
async def test_what_is_not_there_is_a_page_that_says_so(readonly: Site, path: str) -> None:
    answer = await readonly.get(path)
    assert (answer.status_code, "there is no such page" in answer.text.lower()) == (404, True)


async def test_static_files_are_kept_by_browsers_until_they_change(readonly: Site) -> None:
    for name, file in STATIC.items():
        answer = await readonly.get(f"/static/{name}?v=1")
        assert (answer.content, answer.headers["content-type"]) == (file.content, file.media_type)
        assert "immutable" in answer.headers["cache-control"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground_in_both_schemes(scheme: str) -> None:
    style = STATIC["style.css"].content.decode()
    light, dark = style.split("prefers-color-scheme: dark")
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", light if scheme == "light" else dark))
    pairs = [(text, ground) for text in ("text", "soft", "accent") for ground in ("ground", "raised", "sunken")]
    pairs += [(tone, f"{tone}-ground") for tone in ("good", "warn", "bad")]
    pairs += [("accent-text", "accent"), ("accent-text", "accent-hover"), ("raised", "bad"), ("bad", "raised")]
    poor = [(a, b) for a, b in pairs if contrast(colours[a], colours[b]) < 4.5]
    assert poor == []


async def test_an_access_level_between_is_shown_for_what_it_is() -> None:
    async with site(AccessLevel.WRITE, token=TOKEN) as made:
        await made.log_in()
        text = visible((await made.page("/operations")).text)
        assert "topics delete destroy needs access destroy" in text
        assert "topics create write needs" not in text


def contrast(one: str, other: str) -> float:
    """WCAG 2.2, contrast ratio."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    """WCAG 2.2, relative luminance of `#rrggbb`."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(
    ("name", "word", "tone"),
    [
        ("status", "unreachable", "bad"),
        ("broker_status", "draining", "warn"),
        ("verdict", "unreachable", "bad"),
        *[("state", state, "warn") for state in OwnershipState if state is not OwnershipState.SERVED],
        ("status", BrokerPlaceState.MISSING, "bad"),
        ("name", "unreachable", ""),
    ],
)
def test_a_word_that_says_how_things_stand_is_a_badge_in_every_table(name: str, word: str, tone: str) -> None:
    assert _class_in(name, word) == tone


def test_what_is_hidden_in_a_table_that_scrolls_makes_no_page_wider() -> None:
    """Text for screen readers is placed absolutely: without a place of its own, the region does not clip it."""
    style = STATIC["style.css"].content.decode()
    for region in (".scroll", ".picture"):
        (rules,) = re.findall(rf"^\{region} \{{(.*overflow-x: auto.*)\}}", style, re.MULTILINE)
        assert "position: relative" in rules
