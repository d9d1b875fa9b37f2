"""Memory: a result of ten times a budget streams within it, measured as the peak of a separate process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from headrace import SessionContext, SimpleTableProvider

MB = 2**20
DEADLINE = 100.0

# Streams one result and prints by how much the process grew at its peak, and the number of bytes received.
# After its first batch the consumer waits until no more is produced: without a bound, batches would pile up.
MEASURE = """
import json, resource, sys, time
import numpy as np
import pyarrow as pa
import headrace

case = json.loads(sys.argv[1])
rows, columns = case["rows"], ["a", "b"]
schema = pa.schema([(name, pa.int64()) for name in columns])

produced = 0

def scan():
    global produced
    for number in range(case["batches"]):
        produced += 1
        yield pa.record_batch([pa.array(np.arange(rows) + number * rows) for _ in columns], schema=schema)

def produce(sink):
    with sink:
        for batch in scan():
            sink.write(batch)

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

def wait_until_nothing_is_produced():
    before = -1
    while before != produced:
        before = produced
        time.sleep(0.2)

def run(ctx, query):
    rows = size = 0
    with ctx.sql(query).execute_stream() as reader:
        for number, batch in enumerate(reader):
            if number == 0:
                wait_until_nothing_is_produced()
            rows, size = rows + batch.num_rows, size + batch.nbytes
    return rows, size

with headrace.SessionContext(target_partitions=case["partitions"], memory_limit=case["budget"]) as ctx:
    ctx.register_table("warm", headrace.SimpleTableProvider(schema, lambda: [next(scan())]))
    run(ctx, case["query"].replace("from t", "from warm"))
    if case["table"] == "pull":
        ctx.register_table("t", headrace.SimpleTableProvider(schema, scan))
    else:
        import threading
        sink = ctx.register_streaming_table("t", schema, capacity=8)
        threading.Thread(target=produce, args=[sink], daemon=True).start()
    before = peak()
    rows, size = run(ctx, case["query"])
    print(json.dumps({"rows": rows, "size": size, "growth": peak() - before}))
"""

PLAIN = "select a, b from t"
COMPUTED = "select a * 2 as a, b + 1 as b from t where a % 2 >= 0"


def measure(*, budget: int, rows: int, partitions: int, query: str, table: str = "pull") -> dict[str, int]:
    batches = -(-10 * budget // (16 * rows))
    case = {
        "budget": budget,
        "rows": rows,
        "batches": batches,
        "partitions": partitions,
        "query": query,
        "table": table,
    }
    command = [sys.executable, "-c", MEASURE, json.dumps(case)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
    result: dict[str, int] = json.loads(done.stdout)
    assert result["rows"] == rows * batches
    assert result["size"] >= 10 * budget
    return result


def test_a_result_ten_times_the_budget_streams_within_it() -> None:
    """S4: on two partitions, through a filter and a projection."""
    budget = 128 * MB
    assert measure(budget=budget, rows=32_768, partitions=2, query=COMPUTED)["growth"] < budget


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [1, 2, 8])
@pytest.mark.parametrize(
    ("query", "rows", "table"),
    [(PLAIN, 65_536, "pull"), (COMPUTED, 8_192, "pull"), (COMPUTED, 65_536, "push")],
    ids=["plain, pulled", "computed, pulled", "computed, pushed"],
)
def test_a_result_ten_times_the_budget_streams_within_it_on_any_number_of_partitions(
    partitions: int, rows: int, query: str, table: str
) -> None:
    """S4: 2.5 GiB stream within 0.25 GiB, in small batches and in large ones."""
    budget = 250 * MB
    assert measure(budget=budget, rows=rows, partitions=partitions, query=query, table=table)["growth"] < budget


@pytest.mark.parametrize(
    ("query", "partitions"), [("select * from t order by a", 1), ("select b, a from t where b >= 0 order by a", 2)]
)
def test_a_sort_of_more_than_the_memory_limit_spills_instead_of_failing(query: str, partitions: int) -> None:
    """S4: a sort reads every row before it returns the first, so it writes to disk."""
    rows, batches = 65_536, 80
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])

    def scan() -> Iterator[pa.RecordBatch]:
        for number in range(batches):
            b = np.arange(rows) + number * rows
            yield pa.record_batch([pa.array(-b), pa.array(b)], schema=schema)

    with SessionContext(memory_limit=64 * MB, target_partitions=partitions) as ctx:
        ctx.register_table("t", SimpleTableProvider(schema, scan))
        expected = -rows * batches + 1
        for batch in ctx.sql(query).execute_stream():
            keys = batch.column("a").to_numpy()
            assert np.array_equal(keys, np.arange(expected, expected + len(keys)))
            expected += len(keys)
        assert expected == 1
