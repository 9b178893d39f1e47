"""Probes of one broker: what each of them says, from its start to its end."""

from types import SimpleNamespace
from typing import Any

from danube.broker.telemetry.health import BrokerHealth

PATHS = ("/health/startup", "/health/ready", "/health/live")


def healthy(health: BrokerHealth) -> list[bool]:
    """Answers of start-up, ready and live."""
    return [health.checks[path]() is None for path in PATHS]


def test_a_broker_that_starts_lives_and_is_not_ready() -> None:
    assert healthy(BrokerHealth()) == [False, False, True]


def test_a_broker_that_drains_is_not_ready_and_is_not_to_be_killed() -> None:
    health = BrokerHealth()
    health.started()
    assert healthy(health) == [True, True, True]
    health.ending()
    assert healthy(health) == [True, False, True]
    assert "another broker" in (health.checks["/health/ready"]() or "")


def test_a_journal_that_cannot_go_on_asks_for_a_restart() -> None:
    health, storage = BrokerHealth(), SimpleNamespace(stopped=None)
    given: Any = storage
    health.follow(given)
    health.started()
    assert healthy(health) == [True, True, True]
    storage.stopped = "a sync failed"
    assert healthy(health) == [True, False, False]
    assert {health.checks[path]() for path in ("/health", "/health/live", "/health/ready")} == {"a sync failed"}
