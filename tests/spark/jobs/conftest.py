"""One Spark session for the tests of the jobs."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark_analytics.session import spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    conf = {"spark.sql.shuffle.partitions": 2}
    session = spark_session("tests of the jobs", "local[2]", **conf)
    yield session
    session.stop()
