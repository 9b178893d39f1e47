"""`danube bench --compare`: what is measured, and what is said of it."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from danube.cli.compare.compare import Compared, Comparison, compare, comparison_lines, peer_at
from danube.cli.compare.danube_peer import danube_peer
from danube.cli.compare.peer import Arrived, throughput
from danube.client import DanubeClientBuilder
from danube.model.errors import InvalidRequestError, UnavailableError
from danube.testing.in_process_broker import running_broker


class Forgetful:
    """A peer that loses the last message."""

    name = "forgetful"

    def __init__(self) -> None:
        self._kept: list[bytes] = []

    async def publish(self, payloads: Sequence[bytes]) -> None:
        self._kept += payloads[:-1]

    def start(self, payload: bytes) -> None:
        self._kept.append(payload)

    async def flush(self) -> None:
        return None

    async def receive(self) -> Arrived:
        kept, self._kept = self._kept, []
        return Arrived(kept, 0.0)


async def test_danube_is_measured_by_its_own_client(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "data") as cell:
        builder = DanubeClientBuilder().service_url(f"http://{cell.broker.addresses.broker}").with_carrier(cell.carrier)
        async with await builder.build() as client, danube_peer(client, "/default/compared") as peer:
            (found,) = await compare([peer], Comparison(messages=50, size=100, rounds=2, rate=10_000))
    assert (len(found.rates), len(found.p50_ms), len(found.p99_ms)) == (2, 2, 2)
    assert 0 < min(found.p50_ms) <= max(found.p99_ms)


async def test_a_broker_that_loses_a_message_gets_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("danube.cli.compare.peer.COMPARE_IDLE_S", 0.0)
    with pytest.raises(ExceptionGroup) as raised:
        await throughput(Forgetful(), 10, 100)
    assert raised.group_contains(UnavailableError, match="forgetful: 1 of 10 messages did not come")


def test_the_table_compares_ours_with_each() -> None:
    found = [Compared("danube", [100.0, 300.0, 200.0], [1.0], [2.0]), Compared("Kafka", [100.0], [0.5], [9.0])]
    lines = list(comparison_lines(found, Comparison(messages=10, size=100, rounds=3)))
    assert lines[2].split() == ["danube", "200", "1.00", "1.00", "2.00"]
    assert lines[3].split() == ["Kafka", "100", "2.00", "0.50", "9.00"]


@pytest.mark.parametrize("url", ["mqtt://127.0.0.1:1883", "127.0.0.1:4222", "nats://"])
def test_a_broker_of_another_kind_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequestError, match="use kafka://, nats://, redis://"):
        peer_at(url)
