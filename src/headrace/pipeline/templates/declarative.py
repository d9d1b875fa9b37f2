"""The pipeline of pipeline.toml for Spark Declarative Pipelines. Run it with `spark-pipelines run`."""

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()

dp.create_sink(
    "numbers",
    "lance",
    {
        "path": str(Path(__file__).absolute().parent / "numbers.lance"),
        "streamingQueryId": "numbers-v1",  # the query's key in the table; do not change it
        "createTable": "true",
    },
)


@dp.append_flow(target="numbers")
def numbered() -> DataFrame:  # noqa: D103
    source = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=1000, numPartitions=2).load()
    return source.selectExpr("value AS id", "value % 10 AS digit", "timestamp AS at")
