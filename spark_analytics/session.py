"""A Spark session for Danube's jobs and tests: finds Java, uses this Python, logs little, starts fast when local.

`python -m spark_analytics.session` makes the start archive: local sessions of this user then start in half the time.
"""

import os
import sys
import tempfile
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from danube.model.errors import SettingsError, UnavailableError
from danube.model.limits.faces import ANALYTICS_RUN_GRACE_S
from danube.runtime.process import signals_held
from spark_analytics import register
from spark_analytics.java import Java, cache_folder, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOPBACK = "127.0.0.1"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_SETTINGS = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
_ONE_COMPILER = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
_QUIET = f'-Xlog:disable -Xlog:all=error:stderr "-Dlog4j2.configurationFile={_LOG_SETTINGS}"'
_ARCHIVE_TIMEOUT_S = 120.0


def spark_session(app_name: str, master: str = "local[*]", **conf: object) -> "SparkSession":
    """A session that knows the format `danube`; the one that is running already, if there is one.

    It sets `JAVA_HOME` and `PYSPARK_PYTHON` for this process. `conf` are Spark's own settings, by their names, and win
    over what is set here. A local session listens on loopback only, and starts fast: its JVM leaves out the second
    compiler and uses the start archive where there is one. For long jobs, give `spark.driver.extraJavaOptions` (an
    empty text will do), which takes the place of that. Raises SettingsError without a Java, and
    UnavailableError for a master that does not answer.
    """
    from py4j.protocol import Py4JError  # noqa: PLC0415 - as below
    from pyspark.sql import SparkSession  # noqa: PLC0415 - importing this module is for commands that may not need it

    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    is_local = master.startswith("local")
    java_options = conf.pop(_JAVA_OPTIONS, " ".join(_fast_start(java)) if is_local else "")
    settings = {**_SETTINGS, **(_local_settings() if is_local else {}), _JAVA_OPTIONS: f"{_QUIET} {java_options}"}
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in {**settings, **conf}.items():
        builder = builder.config(name, str(value))
    try:
        with signals_held(
            alarm_grace_s=ANALYTICS_RUN_GRACE_S
        ):  # a JVM that has started by half is one that nobody ends
            session = builder.getOrCreate()
    except Py4JError as error:
        raise UnavailableError(
            f"Spark does not start on {master}: check that this master runs and can be reached"
        ) from error
    return register(session)


def build_start_archive() -> Path:
    """Make the archive of loaded classes that local sessions start from; some 10 seconds and 150 MB, once.

    It holds for one release of Java and of PySpark; without it sessions start as well, only slower. Ends the session
    that is running.
    """
    from pyspark import SparkContext  # noqa: PLC0415 - as in `spark_session`

    archive = _archive(find_java())
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(folder) / archive.name
        options = " ".join((*_ONE_COMPILER, f'"-XX:ArchiveClassesAtExit={made}"'))
        spark = spark_session("start archive", "local[1]", **{_JAVA_OPTIONS: options})
        spark.range(10).selectExpr("id % 3 AS k").groupBy("k").count().collect()
        gateway: Any = SparkContext._gateway  # noqa: SLF001 - the archive is written when the JVM ends, which nothing else tells
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(_ARCHIVE_TIMEOUT_S)
        if not made.exists():
            raise SettingsError("this Java makes no start archive: sessions start without one")
        made.replace(archive)
    return archive


def _local_settings() -> dict[str, str]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    return {
        "spark.driver.host": _LOOPBACK,
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
    }


def _fast_start(java: Java) -> tuple[str, ...]:
    with suppress(SettingsError):  # a cache folder that cannot be used: there is no archive then
        archive = _archive(java)
        if archive.exists():
            return (*_ONE_COMPILER, f'"-XX:SharedArchiveFile={archive}"')
    return _ONE_COMPILER


def _archive(java: Java) -> Path:
    """Path of the archive for this Java and this Spark."""
    of_what = f"{java.home} {java.major} {version('pyspark')} {' '.join(_ONE_COMPILER)}"
    return cache_folder() / f"spark-{sha256(of_what.encode()).hexdigest()[:16]}.jsa"


if __name__ == "__main__":
    sys.stdout.write(f"made {build_start_archive()}\n")
