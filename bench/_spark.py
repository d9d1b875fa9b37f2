"""The Spark session of the benches of sources."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def session(folder: Path) -> Iterator[Any]:
    """Have a Spark session with headrace's formats in the block; it keeps its files in the folder."""
    from pyspark.sql import SparkSession

    import headrace.spark

    os.environ["PYSPARK_PYTHON"] = sys.executable
    here = str(Path(__file__).parent)  # so that workers can import the modules of the benches
    os.environ["PYTHONPATH"] = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "OFF")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .getOrCreate()
    )
    headrace.spark.register(spark)
    try:
        yield spark
    finally:
        spark.stop()
