"""The imports beside the JVM's start: after the fork that starts its process, and only then."""

from __future__ import annotations

import subprocess
import sys

# Starts a process as PySpark starts the JVM's, or does not, and prints what is imported before it and after it.
PROGRAM = """
import subprocess, sys, threading
from headrace.pipeline.early_imports import imports_beside_jvm

forks = sys.argv[1] == "forks"
with imports_beside_jvm():
    importing = [thread for thread in threading.enumerate() if thread.name == "headrace-imports"]
    before = {"lance", "pyarrow"} & set(sys.modules)
    if forks:
        subprocess.run([sys.executable, "-c", ""], preexec_fn=lambda: None, check=True)
        importing[0].join()
importing[0].join()
print(*before, "|", *sorted({"lance", "headrace.pipeline.runner"} & set(sys.modules)))
"""


def printed(how: str) -> str:
    """Lance's warning that a process forks which has loaded it would be an error."""
    program = [sys.executable, "-W", "error:lance is not fork-safe", "-c", PROGRAM, how]
    return subprocess.run(program, check=True, capture_output=True, text=True).stdout.strip()


def test_a_job_is_imported_after_the_process_of_the_jvm_was_forked() -> None:
    assert printed("forks") == "| headrace.pipeline.runner lance"


def test_nothing_is_imported_early_where_the_jvm_runs_already() -> None:
    assert printed("runs") == "|"


def test_starting_spark_needs_neither_arrow_nor_lance() -> None:
    """They are imported while the JVM starts."""
    program = "import sys, headrace.pipeline.spark_session; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert {"pyarrow", "lance", "numpy", "pandas", "datafusion"} & set(done.stdout.split()) == set()
