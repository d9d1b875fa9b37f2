"""DataFusion without headrace, in a separate process: run as a program with the name of a group of cases.

A process has one engine, started by its first query with as many workers as the environment then says. So none of
this runs where headrace is tested; and some of it panics or hangs.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import datafusion
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

WORKERS = 6
# An answer takes some 30 ms, and a hang never ends: wait long for an answer, and only briefly for a hang.
ANSWER_SECONDS = 20.0
HANG_SECONDS = 2.0

SCHEMA = pa.schema([("x", pa.int64())])
ROW = pa.schema([pa.field("row", pa.struct(list(SCHEMA)), nullable=False)])
WRONG = pa.record_batch([pa.array(["text"])], names=["x"])


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA)


class Scanner:
    def __init__(self, projected_schema: pa.Schema, batches: Any) -> None:
        self.projected_schema = projected_schema
        self._batches = batches

    def to_batches(self) -> Any:
        return self._batches


class Fragment:
    def __init__(self, dataset: Dataset, batches: Any) -> None:
        self._dataset = dataset
        self._batches = batches

    def scanner(self, schema: pa.Schema, columns: Any = None, filter: Any = None, batch_size: Any = None) -> Scanner:
        self._dataset.seen.append(["scan", columns, filter is not None])
        return Scanner(projected(schema, columns), self._batches)


class Dataset(pyarrow.dataset.Dataset):
    """The least that DataFusion takes for a dataset: a partition per iterable, and notes of what was asked."""

    __slots__ = ("at_planning", "batches", "schema", "seen")

    def __init__(
        self, *batches: Iterable[pa.RecordBatch], schema: pa.Schema = SCHEMA, at_planning: type[BaseException] | None
    ) -> None:
        self.batches = batches
        self.schema = schema
        self.seen: list[Any] = []
        self.at_planning = at_planning

    def scanner(self, columns: Any = None, filter: Any = None) -> Scanner:
        return Scanner(projected(self.schema, columns), None)

    def get_fragments(self, filter: Any = None) -> list[Fragment]:
        self.seen.append(["fragments", threading.current_thread() is threading.main_thread(), filter is not None])
        if self.at_planning is not None:
            raise self.at_planning
        return [Fragment(self, each) for each in self.batches]


def projected(schema: pa.Schema, columns: Any) -> pa.Schema:
    return schema if columns is None else pa.schema([schema.field(name) for name in columns])


def context(*batches: Any, at_planning: type[BaseException] | None = None, **settings: Any) -> Any:
    """A context in which ``t`` is a dataset of these iterables."""
    made = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(max(1, len(batches))))
    made.register_table("t", Dataset(*batches, at_planning=at_planning, **settings))
    return made


def seen_by(sql: str, *batches: Any, **settings: Any) -> dict[str, Any]:
    """What a query returns, and what the dataset under it was asked."""
    dataset = Dataset(*batches, at_planning=None, **settings)
    made = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
    made.register_table("t", dataset)
    return {"rows": made.sql(sql).to_arrow_table().to_pylist(), "seen": dataset.seen}


def failing(error: BaseException) -> Iterator[pa.RecordBatch]:
    yield batch(1)
    raise error


# -- what is asked of a dataset, and what comes out of one that fails ---------------------------------------


def error_in_next() -> Any:
    return context(failing(ValueError("boom"))).sql("select x from t").collect()


def interrupt_in_next() -> Any:
    return context(failing(KeyboardInterrupt())).sql("select x from t").collect()


def interrupt_at_planning() -> Any:
    return context([], at_planning=KeyboardInterrupt).sql("select x from t").collect()


def exhausted() -> Any:
    made = context(iter([batch(1, 2)]))
    return [made.sql("select x from t").to_arrow_table()["x"].to_pylist() for _ in range(2)]


def wrong_type_passed_on() -> Any:
    (found,) = context(iter([WRONG])).sql("select x from t").collect()
    return str(found.schema.field("x").type)


def filter_pushed() -> Any:
    return seen_by("select x from t where x > 1", iter([batch(1, 2, 3)]))


def filter_on_a_struct() -> Any:
    rows = pa.RecordBatch.from_arrays([batch(1, 2, 3).to_struct_array()], schema=ROW)
    return seen_by("select row['x'] as x from t where row['x'] > 1", iter([rows]), schema=ROW)


def count_star() -> Any:
    return seen_by("select count(*) as n from t", iter([batch(1, 2, 3).select([])]))


def explain() -> Any:
    return seen_by("explain select x from t", iter([batch(1)]))["seen"]


def threads_of_scans() -> Any:
    def run(partitions: int) -> list[bool]:
        on_main: list[bool] = []

        def scan() -> Iterator[pa.RecordBatch]:
            on_main.append(threading.current_thread() is threading.main_thread())
            yield batch(1)

        made = context(*(scan() for _ in range(partitions)))
        made.sql("select x from t").collect()
        return on_main

    return {"one": run(1), "three": run(3)}


def worker_names() -> Any:
    names = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/comm") as file:
            names.append(file.read().strip())
    return names


def released_after_a_limit() -> Any:
    endings: list[str] = []

    def scan() -> Iterator[pa.RecordBatch]:
        try:
            while True:
                yield batch(1)
        finally:
            endings.append("released")

    # Only the engine holds it once it was handed over.
    iterators = [scan()]

    class Once(Dataset):
        __slots__ = ()

        def get_fragments(self, filter: Any = None) -> list[Fragment]:
            return [Fragment(self, iterators.pop())]

    made = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
    made.register_table("t", Once(at_planning=None))
    rows = made.sql("select x from t limit 3").to_arrow_table().num_rows
    datafusion.SQLOptions()  # What was dropped without the interpreter's lock is freed by the next call.
    return {"rows": rows, "endings": endings}


# -- how errors are worded ----------------------------------------------------------------------------------


def sql_error(sql: str) -> Callable[[], Any]:
    def run() -> Any:
        made = datafusion.SessionContext()
        made.from_pydict({"x": [1, 2, 3], "word": ["a", "b", "c"]}, name="few")
        return made.sql(sql).collect()

    return run


def memory() -> Any:
    runtime = datafusion.RuntimeEnvBuilder().with_greedy_memory_pool(1000).with_disk_manager_disabled()
    made = datafusion.SessionContext(datafusion.SessionConfig(), runtime)
    made.from_pydict({"x": list(range(10_000))}, name="t")
    return made.sql("select x from t order by x").collect()


def parquet(folder: str, name: str) -> str:
    path = f"{folder}/{name}.parquet"
    pq.write_table(pa.table({"x": range(1000)}), path)
    return path


def parquet_gone_before(folder: str) -> Any:
    path = parquet(folder, "before")
    made = datafusion.SessionContext()
    made.register_parquet("t", path)
    os.unlink(path)
    return made.sql("select count(*) as n from t").to_arrow_table().to_pylist()


def parquet_gone_between(folder: str) -> Any:
    path = parquet(folder, "between")
    made = datafusion.SessionContext()
    made.register_parquet("t", path)
    stream = made.sql("select sum(x) from t").execute_stream()
    os.unlink(path)
    return list(stream)


def parquet_corrupt(folder: str) -> Any:
    path = f"{folder}/corrupt.parquet"
    with open(path, "w") as file:
        file.write("no parquet")
    datafusion.SessionContext().register_parquet("t", path)


def lance_table(folder: str, name: str) -> Any:
    import lance  # Not above: it warns when a process that has it loaded forks.

    uri = f"{folder}/{name}.lance"
    made = datafusion.SessionContext()
    made.register_table("t", lance.FFILanceTableProvider(lance.write_dataset(pa.table({"x": range(1000)}), uri)))
    return made


def lance_filtered(folder: str) -> Any:
    made = lance_table(folder, "filtered")
    frame = made.sql("select x from t where x > 997")
    plan = frame.execution_plan().display_indent()
    return {"rows": frame.to_arrow_table()["x"].to_pylist(), "plan": plan}


def lance_without_its_context(folder: str) -> Any:
    frame = lance_table(folder, "orphan").sql("select x from t where x > 997")
    return frame.collect()


def lance_gone(folder: str) -> Any:
    made = lance_table(folder, "gone")
    shutil.rmtree(f"{folder}/gone.lance/data")
    return made.sql("select sum(x) from t").collect()


# -- panics, hangs and aborts -------------------------------------------------------------------------------


def wrong_type_on_this_thread() -> Any:
    return context(iter([WRONG])).sql("select sum(x) from t").collect()


def wrong_type_on_a_worker() -> Any:
    return context(iter([WRONG]), iter([WRONG])).sql("select x, sum(x) from t group by x").collect()


def query_inside_next() -> Any:
    def scan() -> Iterator[pa.RecordBatch]:
        made.sql("select 1").collect()
        yield batch(1)

    made = context(scan())
    return made.sql("select x from t").collect()


def forked() -> Any:
    """Whether a fork of a process that has run a query can run one: with one partition, and with several."""
    made = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(4))
    made.from_pydict({"x": list(range(100_000))}, name="t")

    def spread() -> Any:
        return made.sql("select x % 3, count(*) from t group by 1").collect()

    spread()
    return {
        "one": ends_in_child(lambda: made.sql("select 1").collect(), ANSWER_SECONDS),
        "several": ends_in_child(spread, HANG_SECONDS),
    }


def ends_in_child(call: Callable[[], object], seconds: float) -> bool:
    child = os.fork()
    if child == 0:
        call()
        os._exit(0)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


class AbortError(Exception):
    """Set in a thread that is inside the engine."""


def aborted() -> Any:
    """What comes out of a thread that waits inside the engine when an exception is set in it, and after how long."""
    goes_on, is_inside = threading.Event(), threading.Event()

    def scan() -> Iterator[pa.RecordBatch]:
        is_inside.set()
        goes_on.wait()
        yield batch(1)

    outcome: list[Any] = []
    # Several partitions, so that none of the scans is on the thread that waits.
    stream = context(scan(), scan()).sql("select x, count(*) from t group by x").execute_stream().rbs

    def wait() -> None:
        try:
            outcome.append(repr(next(stream, None)))
        except BaseException as error:  # noqa: BLE001 - it is what the case is about
            outcome.append(type(error).__name__)

    thread = threading.Thread(target=wait)
    thread.start()
    is_inside.wait()
    started = time.monotonic()
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(AbortError))
    thread.join(ANSWER_SECONDS)
    seconds = time.monotonic() - started
    goes_on.set()
    thread.join()
    return {"outcome": outcome[0], "seconds": seconds}


SQL = {
    "no SQL": "SELEC 1",
    "no such table": "SELECT * FROM nowhere",
    "no such column": "SELECT nothing FROM few",
    "a negative limit": "SELECT x FROM few LIMIT -1",
    "two statements": "SELECT 1; SELECT 2",
    "no such setting": "SET datafusion.no_such_setting = 1",
    "a division by zero": "SELECT 1 / (x - x) FROM few",
    "a cast that fails": "SELECT cast(word AS int) FROM few",
    "a cast of constants": "SELECT arrow_cast('x', 'Int64')",
}


def groups(folder: str) -> dict[str, dict[str, Callable[[], Any]]]:
    asked = [
        error_in_next, interrupt_in_next, interrupt_at_planning, exhausted, wrong_type_passed_on, filter_pushed,
        filter_on_a_struct, count_star, explain, threads_of_scans, released_after_a_limit, memory, worker_names,
    ]  # fmt: skip
    stored = [
        parquet_gone_before, parquet_gone_between, parquet_corrupt, lance_filtered, lance_without_its_context,
        lance_gone,
    ]  # fmt: skip
    panicking = [wrong_type_on_this_thread, wrong_type_on_a_worker, query_inside_next]
    return {
        "answers": {case.__name__: case for case in asked}
        | {case.__name__: (lambda case=case: case(folder)) for case in stored}
        | {name: sql_error(sql) for name, sql in SQL.items()},
        "panics": {case.__name__: case for case in panicking},
        "hangs": {"forked": forked, "aborted": aborted},
    }


def outcome_of(case: Callable[[], Any]) -> dict[str, Any]:
    try:
        returned = case()
    except BaseException as error:  # noqa: BLE001 - it is what the case is about
        return {"raised": type(error).__name__, "is_exception": isinstance(error, Exception), "text": str(error)}
    return {"returned": returned if isinstance(returned, (dict, list, str)) else repr(returned)}


def main(group: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps({name: outcome_of(case) for name, case in groups(folder)[group].items()}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
    # Some cases leave workers of the engine blocked, with which Python cannot be taken down in an orderly way.
    os._exit(0)
