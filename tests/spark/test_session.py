"""Sessions: the example of the page, and a machine without Java."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from danube.testing.patience import PATIENCE_S
from tests.spark.conftest import Lake

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
ON_A_BARE_MACHINE = """
import sys
from spark_analytics.java import find_java
from spark_analytics.session import spark_session
spark = spark_session("bare", "local[2]")
print(find_java().home.parent.name, spark.range(1_000).groupBy("id").count().count())
frame = spark.read.format("danube").options(service_url=sys.argv[1], topic=sys.argv[2]).load()
print("rows", frame.count())
"""


def test_session_is_quiet_listens_on_loopback_and_needs_no_settings(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert (conf.get("spark.driver.host"), conf.get("spark.ui.enabled")) == ("127.0.0.1", "false")
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert spark.sparkContext.uiWebUrl is None


@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_machine_without_java_runs_spark_on_the_packaged_one(lake: Lake, tmp_path: Path) -> None:
    lake.publish([b"x"] * 10)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "dirname", "env", "ps", "sh"):  # what Spark's launch scripts call
        (tools / name).symlink_to(shutil.which(name) or name)
    environment = {"HOME": str(tmp_path), "PATH": str(tools)}
    ran = subprocess.run(
        [sys.executable, "-c", ON_A_BARE_MACHINE, lake.broker.endpoints.service_url, lake.topic],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )
    assert ran.stdout.split("\n") == ["danube 1000", "rows 10", ""], ran.stderr[-3_000:]


def test_examples_of_the_page_run(lake: Lake, tmp_path: Path) -> None:
    page = (ROOT / "docs/spark.md").read_text(encoding="utf-8")
    lake.publish([b"%d" % number for number in range(300)])
    names = {"service_url": lake.broker.endpoints.service_url, "folder": str(tmp_path)}
    examples = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    for example in examples:
        exec(example.replace("/default/orders", lake.topic), names)
    assert len(examples) == 4
    assert lake.spark.read.parquet(f"{tmp_path}/orders").count() == 300
