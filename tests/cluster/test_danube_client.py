"""Our library in the place of the published wheel: what was written for that one, unchanged, on a real broker."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from danube.client import DanubeClientBuilder
from danube.testing.patience import LONG_S
from danube.testing.processes.broker import BrokerProcess
from tests.cluster.wheel.administering import surroundings
from tests.cluster.wheel.run import load_scenarios

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]

SCENARIOS = load_scenarios()
SLOW = {"flooded_consumer_gets_everything"}


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(
        tmp_path_factory.mktemp("library") / "data", settings={"ack_timeout_s": round(LONG_S)}
    ) as process:
        yield process


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in SCENARIOS]
)
async def test_what_was_written_for_the_published_client_works_unchanged(
    shared_broker: BrokerProcess, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in surroundings(str(Path(sys.executable).parent), shared_broker.endpoints.admin_url).items():
        monkeypatch.setenv(variable, value)
    async with await DanubeClientBuilder().service_url(shared_broker.endpoints.service_url).build() as client:
        await SCENARIOS[name](client)
