"""`deploy/compose/`: there is no container runtime in tests, so its files are held against what they name."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it has no stubs
import pytest
import yaml

from danube.broker.config.settings import BrokerSettings, load_broker_settings
from danube.model.ownership import StorageMode
from danube.runtime.settings import ENVIRONMENT_PREFIX, fields_of

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "deploy" / "compose"
SERVICE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["image"],
    "properties": {
        "image": {"type": "string", "pattern": r"^[a-z0-9./-]+:[v0-9.]+$"},
        "command": {"type": "array", "items": {"type": "string"}},
        "entrypoint": {"type": "array", "items": {"type": "string"}},
        "environment": {"type": "object", "additionalProperties": {"type": "string"}},
        "volumes": {"type": "array", "items": {"type": "string", "pattern": r"^[./a-z0-9-]+:/[^:]+(:ro)?$"}},
        "ports": {"type": "array", "items": {"type": "string", "pattern": r"^127\.0\.0\.1:\d+:\d+$"}},
        "depends_on": {"type": ["array", "object"]},
        "restart": {"const": "unless-stopped"},
        "read_only": {"const": True},
        "tmpfs": {"const": ["/tmp"]},
        "network_mode": {"const": "service:ports"},
    },
}
SCHEMA = {
    "type": "object",
    "required": ["name", "services", "volumes"],
    "properties": {"services": {"type": "object", "additionalProperties": SERVICE}, "volumes": {"type": "object"}},
    "patternProperties": {"^x-": {}},
}
"""The part of Compose's schema that the file uses; ports are bound to the machine itself."""
BROKERS = ("broker1", "broker2", "broker3")


@pytest.fixture(scope="module")
def compose() -> Any:
    return yaml.safe_load((COMPOSE / "compose.yaml").read_text())


def test_the_file_has_the_form_of_compose(compose: Any) -> None:
    jsonschema.validate(compose, SCHEMA)
    assert set(BROKERS) <= set(compose["services"])


def test_what_services_name_is_there(compose: Any) -> None:
    for service in compose["services"].values():
        assert set(service.get("depends_on", ())) <= set(compose["services"])
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert source in compose["volumes"] or (COMPOSE / source).exists(), volume


@pytest.mark.parametrize("name", BROKERS)
def test_the_settings_of_a_broker_are_known_and_load(compose: Any, name: str) -> None:
    environment: Mapping[str, str] = compose["services"][name]["environment"]
    known = {ENVIRONMENT_PREFIX + key.replace(".", "_").upper() for key in fields_of(BrokerSettings)}
    assert set(environment) <= known
    loaded = load_broker_settings(COMPOSE / "danube.yaml", environment, {})
    assert (loaded.settings.storage.mode, loaded.warnings) == (StorageMode.OBJECT_STORE, ())


@pytest.mark.parametrize("name", BROKERS)
def test_a_broker_keeps_its_identity_and_its_raft_log_in_a_volume_of_its_own(compose: Any, name: str) -> None:
    image = (ROOT / "deploy" / "image" / "Containerfile").read_text()
    data_dir = re.search(r"DANUBE_DATA_DIR=(\S+)/data\b", image)
    assert data_dir is not None
    assert f"{name}:{data_dir[1]}" in compose["services"][name]["volumes"]
    assert name in compose["volumes"]
    assert [each for each in BROKERS if f"{name}:{data_dir[1]}" in compose["services"][each]["volumes"]] == [name]


def test_an_image_gets_wheels_and_locks_and_no_secrets() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    let_in = {line.removeprefix("!") for line in rules if line.startswith("!")}
    assert let_in == {"build/wheels", "requirements"}


def port_of(compose: Any, broker: str, setting: str) -> str:
    """The port of an address in a broker's environment."""
    address: str = compose["services"][broker]["environment"][setting]
    return address.rpartition(":")[2]


def test_prometheus_asks_every_broker(compose: Any) -> None:
    asked = yaml.safe_load((COMPOSE / "prometheus.yaml").read_text())["scrape_configs"][0]["static_configs"]
    assert asked == [{"targets": [f"ports:{port_of(compose, name, 'DANUBE_PROM_EXPORTER')}" for name in BROKERS]}]


def test_brokers_and_clients_reach_a_broker_by_one_address(compose: Any) -> None:
    published = compose["services"]["ports"]["ports"]
    for name in BROKERS:
        assert compose["services"][name]["network_mode"] == "service:ports"
        assert port_of(compose, name, "DANUBE_ADVERTISED_ADDR") == port_of(compose, name, "DANUBE_BROKER_ADDR")
        for setting in ("DANUBE_BROKER_ADDR", "DANUBE_ADMIN_ADDR"):
            port = port_of(compose, name, setting)
            assert f"127.0.0.1:{port}:{port}" in published
    raft = [f"127.0.0.1:{port_of(compose, name, 'DANUBE_META_STORE_RAFT_ADDR')}" for name in BROKERS]
    assert compose["services"]["broker1"]["environment"]["DANUBE_META_STORE_SEED_NODES"] == ",".join(raft)


@pytest.mark.parametrize("board", sorted((COMPOSE / "grafana" / "boards").glob("*.json")), ids=lambda path: path.stem)
def test_every_metric_of_a_board_exists(board: Path) -> None:
    metrics = set(re.findall(r"^\| `(danube_\w+)`", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE))
    used = set(
        re.findall(r"danube_\w+", json.dumps([panel["targets"] for panel in json.loads(board.read_text())["panels"]]))
    )
    assert used
    assert {re.sub(r"_bucket$", "", name) for name in used} <= metrics
