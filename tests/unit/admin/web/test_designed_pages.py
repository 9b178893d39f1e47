"""Designed pages: troubles first, lag and size in the list, charts, links, messages, search, refreshes, forms."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from danube.admin.access import AccessLevel
from danube.admin.operations import REGISTRY
from danube.admin.operations.analytics.lag import LagReport
from danube.admin.operations.fields import FieldKind, field_specs
from danube.admin.web.app import build_app
from danube.admin.web.pages.catalog import english
from danube.admin.web.pages.units import unit_of
from danube.admin.web.views.groups import behind_text
from danube.admin.web.views.live import LivePages
from danube.model.records.analytics import ANALYTICS_TOPIC, Row, RunWriter
from danube.model.records.analytics import encode_record as encode_run
from danube.model.records.telemetry import TELEMETRY_TOPIC, Stamp, SubscriptionReading, TopicReading, encode_record
from danube.model.topic import TopicName
from danube.testing.simulated.clock import SimClock
from tests.faces.memory_cluster import MemorySubscription
from tests.faces.seeded import EVENTS
from tests.unit.admin.web.site import TOKEN, Page, Site, site, visible


def publish_history(made: Site, looks: int = 10) -> None:
    """Telemetry of `/default/orders` and its group `audit`, which falls behind."""
    for number in range(looks):
        made.clock.advance(30)
        stamp = Stamp(broker_id="1", start_id="a", sequence=number, at_ms=made.clock.now_ms(), full=True)
        topic = TopicReading("/default/orders", "1", "reliable", None, None, 60 * number, 0, 1, 1, 1)
        group = SubscriptionReading(
            "/default/orders", "1", "audit", "2", "exclusive", 1, 1, 10 * number, lag_messages=50 * number
        )
        made.gateway.publish_system(TELEMETRY_TOPIC, encode_record(stamp, topic), encode_record(stamp, group))


async def test_the_overview_begins_with_the_groups_that_are_behind(readonly: Site) -> None:
    text = visible((await readonly.page("/")).text)
    assert "2 of 2 groups are not judged yet" in text
    assert text.index("of 2 groups") < text.index("Health")


@pytest.mark.parametrize(
    ("statuses", "sentence"),
    [
        ({"OK": 2, "STOP": 3, "WARN": 1}, "4 of 6 groups are behind"),
        ({"OK": 1, "STALL": 1}, "1 of 2 groups is behind"),
        ({"OK": 2}, "No group is behind"),
        ({"OK": 1, "UNKNOWN": 1}, "1 of 2 groups is not judged yet, none is known to be behind"),
        ({}, "There are no groups"),
    ],
)
def test_the_groups_that_are_behind_are_counted_in_a_sentence(statuses: dict[str, int], sentence: str) -> None:
    assert behind_text(LagReport.model_construct(statuses=statuses)) == sentence


async def test_the_list_of_topics_shows_lag_and_size_and_a_partitioned_topic_as_one_row(readonly: Site) -> None:
    readonly.gateway.cluster.topics[str(EVENTS.partition(1))].subscriptions["s"] = MemorySubscription(name="s")
    page = await readonly.page("/topics/list?namespace=default")
    text = visible(page.text)
    assert "3 in all (5 with partitions)" in text
    assert "/default/events 3 partitions" in text
    assert "/default/orders 5 100 B 2 1 Reliable served 1" in text
    assert "/topics/describe?topic=/default/events" in page.links()
    assert ("details", {"id": "p-1"}) in page.tags


async def test_a_search_in_the_list_goes_over_all_pages(readonly: Site) -> None:
    page = await readonly.page("/topics/list?limit=1&_q=tick")
    assert "/default/ticks" in page.text
    assert "/default/orders" not in page.text


async def test_the_search_finds_topics_groups_and_operations_and_leads_to_them(readonly: Site) -> None:
    page = await readonly.page("/search?q=order")
    assert "/topics/describe?topic=%2Fdefault%2Forders" in page.links()
    group = await readonly.page("/search?q=billing")
    assert "/group?topic=%2Fdefault%2Forders&subscription=billing" in group.links()
    assert "/topics/seek" in (await readonly.page("/search?q=seek")).links()
    assert "Nothing has such a name." in (await readonly.page("/search?q=zzz")).text


async def test_lag_leads_to_the_topic_and_to_its_messages(readonly: Site) -> None:
    groups = await readonly.page("/analytics/lag")
    assert "2 of 2 groups are not judged yet" in groups.text
    assert "/group?topic=/default/orders&subscription=audit" in groups.links()
    group = await readonly.page("/group?topic=/default/orders&subscription=audit")
    assert "/topics/describe?topic=/default/orders" in group.links()
    assert "/messages?topic=/default/orders" in group.links()


async def test_topic_and_group_have_charts_of_lag_and_rates_out_of_telemetry(readonly: Site) -> None:
    publish_history(readonly)
    topic = await readonly.get("/topics/describe?topic=/default/orders")
    assert "<title>Published: 2 messages/s now" in topic.text
    assert "<title>Lag of audit: 450 messages now, at most 450 messages in 15 m</title>" in topic.text
    group = await readonly.get("/group?topic=/default/orders&subscription=audit")
    assert group.text.count("<polyline") == 3


async def test_without_telemetry_there_are_no_charts_and_the_page_is_whole(readonly: Site) -> None:
    answer = await readonly.get("/topics/describe?topic=/default/orders")
    assert (answer.status_code, "<polyline" in answer.text) == (200, False)


async def test_messages_are_browsed_a_page_at_a_time(readonly: Site) -> None:
    orders = readonly.gateway.cluster.topics["/default/orders"]
    orders.messages = 60
    newest = await readonly.page("/messages?topic=/default/orders")
    assert "Offsets 35 to 59" in visible(newest.text)
    earlier = await readonly.page(next(link for link in newest.links() if link.endswith("start=10")))
    assert "Offsets 10 to 34" in visible(earlier.text)
    assert "/messages?topic=/default/orders&start=35" in earlier.links()
    assert ("local", "peek_messages", "done") in readonly.audit()


async def test_a_partitioned_topic_is_browsed_by_its_partitions(readonly: Site) -> None:
    page = await readonly.page("/messages?topic=/default/events")
    assert "/default/events-part-2" in page.text
    assert ("select", {"id": "m-topic", "name": "topic"}) in page.tags


async def test_the_page_of_a_partitioned_topic_has_its_sums_and_its_partitions(readonly: Site) -> None:
    page = await readonly.page("/topics/describe?topic=/default/events")
    assert "/topics/describe?topic=/default/events" not in page.text
    assert page.text.count("/default/events-part-") >= 3


async def test_brokers_come_with_load_and_those_in_trouble_are_named_first(readonly: Site) -> None:
    assert "The broker is active." in visible((await readonly.page("/brokers/list")).text)
    broker = readonly.gateway.cluster.brokers[0]
    readonly.gateway.cluster.brokers.append(
        type(broker)(broker_id="0", broker_url="", role="None", status="draining", admin_url="")
    )
    assert "1 of 2 brokers is not active." in visible((await readonly.page("/brokers/list")).text)


# Refreshes


@pytest.fixture
async def live(readonly: Site) -> AsyncIterator[LivePages]:
    pages = LivePages(readonly.clock)
    pages.app = build_app(readonly.server)
    yield pages


def scope() -> dict[str, object]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 8080),
        "client": ("127.0.0.1", 1),
        "headers": [(b"host", b"127.0.0.1:8080")],
    }


async def test_an_open_page_is_sent_again_when_it_changed_and_leaves_no_record(readonly: Site, live: LivePages) -> None:
    events = live.events(scope(), "/topics/list?namespace=default")
    first = await anext(events)
    assert "/default/orders" in json.loads(first.removeprefix(b"data: "))
    assert await following(events, readonly.clock) == b": the same\n\n"
    del readonly.gateway.cluster.topics["/default/orders"]
    assert "/default/orders" not in json.loads((await following(events, readonly.clock)).removeprefix(b"data: "))
    assert readonly.audit() == []


async def following(events: AsyncIterator[bytes], clock: SimClock) -> bytes:
    """The next event, once the stream has slept for as long as it wants to."""
    waiting: asyncio.Future[bytes] = asyncio.ensure_future(anext(events))
    await clock.run_until_idle()
    return await waiting


@pytest.mark.parametrize("page", ["/topics/create", "/nope", "/docs"])
async def test_a_page_that_does_not_refresh_itself_ends_its_stream(live: LivePages, page: str) -> None:
    assert [event async for event in live.events(scope(), page)] == [b"event: gone\ndata: {}\n\n"]


@pytest.mark.parametrize("page", ["", "//elsewhere/", "/live?page=/", "http://elsewhere/"])
async def test_only_pages_of_this_server_can_be_followed(readonly: Site, page: str) -> None:
    answer = await readonly.client.get("/live", params={"page": page})
    assert answer.status_code == 400


async def test_a_login_that_ended_ends_the_stream() -> None:
    async with site(AccessLevel.READ, token=TOKEN) as made:
        pages = LivePages(made.clock)
        pages.app = build_app(made.server)
        assert [event async for event in pages.events(scope(), "/")] == [b"event: gone\ndata: {}\n\n"]


# Forms


async def test_a_form_that_was_sent_is_not_sent_again_by_a_reload(logged_in: Site) -> None:
    fields = (await logged_in.page("/topics/create")).form("/topics/create")
    origin = {"origin": "http://127.0.0.1:8080"}
    answer = await logged_in.client.post("/topics/create", data={**fields, "name": "/default/new"}, headers=origin)
    assert answer.status_code == 303
    for _ in range(2):
        assert "Done." in (await logged_in.get(answer.headers["location"])).text
    assert [each for each in logged_in.audit() if each[1:] == ("create_topic", "done")] == [
        ("ada", "create_topic", "done")
    ]


async def test_a_secret_is_shown_once(logged_in: Site) -> None:
    fields = (await logged_in.page("/security/keys/create")).form("/security/keys/create")
    origin = {"origin": "http://127.0.0.1:8080"}
    sent = {**fields, "principal_name": "shop"}
    answer = await logged_in.client.post("/security/keys/create", data=sent, headers=origin)
    assert "Done." in (await logged_in.get(answer.headers["location"])).text
    assert "Done." not in (await logged_in.get(answer.headers["location"])).text


async def test_names_can_be_picked_from_those_there_are(readonly: Site) -> None:
    page = await readonly.page("/topics/seek?topic=/default/orders")
    options = [attributes["value"] for tag, attributes in page.tags if tag == "option" and "value" in attributes]
    assert {"/default/orders", "/default/events", "billing", "audit"} <= set(options)


async def test_values_that_are_set_are_filled_in_and_inherited_ones_are_told(logged_in: Site) -> None:
    await logged_in.submit("/topics/set-policies?topic=/default/orders", max_message_size="1000")
    page = await logged_in.page("/topics/set-policies?topic=/default/orders")
    fields = {each["name"]: each for tag, each in page.tags if tag == "input" and "name" in each}
    assert fields["max_message_size"]["value"] == "1000"
    assert fields["max_publish_rate"]["value"] == ""
    assert fields["max_publish_rate"]["placeholder"].endswith("inherited")


@pytest.mark.parametrize("operation", REGISTRY, ids=lambda each: each.name)
def test_every_number_of_a_form_has_its_unit(operation: object) -> None:
    numbers = [each for each in field_specs(operation.params) if each.kind is FieldKind.NUMBER]  # type: ignore[attr-defined]
    assert [each.name for each in numbers if not unit_of(each, operation.name)] == []  # type: ignore[attr-defined]


def test_headings_are_english() -> None:
    by_name = {operation.name: english(operation) for operation in REGISTRY}
    assert by_name["skip_messages"] == "Skip messages"
    assert by_name["seek_subscription"] == "Seek subscription"
    assert by_name["create_api_key"] == "Create API key"


async def test_create_and_seek_take_the_name_of_a_partitioned_topic(logged_in: Site) -> None:
    made = await logged_in.submit(
        "/topics/create-subscription?topic=/default/events", subscription="s", start="earliest"
    )
    assert "Done." in made.text
    topics = logged_in.gateway.cluster.topics
    assert all("s" in topics[str(EVENTS.partition(index))].subscriptions for index in range(3))
    planned = await logged_in.submit("/topics/seek?topic=/default/events", subscription="s", to="latest")
    assert "3" in visible(Page(planned.text).text)
    assert TopicName.parse("/default/events") == EVENTS


async def test_the_report_of_a_run_is_a_document_in_a_frame_that_runs_nothing(readonly: Site) -> None:
    assert "no run of this job has finished" in visible((await readonly.page("/analytics/report")).text)
    now_ms, writer = readonly.clock.now_ms(), RunWriter(run_id="week", attempt="a", job="lag")
    tables: dict[str, list[Row]] = {"groups": [], "partitions": []}
    records = [
        writer.started(now_ms, as_of_ms=now_ms, time_limit_s=60, window={}),
        *writer.result(now_ms + 1, tables, totals={"groups": 0, "partitions": 0}, window={}),
    ]
    readonly.gateway.publish_system(ANALYTICS_TOPIC, *map(encode_run, records))
    page = await readonly.page("/analytics/report")
    url = "/analytics/report.html?job=lag&run_id=week"
    (frame,) = (attributes for tag, attributes in page.tags if tag == "iframe")
    assert (frame["src"], "sandbox" in frame) == (url, True)
    document = await readonly.page(url)
    assert "Lag report" in document.text
    policy = (await readonly.get(url)).headers["content-security-policy"]
    assert "sandbox" in policy and "frame-ancestors 'self'" in policy and "default-src 'none'" in policy
    kept = await readonly.get(f"{url}&download=1")
    assert kept.headers["content-disposition"] == 'attachment; filename="danube-lag-report.html"'
    assert (await readonly.get("/analytics/report.html?run_id=none")).status_code == 404
