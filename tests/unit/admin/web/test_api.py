"""Every operation over HTTP, and how its errors are answered."""

from collections.abc import AsyncIterator

import pytest

from danube.admin.operations import BY_NAME, REGISTRY
from danube.admin.operations.operation import AnyOperation, Example
from danube.admin.web.pages.catalog import api_method, api_path, page_url
from danube.model.errors import (
    BrokerUnreachableError,
    DanubeError,
    DeadlineExceededError,
    LimitReachedError,
    OverloadedError,
    UnsupportedError,
)
from danube.model.limits.faces import WEB_BODY_BYTES_MAX, WEB_ROWS_DEFAULT, WEB_ROWS_MAX
from danube.model.topic import DispatchStrategy, TopicName
from tests.unit.admin.web.site import BEARER, LABEL, Site

EXAMPLES = [
    pytest.param(operation, example, id=f"{operation.name}-{number}")
    for operation in REGISTRY
    for number, example in enumerate(operation.examples, 1)
]


@pytest.mark.parametrize(("operation", "example"), EXAMPLES)
async def test_every_example_of_every_operation_works_over_http(
    full: Site, operation: AnyOperation, example: Example
) -> None:
    path = api_path(operation)
    if api_method(operation) == "GET":
        query = page_url(operation, example.arguments).partition("?")[2]
        answer = await full.client.get(f"{path}?{query}", headers=BEARER)
    else:
        answer = await full.client.post(path, json=example.arguments, headers=BEARER)
    if operation.needs_person:
        assert (answer.status_code, answer.json()["code"]) == (403, "NOT_PERMITTED")
        assert full.is_unchanged
        return
    assert answer.status_code == 200, answer.text
    operation.result.model_validate(answer.json())
    assert full.audit()[-1][:2] == (LABEL, operation.name)


async def test_a_plan_changes_nothing_until_it_is_applied_and_then_acts_once(full: Site) -> None:
    wanted = {"topic": "/default/orders"}
    planned = (await full.api("/topics/delete", wanted)).json()
    assert (planned["status"], full.is_unchanged) == ("ready", True)
    plan_id = planned["plan"]["plan_id"]
    other = await full.api("/topics/delete", {"topic": "/default/ticks", "plan_id": plan_id})
    assert (other.status_code, other.json()["code"], full.is_unchanged) == (409, "PLAN_REFUSED", True)
    applied = await full.api("/topics/delete", {**wanted, "plan_id": plan_id})
    assert (applied.json()["status"], full.is_unchanged) == ("applied", False)
    again = await full.api("/topics/delete", {**wanted, "plan_id": plan_id})
    assert (again.status_code, again.json()["code"]) == (409, "PLAN_REFUSED")


async def test_a_plan_that_waits_for_a_person_is_423_and_says_where_to_go(full: Site) -> None:
    answer = await full.api("/namespaces/delete", {"namespace": "staging", "plan_id": "plan-seeded"})
    assert (answer.status_code, answer.json()["code"]) == (423, "PLAN_WAITS")
    assert "/plans/list" in answer.json()["next"]
    assert full.is_unchanged


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (BrokerUnreachableError("no broker answers"), 502),
        (OverloadedError("the backlog is full"), 502),
        (DeadlineExceededError("no answer in time"), 504),
        (UnsupportedError("this broker does not have it"), 501),
        (LimitReachedError("there are too many"), 429),
        (DanubeError("something else"), 500),
    ],
)
async def test_what_the_cluster_refuses_keeps_its_sentence_and_code(
    readonly: Site, error: DanubeError, status: int
) -> None:
    readonly.gateway.failures["brokers"] = error
    answer = await readonly.get("/api/v1/brokers/list")
    assert answer.status_code == status
    assert (answer.json()["error"], answer.json()["code"]) == (str(error), error.code)


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/topics/describe?topic=/default/nope", None, 404, "TOPIC_NOT_FOUND"),
        ("/topics/describe", None, 400, "INVALID_REQUEST"),
        ("/topics/describe?topic=/default/orders&topic=/default/ticks", None, 400, "INVALID_REQUEST"),
        ("/topics/describe?topic=/default/orders&tpoic=1", None, 400, "INVALID_REQUEST"),
        ("/topics/list?limit=many", None, 400, "INVALID_REQUEST"),
        (f"/topics/list?limit={WEB_ROWS_MAX + 1}", None, 400, "INVALID_REQUEST"),
        ("/topics/list?cursor=%FF%FE", None, 400, "INVALID_REQUEST"),
        ("/topics/create", {"name": "no/slashes/here"}, 400, "INVALID_NAME"),
        ("/topics/create", {"name": "/default/orders"}, 409, "TOPIC_EXISTS"),
        ("/namespaces/create", {"namespace": "x", "plan_id": "p"}, 400, "INVALID_REQUEST"),
        ("/topics/delete", {"topic": "/default/orders", "plan_id": 7}, 400, "INVALID_REQUEST"),
        ("/topics/delete", {"topic": "/default/orders", "plan_id": "nope"}, 404, "PLAN_NOT_FOUND"),
        ("/nope", None, 404, "NOT_FOUND"),
        ("/topics/list", {}, 405, "METHOD_NOT_ALLOWED"),
        ("/topics/create", None, 405, "METHOD_NOT_ALLOWED"),
    ],
)
async def test_a_wrong_call_is_refused_with_its_own_status(
    full: Site, path: str, body: dict[str, object] | None, status: int, code: str
) -> None:
    answer = await full.api(path, body)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert full.is_unchanged


