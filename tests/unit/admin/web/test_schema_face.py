"""The schema registry as Confluent's clients call it, below `/api/confluent` of the web server."""

import json

from tests.unit.admin.web.site import BEARER, LABEL, Site

FACE = "/api/confluent"
ORDER = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "note": {"type": "string"}, "tag": {"type": "string"}},
    "required": ["id"],
}
BODY = {"schema": json.dumps(ORDER), "schemaType": "JSON"}


async def test_a_client_reads_without_a_token_and_changes_nothing(readonly: Site) -> None:
    found = await readonly.client.get(f"{FACE}/subjects/orders-value/versions/latest")
    assert (found.status_code, found.json()["version"], found.json()["schemaType"]) == (200, 2, "JSON")
    by_id = await readonly.client.get(f"{FACE}/schemas/ids/{found.json()['id']}")
    assert by_id.json()["schema"] == found.json()["schema"]
    refused = await readonly.client.post(f"{FACE}/subjects/orders-value/versions", json=BODY)
    assert refused.status_code >= 400
    assert (await readonly.client.get(f"{FACE}/subjects/orders-value/versions")).json() == [1, 2]


async def test_a_client_registers_under_its_token_and_is_in_the_audit_log(full: Site) -> None:
    made = await full.client.post(f"{FACE}/subjects/orders-value/versions", json=BODY, headers=BEARER)
    assert (made.status_code, made.json()["version"]) == (200, 3)
    assert full.audit()[-1][:2] == (LABEL, "register_schema")
    assert (await full.client.get(f"{FACE}/subjects", headers=BEARER)).json() == ["orders-value"]


async def test_errors_have_the_numbers_that_clients_look_at(full: Site) -> None:
    cases = {
        "/subjects/nothing/versions": (404, 40401),
        "/subjects/orders-value/versions/9": (404, 40402),
        "/subjects/orders-value/versions/first": (422, 42202),
        "/schemas/ids/99": (404, 40403),
        "/config/orders-value": (404, 40408),
        "/nowhere": (404, 404),
    }
    for path, wanted in cases.items():
        answer = await full.client.get(f"{FACE}{path}", headers=BEARER)
        assert (answer.status_code, answer.json()["error_code"]) == wanted, path
    broken = {**BODY, "schema": '{"type": "string"}'}
    refused = await full.client.post(f"{FACE}/subjects/orders-value/versions", json=broken, headers=BEARER)
    assert (refused.status_code, refused.json()["error_code"]) == (409, 409)
    checked = await full.client.post(
        f"{FACE}/compatibility/subjects/orders-value/versions/latest?verbose=true", json=broken, headers=BEARER
    )
    assert checked.json()["is_compatible"] is False
    assert checked.json()["messages"]
