"""A stream in a process of its own, to be killed: options as JSON, a folder for checkpoint and output."""

import json
import sys

from spark_analytics.session import spark_session


def main() -> None:
    options, folder = json.loads(sys.argv[1]), sys.argv[2]
    source = spark_session("killed", "local[2]").readStream.format("danube").options(**options).load()
    sink = source.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
    sink.option("path", f"{folder}/out").start().awaitTermination()


main()
