"""Batch writes: df.write.format("lance") appends, overwrites and makes tables, each in one version."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

from support.lance_tables import create_table
from support.storages import Storage
from support.streams import ARROW_SCHEMA, rows, stamps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "table.lance")
    create_table(uri, pa.table({"id": [100]}, schema=ARROW_SCHEMA))
    return uri


def operations(uri: str, options: dict[str, str] | None = None) -> list[str]:
    return [stamp.operation for stamp in stamps(uri, options)]


def test_append_and_overwrite_make_one_version_each(spark: SparkSession, storage: Storage) -> None:
    """L36: the first makes the table; whatever the number of tasks; no stamp, since there is no epoch."""
    uri = storage.uri("batch")
    options = {f"storage.{name}": value for name, value in storage.storage_options.items()}
    spark.range(4, numPartitions=2).write.format("lance").options(**options).mode("append").save(uri)
    assert rows(uri, storage.storage_options) == [0, 1, 2, 3]
    spark.range(2).write.format("lance").options(**options).mode("append").save(uri)
    assert rows(uri, storage.storage_options) == [0, 0, 1, 1, 2, 3]
    spark.range(7, 9).write.format("lance").options(**options).mode("overwrite").save(uri)
    assert rows(uri, storage.storage_options) == [7, 8]
    assert operations(uri, storage.storage_options) == ["Overwrite", "Append", "Append", "Overwrite"]
    assert not any("lance.streaming.queryId" in stamp.properties for stamp in stamps(uri, storage.storage_options))
    assert stamps(uri, storage.storage_options)[-1].properties["headrace.rows"] == "2"


def test_an_overwrite_without_rows_empties_the_table_and_an_append_without_rows_does_nothing(
    spark: SparkSession, uri: str
) -> None:
    """L8, L9: as in a stream."""
    spark.range(0).write.format("lance").mode("append").save(uri)
    assert operations(uri) == ["Overwrite"]
    spark.range(0).write.format("lance").mode("overwrite").save(uri)
    assert rows(uri) == []
    assert lance.dataset(uri).schema.equals(ARROW_SCHEMA)


def test_an_overwrite_keeps_the_schema_unless_an_option_replaces_it(spark: SparkSession, uri: str) -> None:
    """L31: a stray column does not silently change the table."""
    from pyspark.errors import AnalysisException

    names = spark.createDataFrame([("x", 1.5)], "name STRING, v DOUBLE")
    with pytest.raises(AnalysisException, match=r"Column 'name' .* is not in the table"):
        names.write.format("lance").mode("overwrite").save(uri)
    assert rows(uri) == [100]
    names.write.format("lance").mode("overwrite").option("overwriteSchema", "true").save(uri)
    assert lance.dataset(uri).to_table().to_pylist() == [{"name": "x", "v": 1.5}]


def test_a_job_that_fails_changes_nothing(spark: SparkSession, uri: str) -> None:
    """L30: one task is done and one fails."""
    from pyspark.sql import functions as f

    broken = f.when(f.col("id") == 3, f.raise_error(f.lit("on purpose"))).otherwise(f.col("id")).cast("bigint")
    frame = spark.range(4, numPartitions=2).select(broken.alias("id"))
    for mode in ("append", "overwrite"):
        with pytest.raises(Exception, match="on purpose"):
            frame.write.format("lance").mode(mode).save(uri)
    assert rows(uri) == [100]
    assert operations(uri) == ["Overwrite"]


def test_a_write_without_a_mode_is_refused_by_spark(spark: SparkSession, uri: str) -> None:
    """L6: Spark's default needs a mode that Python data sources cannot have; the message says which they can."""
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match='use either the "Append" or "Overwrite" mode'):
        spark.range(1).write.format("lance").save(uri)
    with pytest.raises(AnalysisException, match="there is no path"):
        spark.range(1).write.format("lance").mode("append").save()


def test_a_table_is_not_made_if_create_table_is_false(spark: SparkSession, tmp_path: Path) -> None:
    """L5: batch writes make it unless createTable says otherwise."""
    from pyspark.errors import AnalysisException

    uri = tmp_path / "nowhere.lance"
    with pytest.raises(AnalysisException, match="There is no Lance table at"):
        spark.range(1).write.format("lance").mode("append").option("createTable", "false").save(str(uri))
    assert not uri.exists()


def test_a_batch_write_between_epochs_disturbs_no_stream(spark: SparkSession, uri: str) -> None:
    """L24: it is a foreign append like any other."""
    from headrace.spark import LanceSink

    sink = LanceSink(uri, query_id="q")
    sink(spark.range(1), 0)
    spark.range(50, 51).write.format("lance").mode("append").save(uri)
    sink(spark.range(1, 2), 1)
    sink(spark.range(1, 2), 1)
    assert rows(uri) == [0, 1, 50, 100]
