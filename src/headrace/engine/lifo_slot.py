"""Frees the task that a blocked worker keeps to itself.

A worker of the engine's runtime (tokio) puts the task that it woke last into its LIFO slot, from which other workers do
not take. If the worker then blocks in a scan, that task does not run, however many workers are idle. That is a deadlock
if the task scans another table and the producers of both tables wait for each other.

Waking any other task on the blocked worker moves the first one to the worker's queue, from which idle workers take.
"""

from __future__ import annotations

import functools
import time
from typing import Any

import datafusion

from headrace.engine.threads import is_own_thread, start_thread

# Its stream runs one task per side of the union. Each waits, since nothing reads the stream.
_QUERY = "select * from (select * from generate_series(1, 9) union all select * from generate_series(1, 9)) limit 18"
_START_SECONDS = 0.001


def free_lifo_slot() -> None:
    """Let idle workers run the task in this worker's LIFO slot; do nothing on a thread of headrace.

    The call has no effect if the woken task happens to be running, so repeat it once in a while.
    """
    if is_own_thread():
        return
    waiting: list[Any] = []
    # The engine starts no query on its own workers.
    start_thread(lambda: waiting.append(_waiting_tasks()), "headrace-lifo-slot").join()
    # Dropping the stream wakes its tasks, on the thread that drops it.
    waiting.clear()


def _waiting_tasks() -> Any:
    context, plan = _plan()
    stream = context.execute(plan, 0)
    time.sleep(_START_SECONDS)
    return stream


@functools.cache
def _plan() -> tuple[datafusion.SessionContext, Any]:
    config = datafusion.SessionConfig({"datafusion.execution.batch_size": "1"}).with_target_partitions(1)
    context = datafusion.SessionContext(config)
    return context, context.sql(_QUERY).execution_plan()
