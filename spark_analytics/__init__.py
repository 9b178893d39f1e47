"""Danube in PySpark: `register(spark)`, then `spark.read.format("danube")` and `spark.readStream.format("danube")`.

Importing this loads nothing; PySpark comes with the first call.
"""

from typing import TYPE_CHECKING

from spark_analytics.topics import topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register", "topics"]


def register(spark: "SparkSession") -> "SparkSession":
    """Have the session know the format `danube`; answers the session. Doing it again changes nothing."""
    from spark_analytics.source.datasource import DanubeDataSource  # noqa: PLC0415 - it takes PySpark with it

    spark.dataSource.register(DanubeDataSource)
    return spark
