"""Real brokers of clusters, of services and of Raft: data is damaged, verified, repaired, and served again."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from danube.model.exit_codes import ExitCode
from danube.model.topic import TopicName
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.broker_cluster import BrokerCluster
from danube.testing.processes.service import ServiceProcess
from lab.failover.administration import Administration
from lab.metadata.servers import new_root
from tests.cluster.test_metadata_tools import TOPIC, publish, server, service_variables, settings_of, stored
from tests.plugins import fork_server
from tests.unit.offline.folder_world import flip

__all__ = ["server"]

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]


def storage(data: Path, *words: str, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "danube.broker", "storage", *words, "--data-dir", str(data)]
    return fork_server.run_text(command, variables={"PATH": os.environ["PATH"], **variables}, timeout_s=PATIENCE_S)


def damage(data: Path) -> None:
    journal = data / "journal" / "0000000001.journal"
    flip(journal, journal.read_bytes().index(b"message 5"))


@pytest.mark.parametrize("server", ["etcd", pytest.param("zookeeper", marks=pytest.mark.nightly)], indirect=True)
@pytest.mark.slow
def test_what_a_repair_has_made_is_named_in_the_service_when_the_broker_starts(
    server: ServiceProcess, tmp_path: Path
) -> None:
    data, variables = tmp_path / "data", service_variables(server, new_root())
    with BrokerProcess(data, settings=settings_of(variables)) as broker:
        for messages in (1, 6, 5):
            asyncio.run(publish(broker, messages))
        broker.terminate()
        damage(data)
        assert storage(data, "verify", variables={}).returncode == ExitCode.DAMAGED_DATA
        assert storage(data, "repair", "--accept-loss", variables={}).returncode == ExitCode.USAGE
        done = storage(data, "repair", "--accept-loss", variables=variables)
        assert (done.returncode, done.stderr) == (ExitCode.OK, "")
        assert "/default/" in done.stdout
        broker.start()
        assert asyncio.run(stored(broker)) == 12  # six of them say that they are lost
        broker.terminate()
        assert storage(data, "verify", variables=variables).stdout.startswith("Sound: ")


@pytest.mark.slow
def test_a_member_that_was_killed_is_repaired_by_what_it_knew_while_the_others_go_on(tmp_path: Path) -> None:
    with BrokerCluster(tmp_path) as cluster:
        for messages in (1, 6, 5):
            asyncio.run(publish(cluster.brokers[0], messages))
        killed = asyncio.run(Administration(cluster).owner(TopicName.parse(TOPIC)))
        other = next(each for each in cluster.brokers if each is not killed)
        asyncio.run(publish(other, 5, "/default/clicks"))
        killed.kill()
        damage(killed.data_dir)
        assert storage(killed.data_dir, "verify", variables={}).returncode == ExitCode.DAMAGED_DATA
        done = storage(killed.data_dir, "repair", "--accept-loss", variables={})
        assert (done.returncode, done.stderr) == (ExitCode.OK, "")
        asyncio.run(publish(other, 1, "/default/later"))
        assert storage(killed.data_dir, "verify", variables={}).returncode == ExitCode.OK
        killed.start()
        assert asyncio.run(stored(killed)) == 12
        assert [asyncio.run(stored(killed, topic)) for topic in ("/default/clicks", "/default/later")] == [5, 1]
