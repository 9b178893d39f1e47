"""Three brokers that are one cluster, on this machine, until Ctrl-C: they agree on the metadata by Raft."""

import argparse
import contextlib
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from danube.model.errors import UnavailableError
from danube.model.ownership import StorageMode
from danube.testing.processes.broker_cluster import BrokerCluster
from danube.testing.processes.object_server import MotoServer

_SIZE = 3
_CLIENT_PORT, _ADMIN_PORT, _RAFT_PORT = 6650, 50051, 7650


def main() -> None:
    """Exit 0 after Ctrl-C, 1 when the brokers do not form a cluster."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="keep everything here, for another start  [a new temporary folder]")
    parser.add_argument("--any-ports", action="store_true", help="take ports that are free, not the usual ones")
    parser.add_argument(
        "--storage",
        type=StorageMode,
        choices=list(StorageMode),
        default=StorageMode.SHARED_FS,
        help="shared_fs: messages in one folder. local: each broker keeps its own. object_store: in a bucket"
        " of a server in memory  [shared_fs]",
    )
    options = parser.parse_args()
    folder = (options.folder or Path(tempfile.mkdtemp(prefix="danube-cluster-"))).absolute()
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.set())
    _tell(f"Three brokers start in {folder}: each waits until a majority of them runs.")
    try:
        with contextlib.ExitStack() as running:
            objects = _objects(options.storage, folder, running)
            how: dict[str, Any] = {"size": _SIZE, "mode": options.storage, "objects": objects}
            if not options.any_ports:
                how |= {"flags": _addresses(), "raft_ports": _ports(_RAFT_PORT)}
            cluster = running.enter_context(BrokerCluster(folder, **how))
            _tell(_welcome(cluster, folder, options.storage))
            ended.wait()
            _tell("\nThey drain and end.")
            for broker in cluster.brokers:
                broker.terminate()
    except UnavailableError as error:
        sys.exit(f"FAILED: {error}")


def _objects(mode: StorageMode, folder: Path, running: contextlib.ExitStack) -> MotoServer | None:
    """The embedded S3 server: what is in it ends with it."""
    return running.enter_context(MotoServer(folder / "objects")) if mode is StorageMode.OBJECT_STORE else None


def _ports(first: int) -> list[int]:
    return list(range(first, first + _SIZE))


def _addresses() -> list[list[str]]:
    pairs = zip(_ports(_CLIENT_PORT), _ports(_ADMIN_PORT), strict=True)
    return [["--broker-addr", f"127.0.0.1:{client}", "--admin-addr", f"127.0.0.1:{admin}"] for client, admin in pairs]


def _welcome(cluster: BrokerCluster, folder: Path, mode: StorageMode) -> str:
    urls = "\n".join(
        f"  broker {number}   clients {broker.endpoints.service_url}   administration {broker.endpoints.admin_url}"
        f"   pid {broker.pid}"
        for number, broker in enumerate(cluster.brokers, 1)
    )
    first, second = cluster.brokers[0].endpoints, cluster.brokers[1].endpoints
    where = {
        StorageMode.SHARED_FS: f"Messages are in {folder / 'shared'}: others serve the topics of one that dies.",
        StorageMode.OBJECT_STORE: "Messages are in a bucket of a server in memory, and gone when it ends.",
        StorageMode.LOCAL: "Each broker keeps its messages: the topics of one that dies wait for it.",
    }[mode]
    return f"""
They are one cluster:

{urls}

{where}
Data, logs and the secret of their Raft ports are in {folder}.

  danube-admin cluster status --endpoint {first.admin_url}
  echo hello | danube produce --service-addr {first.service_url} --topic /default/demo
  danube-admin namespaces topics default --endpoint {second.admin_url}

Kill one of them (kill -9 PID): the two others go on. Ctrl-C ends all."""


def _tell(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
