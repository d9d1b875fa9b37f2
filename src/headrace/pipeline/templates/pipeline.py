"""The pipeline of pipeline.toml in Python. Run it with `python pipeline.py` or with spark-submit."""

from pathlib import Path

from pyspark.sql import SparkSession

import headrace.spark

HERE = Path(__file__).absolute().parent

spark = SparkSession.builder.appName("numbers-v1").getOrCreate()
headrace.spark.register(spark)

source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1000).option("numPartitions", 2).load()
source.createOrReplaceTempView("source")
numbered = spark.sql("SELECT value AS id, value % 10 AS digit, timestamp AS at FROM source")

query = (
    numbered.writeStream.format("lance")
    .option("streamingQueryId", "numbers-v1")  # the query's key in the table; do not change it
    .option("createTable", "true")
    .option("checkpointLocation", str(HERE / "checkpoint"))
    .trigger(availableNow=True)  # without this line, the query keeps running
    .start(str(HERE / "numbers.lance"))
)
query.awaitTermination()
spark.stop()
