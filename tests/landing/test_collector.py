"""The garbage collection of Spark's Python workers, which runs after every task."""

from __future__ import annotations

import gc
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headrace.spark import LanceSink
from headrace.spark.collector import spare_modules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def new_workers(spark: SparkSession) -> Iterator[None]:
    """Python workers that no other test has used: Spark starts some for every environment."""
    spark.sparkContext.environment["HEADRACE_TEST"] = uuid.uuid4().hex
    yield
    del spark.sparkContext.environment["HEADRACE_TEST"]


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
@pytest.mark.usefixtures("new_workers")
def test_a_reused_worker_spares_the_modules_that_it_has_loaded(spark: SparkSession, uri: str) -> None:
    """Not before its second task: what the first left as garbage could never be freed."""

    def frozen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.record_batch([[gc.get_freeze_count()]], names=["objects"])

    sink, counts = LanceSink(uri, query_id="q"), []
    for epoch in range(2):
        sink.land(spark.range(1, numPartitions=1), epoch)
        counts.append(spark.range(0, 1, 1, 1).mapInArrow(frozen, "objects long").collect()[0][0])
    assert counts[0] == 0
    assert counts[1] > 10_000


def test_a_process_that_is_no_worker_is_left_alone() -> None:
    for _ in range(2):
        spare_modules()
    assert gc.get_freeze_count() == 0
