"""Land orders from Spark in a Lance table exactly once, although one epoch runs twice; a second stream reads them."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import headrace
import headrace.spark

ORDERS = pa.schema([("id", pa.int64()), ("item", pa.string()), ("total", pa.float64())])
ITEMS = ["lamp", "chair", "table"]


def start_spark(folder: Path):
    """Start a local Spark on the loopback interface, without console output. An existing Spark needs none of this."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.local.dir", str(folder / "spark"))
        .config("spark.python.unix.domain.socket.enabled", "true")  # saves 40 ms per task
        .getOrCreate()
    )


def arrive(folder: Path, number: int) -> None:
    """Write a file of 1,000 orders."""
    ids = range(number * 1000, number * 1000 + 1000)
    rows = pa.table([ids, [ITEMS[i % 3] for i in ids], [5.0 + i % 90 for i in ids]], schema=ORDERS)
    folder.mkdir(exist_ok=True)
    pq.write_table(rows, folder / f"{number:03}.parquet")


def into_table(frame, key: str, table: str, folder: Path) -> None:
    """Land all new rows in a Lance table; the key identifies the query's epochs in the table."""
    query = (
        frame.writeStream.format("lance")
        .option("streamingQueryId", key)
        .option("createTable", "true")
        .option("checkpointLocation", str(folder / f"{key}-checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / table))
    )
    query.awaitTermination()


def land(spark, folder: Path) -> None:
    """Land every file that has arrived, one per epoch."""
    orders = spark.readStream.schema("id bigint, item string, total double").option("maxFilesPerTrigger", 1)
    into_table(orders.parquet(str(folder / "arriving")), "orders", "orders.lance", folder)


def pick(spark, folder: Path) -> None:
    """Read the orders added since the last call, and land the large ones in another table."""
    orders = spark.readStream.format("lance").load(str(folder / "orders.lance"))
    into_table(orders.where("total > 90"), "large", "large.lance", folder)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spark = start_spark(folder)
        headrace.spark.register(spark)
        for number in range(3):
            arrive(folder / "arriving", number)
        land(spark, folder)
        print("landed 3 files, 1,000 orders each")
        pick(spark, folder)
        print("a second stream read the table, and landed the large orders in another one")

        # The state after a driver crash between the table's commit and Spark's commit.
        (folder / "orders-checkpoint/commits/2").unlink()
        (folder / "orders-checkpoint/commits/.2.crc").unlink()
        arrive(folder / "arriving", 3)
        land(spark, folder)
        print("removed Spark's commit of epoch 2 and restarted: Spark ran epoch 2 again, and a new file")
        pick(spark, folder)
        print("the second stream continued, and read only the new rows")
        spark.stop()

        with headrace.SessionContext() as ctx:
            ctx.register_lance("orders", str(folder / "orders.lance"))
            ctx.register_lance("large", str(folder / "large.lance"))
            print("the tables, queried with SQL in this process:")
            ctx.sql(
                "select 'orders' as name, count(*) as rows, count(distinct id) as orders from orders "
                "union all select 'large', count(*), count(distinct id) from large order by name desc"
            ).show()
            ctx.sql(
                "select item, count(*) as orders, sum(total) as total from orders group by item order by item"
            ).show()


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark warns about versions of pandas that it was not tested with
        main()
