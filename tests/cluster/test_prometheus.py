"""Metrics and logs of real brokers, and PromQL by a real Prometheus, where the machine has one."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from danube.admin.gateway import PromQuery, PromSeries
from danube.admin.grpc_gateway.gateway import opened
from danube.admin.target import Target
from danube.model.calls.admin import CreateTopic
from danube.model.calls.inspection import LogLevel, ReadLog, ReadMetrics
from danube.model.errors import InvalidRequestError, NotFoundError, UnavailableError
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.prometheus import PrometheusServer
from tests.cluster.seeing import until
from tests.plugins import fork_server

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(180)]

TOPIC = TopicName("default", "orders")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", flags=("--prom-exporter", "127.0.0.1:0")) as broker:
        yield broker


@pytest.fixture
def prometheus(broker: BrokerProcess, tmp_path: Path) -> Iterator[PrometheusServer]:
    try:
        server = PrometheusServer(tmp_path / "prometheus", [broker.endpoints.metrics or ""])
    except UnavailableError as error:
        pytest.skip(str(error))
    with server:
        yield server


def shown(broker: BrokerProcess, *words: str) -> Any:
    command = [sys.executable, "-m", "danube.admin", "--endpoint", broker.endpoints.admin_url, "-o", "json", *words]
    ended = fork_server.run(command, variables=os.environ, timeout_s=PATIENCE_S)
    ended.check_returncode()
    return json.loads(ended.stdout)


async def test_a_broker_tells_its_metrics_and_its_log(broker: BrokerProcess) -> None:
    async with opened(Target(endpoint=broker.endpoints.admin_url, timeout_s=PATIENCE_S)) as gateway:
        await gateway.create_topic(CreateTopic(topic=TOPIC, strategy=DispatchStrategy.RELIABLE))
        (found,) = await gateway.metrics(ReadMetrics(prefix="danube_topic_active", topic=TOPIC), None)
        assert found.told is not None
        assert {each.name for each in found.told.samples} == {
            "danube_topic_active_producers",
            "danube_topic_active_subscriptions",
            "danube_topic_active_consumers",
        }
        (few,) = await gateway.metrics(ReadMetrics(limit=1), found.broker_id)
        assert few.told is not None
        assert (len(few.told.samples), few.told.sample_count > 1) == (1, True)
        (log,) = await gateway.broker_logs(ReadLog(level=LogLevel.INFO), None)
        assert log.told is not None
        assert any("serves clients on" in each.text for each in log.told.records)
        with pytest.raises(NotFoundError, match="no broker '77'"):
            await gateway.broker_logs(ReadLog(), "77")
    rows = shown(broker, "cluster", "metrics", "--metric", "danube_topic_active", "--topic", str(TOPIC))
    assert len(rows) == 3
    assert shown(broker, "brokers", "logs", "--level", "error")["records"] == []


async def test_a_real_prometheus_answers_promql_of_now_and_of_a_time(
    broker: BrokerProcess, prometheus: PrometheusServer
) -> None:
    target = Target(
        endpoint=broker.endpoints.admin_url, timeout_s=PATIENCE_S, prometheus=f"http://{prometheus.address}"
    )
    async with opened(target) as gateway:
        found = list[PromSeries]()

        async def scraped() -> bool:
            found[:] = await gateway.prometheus(PromQuery(query="danube_journal_rounds_total"))
            return bool(found)

        await until(scraped)
        assert found[0].labels["__name__"] == "danube_journal_rounds_total"
        at_ms = found[0].points[0][0]
        ranged = PromQuery(query="up", start_ms=at_ms - 10_000, end_ms=at_ms + 1_000, step_s=1)
        (series,) = await gateway.prometheus(ranged)
        assert {value for _, value in series.points} == {1.0}
        (number,) = await gateway.prometheus(PromQuery(query="1 + 1"))
        assert [value for _, value in number.points] == [2.0]
        with pytest.raises(InvalidRequestError, match=r"Prometheus cannot answer the query: .*parse error"):
            await gateway.prometheus(PromQuery(query="up{"))
