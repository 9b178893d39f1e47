"""Probes of real brokers of a cluster, as a kubelet asks them."""

import json
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker_cluster import BrokerCluster
from danube.testing.processes.free_ports import free_port

PROBES = ("startup", "ready", "live")


def probe(port: int, name: str) -> tuple[int, str]:
    """Status and what it says; 0 while nothing listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/{name}", timeout=1) as answer:
            return answer.status, json.load(answer)["status"]
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["status"]
    except OSError:
        return 0, ""


def codes(port: int) -> list[int]:
    return [probe(port, name)[0] for name in PROBES]


def test_ready_is_not_leader_and_live_is_not_quorum(tmp_path: Path) -> None:
    ports = [free_port() for _ in range(3)]
    cluster = BrokerCluster(tmp_path, flags=[["--prom-exporter", f"127.0.0.1:{port}"] for port in ports])
    try:
        cluster.brokers[0].launch()  # waits for a majority, and is not to be killed for that
        deadline_s = time.monotonic() + PATIENCE_S
        while codes(ports[0]) != [503, 503, 200] and time.monotonic() < deadline_s:
            threading.Event().wait(0.02)
        assert "starts" in probe(ports[0], "startup")[1]
        for broker in cluster.brokers[1:]:
            broker.launch()
        for broker in cluster.brokers:
            broker.wait()
        assert [codes(port) for port in ports] == [[200, 200, 200]] * 3
        for broker in cluster.brokers[1:]:
            broker.kill()
        assert codes(ports[0]) == [200, 200, 200]  # existing topics go on without a majority
    finally:
        cluster.kill()
