"""The current Spark task: its partition, query run and epoch."""

from __future__ import annotations

from typing import Any

from headrace.tables.commit.ledger import QueryRun, Task

RUN_ID = "spark.jobGroup.id"
QUERY_ID = "sql.streaming.queryId"
EPOCH_ID = "streaming.sql.batchId"


def current_task() -> Task:
    """Return the task that runs on this thread; outside of a task, partition 0. Runs on: an executor."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return Task(0)
    epoch = context.getLocalProperty(EPOCH_ID)
    return Task(context.partitionId(), run_of(context), int(epoch) if epoch else None)


def run_of(context: Any) -> QueryRun | None:
    """Return the query run of a task or of a driver thread; None outside of a stream."""
    run_id, query_id = context.getLocalProperty(RUN_ID), context.getLocalProperty(QUERY_ID)
    return QueryRun(run_id, query_id) if run_id and query_id else None
