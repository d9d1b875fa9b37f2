"""The formats are found by their names, with no call, and finding them loads nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import headrace.spark
from headrace import InvalidArgumentError
from support.deadlines import PROGRAM_SECONDS
from support.streams import StreamInput, drain, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOADED = """
import sys
import pyspark.sql.datasource
before = set(sys.modules)
import pyspark_headrace, pyspark_headrace_name
sources = [module.DefaultSource for module in (pyspark_headrace, pyspark_headrace_name)]
print(*(source.name() for source in sources), *(set(sys.modules) - before))
"""

FRESH = """
import sys
from pyspark.sql import SparkSession

name, uri, source, checkpoint = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
)
assert "headrace" not in sys.modules
writer = spark.readStream.schema("id BIGINT").parquet(source).writeStream.format(name)
options = {"path": uri, "streamingQueryId": name, "checkpointLocation": checkpoint}
writer.options(**options).trigger(availableNow=True).start().awaitTermination()
spark.range(7, 8).write.format(name).mode("append").save(uri)
assert "headrace" not in sys.modules
"""


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )


def test_what_spark_imports_to_find_the_formats_loads_nothing_more() -> None:
    """L38: one such module that fails to import would hide every Python data source of the session."""
    done = run(LOADED)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:2] == ["lance", "headrace"]
    assert set(done.stdout.split()[2:]) == {"pyspark_headrace", "pyspark_headrace_name"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lance", "headrace"])
def test_a_fresh_session_knows_the_formats_without_a_call(
    source: StreamInput, uri: str, tmp_path: Path, name: str
) -> None:
    """L38: streaming and batch, in a process that has imported nothing of ours."""
    done = run(FRESH, name, uri, str(source.folder), str(tmp_path / "checkpoint"))
    assert done.returncode == 0, done.stderr[-3000:]
    assert rows(uri) == [1, 2, 7]


def test_both_names_are_known_without_a_call_and_with_one(
    source: StreamInput, spark: SparkSession, uri: str, tmp_path: Path
) -> None:
    """L38: registering is harmless where Spark has found the formats by itself."""
    for count, name in enumerate(("headrace", "lance", "headrace"), 1):
        writer = source.stream(spark).writeStream.format(name).options(path=uri, streamingQueryId=f"q{count}")
        drain(writer, tmp_path / f"checkpoint{count}")
        assert rows(uri) == sorted(source.ids() * count)
        headrace.spark.register(spark)


def test_only_a_session_can_be_registered_with() -> None:
    """L38: the message says what was given."""
    with pytest.raises(InvalidArgumentError, match="register needs a SparkSession, not str"):
        headrace.spark.register("spark")
