"""Plans without a terminal: nothing happens unless somebody said yes beforehand."""

import json

import pytest

from danube.model.plans.plan import Approval
from tests.faces.memory_gateway import MemoryGateway
from tests.faces.seeded import ORDERS, PLAN_ID
from tests.unit.admin.cli.conftest import Admin

DELETE = ("topics", "delete", "/default/orders")


def test_without_a_terminal_the_plan_is_printed_and_nothing_is_done(admin: Admin, gateway: MemoryGateway) -> None:
    before = gateway.digest()
    ended = admin(*DELETE)
    assert ended.code == 3
    assert "Cannot be undone" in ended.out
    assert "nothing has changed: nobody could be asked" in ended.error
    assert gateway.digest() == before


def test_an_answer_from_a_pipe_is_no_yes(admin: Admin, gateway: MemoryGateway) -> None:
    assert admin(*DELETE, stdin="/default/orders\ny\n").code == 3
    assert str(ORDERS) in gateway.cluster.topics


@pytest.mark.parametrize("words", [[*DELETE, "--yes"], ["--yes", *DELETE], [*DELETE, "-y"]])
def test_yes_applies_at_once(words: list[str], admin: Admin, gateway: MemoryGateway) -> None:
    ended = admin(*words)
    assert ended.code == 0
    assert "Done." in ended.out
    assert str(ORDERS) not in gateway.cluster.topics


@pytest.mark.parametrize(("value", "code"), [("1", 0), ("0", 3), ("", 3)])
def test_the_variable_says_yes_with_1_alone(value: str, code: int, admin: Admin) -> None:
    assert admin(*DELETE, environment={"DANUBE_ADMIN_YES": value}).code == code


def test_a_context_can_say_yes(admin: Admin) -> None:
    admin("contexts", "set", "lab", "--endpoint", "lab:50051", "--always-yes")
    assert admin(*DELETE).code == 0


def test_a_dry_run_shows_the_plan_and_does_nothing(admin: Admin, gateway: MemoryGateway) -> None:
    before = gateway.digest()
    kept = dict(gateway.stored_plans)
    ended = admin(*DELETE, "--dry-run", "--yes", "-o", "json")
    assert ended.code == 0
    shown = json.loads(ended.out)
    assert shown["plan"]["messages"] == 5
    assert (shown["status"], shown["plan"]["plan_id"]) == ("shown", "")
    assert "without --dry-run" in ended.error
    assert gateway.digest() == before
    assert gateway.stored_plans == kept


def test_a_plan_is_applied_by_its_id_and_once(admin: Admin, gateway: MemoryGateway) -> None:
    plan_id = json.loads(admin(*DELETE, "-o", "json").out)["plan"]["plan_id"]
    assert admin(*DELETE, "--plan-id", plan_id).code == 0
    assert str(ORDERS) not in gateway.cluster.topics
    again = admin(*DELETE, "--plan-id", plan_id)
    assert again.code == 6
    assert "was applied already" in again.error


def test_a_plan_for_something_else_is_refused(admin: Admin, gateway: MemoryGateway) -> None:
    plan_id = json.loads(admin("topics", "delete", "/default/ticks", "-o", "json").out)["plan"]["plan_id"]
    ended = admin(*DELETE, "--plan-id", plan_id)
    assert ended.code == 6
    assert str(ORDERS) in gateway.cluster.topics


def test_a_plan_that_waits_for_a_person_exits_3(admin: Admin) -> None:
    ended = admin("namespaces", "delete", "staging", "--plan-id", PLAN_ID, "--yes")
    assert ended.code == 3
    assert f"danube-admin plans approve {PLAN_ID}" in ended.error


@pytest.mark.parametrize("words", [[], ["--yes"]])
def test_consent_without_a_terminal_is_refused_and_in_the_log(
    words: list[str], admin: Admin, gateway: MemoryGateway
) -> None:
    ended = admin("plans", "approve", PLAN_ID, *words, stdin=f"{PLAN_ID}\n", environment={"DANUBE_ADMIN_YES": "1"})
    assert (ended.code, ended.out) == (6, "")
    assert "run it in a terminal" in ended.error
    assert gateway.stored_plans[PLAN_ID].approval is Approval.WAITING
    assert [(each.entry.operation, each.entry.outcome) for each in gateway.audit_records] == [
        ("approve_plan", "refused")
    ]


def test_a_plan_can_be_rejected_from_anywhere(admin: Admin, gateway: MemoryGateway) -> None:
    assert admin("plans", "reject", PLAN_ID).code == 0
    assert gateway.stored_plans[PLAN_ID].approval is Approval.REJECTED
