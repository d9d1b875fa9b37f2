"""The programs that the landing faults run and kill: a Spark driver, and the commit protocol without Spark.

Each prints its result in lines of JSON, and gets its task from its arguments (`landing_rig`).
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from landing_plan import QUERY, SCHEMA, Epochs, Stream, state_after

from headrace import FencedError, _failpoints


def say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def hold_at(point: str) -> None:
    """Has the program wait for a line of input at a crash point instead of dying there, the first time."""
    ahead = [point]

    def reach(name: str, epoch: int) -> None:
        if f"{name}:{epoch}" in ahead:
            ahead.clear()
            say(held=point)
            sys.stdin.readline()

    _failpoints.reach = reach


def main() -> None:
    told = json.loads(sys.argv[2])
    try:
        if sys.argv[1] == "Stream":
            run_stream(Stream(**told))
        else:
            land_epochs(Epochs(**told))
    except Exception as error:  # noqa: BLE001 - the test gets every error
        say(failed=f"{type(error).__name__}: {error}")
        sys.stdout.flush()
        os._exit(1)


# The commit protocol


def land_epochs(told: Epochs) -> None:
    from headrace.tables.commit.ledger import QueryRun
    from headrace.tables.commit.payload import AppendPayload, OverwritePayload
    from headrace.tables.location import Location
    from headrace.tables.settings import Rules, SinkSettings
    from headrace.tables.sink import EpochSink
    from headrace.tables.write.data_files import Task, write_rows

    if not told.has_fence:
        AppendPayload.is_fenced = False
    if told.hold_at:
        hold_at(told.hold_at)
    location = Location(told.uri, told.storage_options)
    sink = EpochSink(SinkSettings(location, Rules(QUERY)))
    replaces = told.mode == "complete"
    run, epoch = QueryRun(told.run, told.checkpoint), told.first
    landed, fenced = 0, 0
    if told.waits:
        say(ready=True)
        sys.stdin.readline()
    while epoch < told.end:
        message = write_rows([rows_of_epoch(told.mode, epoch)], location, Task(0, run, epoch), replacing=replaces)
        try:
            outcome = sink.land(epoch, run, OverwritePayload([message]) if replaces else AppendPayload([message]))
        except FencedError:
            if not told.rejoins:
                raise
            fenced += 1
            run = QueryRun(uuid.uuid4().hex, told.checkpoint)
            continue
        landed += not outcome.was_skipped
        epoch += 1
    say(done={"landed": landed, "fenced": fenced})


def rows_of_epoch(mode: str, epoch: int) -> pa.RecordBatch:
    """Return an epoch's rows: the new ones, or in complete mode the whole result."""
    before = 0 if mode == "complete" else len(state_after(mode, epoch))
    rows = state_after(mode, epoch + 1)[before:]
    ids, numbers = zip(*rows, strict=True)
    return pa.record_batch([pa.array(ids, pa.int64()), pa.array(numbers, pa.int64())], schema=SCHEMA)


# Spark


def run_stream(told: Stream) -> None:
    if told.hold_at:
        hold_at(told.hold_at)
    spark = start_spark(told)
    say(started=True)
    query = writer_of(spark, told).option("checkpointLocation", told.checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()
    say(done={"epochs": 0})


def start_spark(told: Stream) -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    scratch = Path(told.checkpoint).with_suffix(".spark")
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.python.unix.domain.socket.enabled": "true",
        **told.conf,
    }
    builder = SparkSession.builder.master(told.master).appName("headrace faults")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def writer_of(spark: Any, told: Stream) -> Any:
    from headrace.spark import LanceSink, register

    if told.reads == "lance":
        stream = spark.readStream.format("lance").option("maxRowsPerTrigger", told.rows).load(told.source)
    else:
        stream = spark.readStream.schema("id BIGINT").option("maxFilesPerTrigger", 1).parquet(told.source)
    rows = stream.selectExpr("id", "id div 1000 AS n").repartition(2)
    if told.fault:
        fault, marks = FAULTS[told.fault], told.marks
        rows = rows.mapInArrow(lambda batches: fault(batches, Path(marks)), "id BIGINT, n BIGINT")
    if told.mode == "complete":
        rows = rows.groupBy("n").count().selectExpr("n AS id", "count AS n")
    elif told.mode == "upsert":
        rows = rows.selectExpr("id % 1000 AS id", "n")
    output = rows.writeStream.outputMode("complete" if told.mode == "complete" else "append")
    if told.way == "format":
        register(spark)
        return output.format("lance").option("path", told.uri).option("streamingQueryId", QUERY)
    keys = ["id"] if told.mode == "upsert" else None
    sink = LanceSink(
        told.uri,
        query_id=QUERY,
        mode=told.mode,
        keys=keys,
        storage_options=told.storage_options,
        on_table_replaced=told.on_table_replaced,
    )
    if told.mode != "upsert":
        return output.foreachBatch(sink)
    # Spark may take two files as one epoch after a kill, and then a key is there twice: the later one is meant.
    return output.foreachBatch(lambda df, epoch: sink(df.groupBy("id").max("n").toDF("id", "n"), epoch))


# Faults inside of tasks. A task's rows are of one epoch; whatever happens, it happens after they were handed on.


def mark(marks: Path, name: str) -> bool:
    """Leaves this process's id under a name; whether nobody, in any process, did so before."""
    try:
        with (marks / f"_{name}.{os.getpid()}").open("x") as file:
            file.write(str(os.getpid()))
        os.link(file.name, marks / name)
    except FileExistsError:
        return False
    return True


def fail_and_wait(batches: Iterator[pa.RecordBatch], marks: Path) -> Iterator[pa.RecordBatch]:
    """In epoch 1 the first attempt of each task fails; in epoch 2 the first task of all waits for its end."""
    from pyspark import TaskContext

    context = TaskContext.get()
    for batch in batches:
        yield batch
        epoch = batch["n"][0].as_py()
        if epoch == 1 and context.attemptNumber() == 0:
            mark(marks, f"failed-{context.partitionId()}")
            raise RuntimeError("the first attempt fails")
        if epoch == 2 and mark(marks, "waiting"):
            time.sleep(600)


def dawdle(batches: Iterator[pa.RecordBatch], marks: Path) -> Iterator[pa.RecordBatch]:
    """In epoch 1 the first attempt of the first task waits for its end, and later attempts do not."""
    from pyspark import TaskContext

    context = TaskContext.get()
    for batch in batches:
        yield batch
        if batch["n"][0].as_py() == 1 and context.partitionId() == 0:
            mark(marks, f"attempt-{context.attemptNumber()}")
            if context.attemptNumber() == 0:
                time.sleep(600)


def linger(batches: Iterator[pa.RecordBatch], marks: Path) -> Iterator[pa.RecordBatch]:
    """Make the first task of epoch 1 wait until the test lets it continue."""
    from pyspark import TaskContext

    for batch in batches:
        yield batch
        if batch["n"][0].as_py() == 1 and TaskContext.get().partitionId() == 0:
            mark(marks, "waiting")
            while not (marks / "go").exists():
                time.sleep(0.02)


FAULTS = {"fail_and_wait": fail_and_wait, "dawdle": dawdle, "linger": linger}


if __name__ == "__main__":
    main()
