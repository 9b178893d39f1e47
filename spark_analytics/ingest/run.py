"""Start of an ingest, for a command line that starts without Spark."""

from danube.runtime.clock import Clock
from spark_analytics.ingest.request import IngestRequest
from spark_analytics.progress import Steps


def run_ingest(request: IngestRequest, clock: Clock, master: str, steps: Steps) -> int:
    """Start Spark and ingest; answers how many records were stored. Raises DanubeError."""
    from spark_analytics.ingest.stream import ingest  # noqa: PLC0415 - `--help` needs no Spark
    from spark_analytics.session import spark_session  # noqa: PLC0415 - the same

    spark = spark_session("danube ingest", master)
    steps.done(f"Spark {spark.version} on {master}")
    return ingest(spark, request, clock.now_ms(), steps).rows
