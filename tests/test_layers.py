"""What importing headrace costs, and that nothing inside imports from the front door.

The direction of imports is held by the contracts in pyproject.toml, which `make lint` checks.
"""

from __future__ import annotations

import json
import subprocess
import sys

import grimp

import headrace.spark

# What loads when it is used, and not before. DataFusion is slow to load where pandas is installed: it makes
# pyarrow scalars while it loads, and pyarrow then loads pandas to recognise its values.
LOADED_ON_USE = (
    "datafusion",
    "lance",
    "pyspark",
    "pyarrow",
    "pandas",
    "asyncio",
    "click",
    "rich",
    "msgspec",
    "uvicorn",
)

MAX_IMPORT_SECONDS = 0.2


def test_no_module_inside_imports_from_the_front_door() -> None:
    """`from headrace import X` inside the package works or fails by the order of imports."""
    graph = grimp.build_graph("headrace", cache_dir=None)
    assert graph.find_modules_directly_imported_by("headrace"), "the front door imports nothing: is the graph broken?"
    assert graph.find_modules_that_directly_import("headrace") == set()


def test_importing_headrace_is_quick_and_loads_nothing_that_loads_on_use() -> None:
    """Measured in fresh interpreters, best of three, so that a busy machine does not fail it."""
    program = (
        "import json, sys, time\n"
        "start = time.perf_counter()\n"
        "import headrace\n"
        "print(json.dumps([time.perf_counter() - start, sorted(sys.modules)]))\n"
    )
    runs = [
        json.loads(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout)
        for _ in range(3)
    ]
    assert set(LOADED_ON_USE) & set(runs[0][1]) == set()
    assert min(seconds for seconds, _ in runs) < MAX_IMPORT_SECONDS


def test_a_task_of_spark_does_not_load_what_only_a_few_tables_need() -> None:
    """A namespace's client takes a second to load, in every process of every executor."""
    program = "import sys, headrace.spark.writer; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, capture_output=True, text=True)
    assert {"lance_namespace_urllib3_client", "datafusion"} & set(done.stdout.split()) == set()


def test_making_a_reader_loads_no_lance() -> None:
    """One of the processes in which Spark starts a stream makes the reader, and reads nothing."""
    program = (
        "import sys\n"
        "from pyspark.sql.types import StructType\n"
        "from headrace.spark.datasource import LanceDataSource\n"
        "LanceDataSource({'path': 'none.lance'}).streamReader(StructType())\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, capture_output=True, text=True)
    assert {"lance", "pandas", "datafusion"} & set(done.stdout.split()) == set()


def test_importing_the_sink_for_foreach_batch_loads_neither_lance_nor_spark() -> None:
    """Lance warns when a process that has loaded it forks, as a program does that starts Spark afterwards."""
    program = "import sys; from headrace.spark import LanceSink; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert {"lance", "pyspark", "datafusion"} & set(done.stdout.split()) == set()


def test_importing_headrace_spark_loads_nothing_that_loads_on_use() -> None:
    program = "import sys, headrace.spark; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert set(LOADED_ON_USE) & set(done.stdout.split()) == set()


def test_headrace_spark_has_its_public_names() -> None:
    assert sorted(headrace.spark.__all__) == ["LanceSink", "Landed", "register"]
    assert set(headrace.spark.__all__) <= set(dir(headrace.spark))
    assert all(getattr(headrace.spark, name).__name__ == name for name in headrace.spark.__all__)
    assert not hasattr(headrace.spark, "LanceSource")
