"""Our library in the place of the published wheel: what was written for that one, unchanged, on a real broker."""

from collections.abc import Iterator
from functools import partial

import pytest

from danube.client import DanubeClientBuilder
from danube.testing.patience import LONG_S
from danube.testing.processes.broker import BrokerProcess
from tests.cluster.wheel import administering
from tests.cluster.wheel.run import load_scenarios
from tests.faces.faces import run

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]

SCENARIOS = load_scenarios()
SLOW = {"flooded_consumer_gets_everything"}


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(
        tmp_path_factory.mktemp("library") / "data", settings={"ack_timeout_s": round(LONG_S)}
    ) as process:
        yield process


async def administered(admin_url: str, *words: str) -> str:
    """Output of `danube-admin`, run in this process; the tests of the published client run the program."""
    code, out, errors = await run(["--endpoint", admin_url, *words])
    assert code == 0, errors
    return out


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in SCENARIOS]
)
async def test_what_was_written_for_the_published_client_works_unchanged(
    shared_broker: BrokerProcess, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(administering, "administer", partial(administered, shared_broker.endpoints.admin_url))
    async with await DanubeClientBuilder().service_url(shared_broker.endpoints.service_url).build() as client:
        await SCENARIOS[name](client)
