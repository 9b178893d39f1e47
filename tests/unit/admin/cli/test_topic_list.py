"""The list of topics with lag, size and partitions; and the kind that a new topic has where nothing is said."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from danube.cli.__main__ import app as danube_app
from danube.model.errors import BrokerUnreachableError
from tests.faces.memory_gateway import MemoryGateway
from tests.unit.admin.cli.conftest import Admin

NUMBERS = ("lag_messages", "stored_bytes", "partitions")


def _listed(admin: Admin, *words: str) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in json.loads(admin("topics", "list", *words, "-o", "json").out)}


def test_each_topic_is_listed_with_its_lag_size_and_partitions(admin: Admin) -> None:
    described = json.loads(admin("topics", "describe", "/default/orders", "-o", "json").out)
    lags = [each["lag_messages"] for each in described["subscription_states"]]
    orders = _listed(admin)["/default/orders"]
    assert [orders[name] for name in NUMBERS] == [max(lags), described["stored_bytes"], None]
    assert max(lags) > 0
    assert [_listed(admin)[f"/default/events-part-{index}"]["partitions"] for index in range(3)] == [3, 3, 3]


def test_topics_of_the_system_are_left_out_unless_they_are_asked_for(admin: Admin) -> None:
    admin("topics", "create", "/system/audit")
    assert "/system/audit" not in _listed(admin)
    broker = _listed(admin, "--system")["/system/audit"]["broker_id"]
    assert "/system/audit" in _listed(admin, "--broker", broker, "--system")
    assert "/system/audit" not in _listed(admin, "--broker", broker)
    assert list(_listed(admin, "--namespace", "system")) == ["/system/audit"]


def test_a_topic_that_stores_nothing_has_no_lag(admin: Admin) -> None:
    assert _listed(admin)["/default/ticks"]["lag_messages"] is None


def test_people_read_lag_and_size_with_units_and_sort_by_them(admin: Admin) -> None:
    lines = admin("topics", "list", "--sort-by", "-lag_messages").out.splitlines()
    (heading,) = [line for line in lines if "LAG" in line and "SIZE" in line]
    assert "/default/orders" in lines[lines.index(heading) + 1]


def test_a_brief_list_asks_for_no_numbers(admin: Admin, gateway: MemoryGateway) -> None:
    gateway.failures["describe_topics"] = BrokerUnreachableError("not asked")
    assert all(row[name] is None for row in _listed(admin, "--brief").values() for name in NUMBERS[:2])
    assert _listed(admin)["/default/orders"]["lag_messages"] is None  # not known, and listed all the same


@pytest.mark.parametrize("partitions", [[], ["--partitions", "2"]])
def test_a_new_topic_is_reliable_unless_it_is_said_otherwise(partitions: list[str], admin: Admin) -> None:
    made = json.loads(admin("topics", "create", "/default/new", *partitions, "-o", "json").out)
    assert made["delivery"] == "Reliable"
    other = admin("topics", "create", "/default/other", "--dispatch-strategy", "non_reliable", "-o", "json")
    assert json.loads(other.out)["delivery"] == "NonReliable"


def test_help_of_both_commands_names_the_default(admin: Admin) -> None:
    assert "Default: reliable." in " ".join(admin("topics", "create", "--help").out.split())
    assert "[default: (reliable)]" in " ".join(CliRunner().invoke(danube_app, ["produce", "--help"]).output.split())


def test_headings_of_brokers_are_words(admin: Admin) -> None:
    heading = admin("brokers", "list").out.splitlines()[0]
    assert heading.split("  ")[0] == "BROKER"
    assert all(word in heading for word in (" STATUS ", " ADDRESS ", " ROLE ", " ADMIN ADDRESS ", " METRICS ADDRESS"))
    assert "ADDR " not in heading
