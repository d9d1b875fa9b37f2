"""Other projects' Spark writers on the epochs of `sink.py`: Delta Lake's and Iceberg's, with their default settings.

Not part of ``make bench``: ``make bench-peers`` fetches their jars from Maven Central, and the PySpark that both run
on, about 1 GB under ``build/peers``.

Not every jar runs on every Spark: Iceberg 1.12 has none for Spark 4.2 and 4.3, and Delta 4.4 none for 4.3, so both run
on 4.1. lance-spark is not measured: Maven Central has its bundle for Spark 3.5 (0.0.14), which writes batches and no
streams.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _lines import Line, Running, serve
from _streams import NARROW, OURS, PARQUET, to_format, to_parquet, to_sink
from harness import Case, Work, main


def to_delta(writer: Any, folder: Path) -> Any:
    return writer.format("delta").start(str(folder / "out.delta"))


def to_iceberg(writer: Any, folder: Path) -> Any:
    from pyspark.sql import SparkSession

    table = f"local.bench.{folder.name}"
    columns = "id BIGINT, k BIGINT, x DOUBLE, name STRING"
    SparkSession.getActiveSession().sql(f"CREATE TABLE {table} ({columns}) USING iceberg")
    return writer.format("iceberg").toTable(table)


LINE = Line(
    "4.1.4",
    ("io.delta:delta-spark_4.1_2.13:4.4.0", "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"),
    {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.local": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.local.type": "hadoop",
        "spark.sql.catalog.local.warehouse": "{folder}/warehouse",
    },
    {
        OURS[0]: to_format,
        OURS[1]: to_sink,
        PARQUET: to_parquet,
        "Delta Lake": to_delta,
        "Iceberg": to_iceberg,
    },
)


def cases(arguments: argparse.Namespace) -> Iterator[Case]:
    LINE.install()
    for rows in arguments.rows[:1] if arguments.quick else arguments.rows:
        with Running(LINE, __file__, rows, 2 if arguments.quick else arguments.epochs) as running:
            yield Case(
                f"Spark {LINE.pyspark}, epochs of {rows:,} {NARROW.name}",
                {start: (lambda start=start, running=running: running.run(start)) for start in LINE.starts},  # type: ignore[misc]
                ours=OURS,
                base=PARQUET,
                rounds=arguments.rounds,
                work=Work(rows, "rows"),
            )


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000, 2_000_000], help="rows per epoch")
    parser.add_argument("--epochs", type=int, default=5, help="measured epochs of each stream")
    parser.add_argument("--rounds", type=int, default=2, help="streams of each writer, in turns")


def child(rows: str, epochs: str) -> None:
    serve(LINE, int(rows), int(epochs))


if __name__ == "__main__":
    main(cases, options=options, child=child)
