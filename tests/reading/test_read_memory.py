"""Memory: a task reads a fragment far larger than its memory limit, measured in a separate process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from support.deadlines import PROGRAM_SECONDS
from support.lance_tables import create_table

MB = 10**6
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.list_(pa.float32(), 128))])
ROWS_AT_ONCE = 40_000

# Reads all of a table as one task would, and prints what came and by how much the process grew at its peak.
MEASURE = """
import json, resource, sys
import pyarrow as pa
from headrace.tables.location import Location
from headrace.tables.read.scan import open_for, read, whole_table
from headrace.tables.settings import ReadSettings

location = Location(sys.argv[1])
snapshot = open_for(ReadSettings(location))
slices = whole_table(snapshot, is_filtered=False)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
largest = size = 0
for batch in read(slices, location, snapshot.schema):
    largest, size = max(largest, batch.nbytes), size + batch.nbytes
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
print(json.dumps({"fragments": len(slices), "bytes": size, "largest": largest, "grown": grown}))
"""


def batches(count: int) -> Iterator[pa.RecordBatch]:
    numbers = np.random.default_rng(1)
    for first in range(0, count * ROWS_AT_ONCE, ROWS_AT_ONCE):
        values = pa.array(numbers.random(ROWS_AT_ONCE * 128, np.float32))
        ids = np.arange(first, first + ROWS_AT_ONCE)
        yield pa.record_batch([ids, pa.FixedSizeListArray.from_arrays(values, 128)], schema=SCHEMA)


def test_one_huge_fragment_is_read_a_few_batches_at_a_time(tmp_path: Path) -> None:
    """R1, R7: nearly all of what the process grows by is what the allocator keeps of batches that are gone."""
    uri = str(tmp_path / "table.lance")
    create_table(uri, pa.RecordBatchReader.from_batches(SCHEMA, batches(45)), max_rows_per_file=10**8)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, uri], capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["fragments"] == 1
    assert found["bytes"] > 900 * MB
    assert found["largest"] < 8 * MB
    assert found["grown"] < 450 * MB, found
