"""What a shell offers: names of the cluster, harmless ones, soon, or nothing."""

import asyncio
import time

import pytest

from danube.admin.cli import completion
from danube.admin.cli.completion import offered
from danube.model.errors import BrokerUnreachableError
from danube.model.limits.faces import CLI_COMPLETION_TIMEOUT_S, CLI_COMPLETIONS_MAX
from danube.testing.patience import PATIENCE_S
from tests.faces.memory_gateway import ANY_CALL, HOSTILE, MemoryGateway
from tests.unit.admin.cli.conftest import Admin


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever presses a key is not kept waiting; a test is."""
    monkeypatch.setattr(completion, "CLI_COMPLETION_TIMEOUT_S", PATIENCE_S)


def completed(admin: Admin, *words: str, shell: str = "bash") -> list[str]:
    """What this line, whose last word is being typed, is completed with."""
    line = " ".join(["danube-admin", *words])
    variables = {
        "_DANUBE_ADMIN_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words)),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    return admin(environment=variables).out.split()


@pytest.mark.usefixtures("_patient")
@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["topics", "describe", "/default/o"], ["/default/orders"]),
        (["topics", "delete", "--namespace", "default", "t"], ["ticks"]),
        (["namespaces", "policies", "s"], ["staging", "system"]),
        (["topics", "list", "--namespace", "def"], ["default"]),
        (["topics", "list", "--broker", "1"], ["1"]),
        (["topics", "unsubscribe", "/default/orders", "-s", "b"], ["billing"]),
        (["plans", "approve", "plan"], ["plan-seeded"]),
        (["topics", "create", "/default/x", "--dispatch-strategy", "re"], ["reliable"]),
        (["topics", "unsub"], ["unsubscribe"]),
    ],
)
def test_names_that_begin_so_are_offered(words: list[str], names: list[str], admin: Admin) -> None:
    assert completed(admin, *words) == names


def test_names_of_contexts_are_offered_to_commands_and_to_the_flag(admin: Admin) -> None:
    for name in ("staging", "stable", "live"):
        assert admin("contexts", "set", name, "--endpoint", "127.0.0.1:1").code == 0
    assert completed(admin, "contexts", "use", "sta") == ["stable", "staging"]
    assert completed(admin, "contexts", "remove", "l") == ["live"]
    assert completed(admin, "--context", "stag") == ["staging"]


@pytest.mark.usefixtures("_patient")
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_is_offered_them(shell: str, admin: Admin) -> None:
    assert "/default/orders" in " ".join(completed(admin, "topics", "describe", "/default/o", shell=shell))


def test_a_completion_is_not_in_the_audit_log(admin: Admin, gateway: MemoryGateway) -> None:
    completed(admin, "topics", "describe", "/")
    assert gateway.audit_records == []


def test_a_broker_that_is_not_there_offers_nothing_and_says_nothing(admin: Admin, gateway: MemoryGateway) -> None:
    gateway.failures[ANY_CALL] = BrokerUnreachableError("nobody there")
    assert completed(admin, "topics", "describe", "/") == []


def test_a_broker_that_does_not_answer_is_waited_for_a_second(admin: Admin, gateway: MemoryGateway) -> None:
    gateway.held = asyncio.Event()
    before = time.monotonic()
    assert completed(admin, "topics", "describe", "/") == []
    assert CLI_COMPLETION_TIMEOUT_S <= time.monotonic() - before < CLI_COMPLETION_TIMEOUT_S + PATIENCE_S


@pytest.mark.parametrize("name", [HOSTILE, "a b", "$(id)", "`id`", "a;b", "a'b", 'a"b', "a\nb", "*"])
def test_what_a_shell_would_expand_is_never_offered(name: str) -> None:
    assert offered([name, "a-b_c.d"], "") == ["a-b_c.d"]


def test_the_names_that_are_offered_have_a_bound() -> None:
    assert len(offered((f"t{number}" for number in range(10_000)), "t")) == CLI_COMPLETIONS_MAX
