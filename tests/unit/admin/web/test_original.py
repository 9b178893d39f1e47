"""The routes that the original's admin UI reads have its shapes."""

import json
from urllib.parse import quote

import pytest

from danube.model.errors import BrokerUnreachableError, UnavailableError
from tests.unit.admin.web.site import BEARER, Site

BROKER = {"broker_id", "broker_addr", "broker_role", "broker_status"}


async def test_health_is_always_200(readonly: Site) -> None:
    assert (await readonly.get("/ui/v1/health")).json() == {"status": "ok", "leader_reachable": True}
    readonly.gateway.failures["leader"] = BrokerUnreachableError("away")
    answer = await readonly.get("/ui/v1/health")
    assert (answer.status_code, answer.json()["leader_reachable"]) == (200, False)


async def test_the_cluster_has_its_brokers_and_totals(readonly: Site) -> None:
    told = (await readonly.get("/ui/v1/cluster")).json()
    assert set(told) == {"timestamp", "brokers", "totals", "errors"}
    assert set(told["brokers"][0]) == BROKER | {"admin_addr", "stats"}
    assert told["brokers"][0]["stats"]["topics_owned"] == told["totals"]["topics_total"] == 5


async def test_the_topics_stand_under_their_brokers(readonly: Site) -> None:
    told = (await readonly.get("/ui/v1/topics")).json()
    assert set(told["brokers"][0]["broker"]) == BROKER
    assert {"name": "/default/ticks", "delivery": "NonReliable"}.items() <= told["brokers"][0]["topics"][-1].items()


async def test_one_topic_is_named_by_its_whole_name(readonly: Site) -> None:
    told = (await readonly.get(f"/ui/v1/topics/{quote('/default/orders', safe='')}")).json()
    assert told["topic"]["name"] == "/default/orders"
    assert [each["name"] for each in told["topic"]["subscriptions"]] == ["audit", "billing"]
    assert told["metrics"]["active"] == {"producers": 1, "consumers": 1, "subscriptions": 2}
    assert told["metrics"]["reliable"] is None


async def test_the_namespaces_carry_their_policies_as_text(readonly: Site) -> None:
    told = (await readonly.get("/ui/v1/namespaces")).json()
    names = {each["name"]: each for each in told["namespaces"]}
    assert "/default/orders" in names["default"]["topics"]
    assert "max_message_size" in json.loads(names["staging"]["policies"])


async def test_a_broker_is_found_by_its_id_or_is_404(readonly: Site) -> None:
    told = (await readonly.get("/ui/v1/brokers/1")).json()
    assert set(told) == {"timestamp", "broker", "metrics", "topics", "errors"}
    assert set(told["broker"]) == {"id", "addr", "role", "status"}
    assert (await readonly.get("/ui/v1/brokers/9")).status_code == 404


async def test_a_broker_alone_has_no_leader(readonly: Site) -> None:
    told = (await readonly.get("/ui/v1/cluster/raft")).json()
    assert (told["leader_id"], told["voters"]) == ("0", [])


@pytest.mark.parametrize(
    ("path", "call"), [("cluster", "topics_on"), ("topics", "topics_on"), ("namespaces", "topics")]
)
async def test_what_fails_on_the_way_stands_in_errors(readonly: Site, path: str, call: str) -> None:
    readonly.gateway.failures[call] = UnavailableError("not now")
    answer = await readonly.get(f"/ui/v1/{path}")
    assert (answer.status_code, len(answer.json()["errors"]) > 0) == (200, True)


async def test_they_ask_for_the_token_as_everything_does(full: Site) -> None:
    assert (await full.get("/ui/v1/cluster")).status_code == 401
    assert (await full.client.get("/ui/v1/cluster", headers=BEARER)).status_code == 200