@pytest.mark.parametrize(
    ("content", "media_type", "status"),
    [
        (b"{", "application/json", 400),
        (b"[1]", "application/json", 400),
        (b"[" * 60_000, "application/json", 400),
        (b'{"name": "/default/new"}', "text/plain", 415),
        (b"name=/default/new", "application/x-www-form-urlencoded", 415),
        (b" " * (WEB_BODY_BYTES_MAX + 1), "application/json", 413),
    ],
)
async def test_a_body_that_is_no_bounded_json_object_is_refused(
    full: Site, content: bytes, media_type: str, status: int
) -> None:
    headers = {**BEARER, "content-type": media_type}
    answer = await full.client.post("/api/v1/topics/create", content=content, headers=headers)
    assert answer.status_code == status, answer.text
    assert full.is_unchanged


async def test_a_listing_of_ten_thousand_topics_comes_in_pages_of_a_hundred(full: Site) -> None:
    for number in range(10_000):
        full.gateway.cluster.add_topic(TopicName("staging", f"t{number:05}"), DispatchStrategy.RELIABLE)
    first = (await full.api("/topics/list?namespace=staging")).json()
    assert (len(first["topics"]), first["total"]) == (WEB_ROWS_DEFAULT, 10_000)
    second = (await full.api(f"/topics/list?namespace=staging&cursor={first['next_cursor']}")).json()
    assert second["topics"][0]["name"] == "/staging/t00100"


async def test_a_fault_of_ours_is_a_500_without_its_details(full: Site) -> None:
    full.gateway.failures["brokers"] = RuntimeError("secret details")  # type: ignore[assignment]
    with pytest.raises(RuntimeError):  # the server writes it to its log
        await full.api("/brokers/list")


async def test_a_read_only_server_refuses_every_other_operation_and_changes_nothing(readonly: Site) -> None:
    for operation in REGISTRY:
        if api_method(operation) == "GET":
            continue
        answer = await readonly.client.post(api_path(operation), json=operation.examples[0].arguments)
        assert answer.status_code == 403, operation.name
    assert readonly.is_unchanged
    assert {outcome for _, _, outcome in readonly.audit()} == {"refused"}
    assert "local" in {who for who, _, _ in readonly.audit()}


def test_the_routes_are_those_of_the_registry() -> None:
    assert api_path(BY_NAME["list_topics"]) == "/api/v1/topics/list"
    assert api_path(BY_NAME["audit"]) == "/api/v1/audit"
    assert {api_method(BY_NAME[name]) for name in ("create_topic", "delete_topic", "approve_plan")} == {"POST"}


async def test_a_body_without_an_announced_length_is_bounded_as_well(full: Site) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(WEB_BODY_BYTES_MAX // 1_024 + 1):
            yield b" " * 1_024

    headers = {**BEARER, "content-type": "application/json"}
    answer = await full.client.post("/api/v1/topics/create", content=parts(), headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (413, "BODY_TOO_LARGE")
    assert full.is_unchanged
