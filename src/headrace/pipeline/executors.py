"""Run a task on a master's executors, to find out whether they can run a pipeline.

Spark waits for minutes for a master that does not answer, and cannot be interrupted. So it is started in another
process, which reports its progress line by line and is killed if a line does not come in time.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from headrace.errors import ExecutionError, HeadraceError
from headrace.pipeline import interpreter
from headrace.pipeline.interpreter import Interpreter, describe, parse, task_pythons
from headrace.pipeline.reasons import reason_of

_CONNECT_SECONDS = 10.0
# For Spark's start, and again for the task. On this machine both may be slow, but nothing has to be reached.
_LOCAL_SECONDS = 300.0
_REMOTE_SECONDS = 90.0
_STOP_SECONDS = 10.0

_STANDALONE = "spark://"


def ask_executors(master: str) -> list[Interpreter]:
    """Run one task per Python that Spark would use on a master, and return what each found.

    Args:
        master: The master's URL.

    Raises:
        ExecutionError: The master or its executors cannot be reached in time, or the task failed. The hint names the
            file with Spark's output, which is kept only then.
    """
    _require_listener(master)
    number, name = tempfile.mkstemp(prefix="headrace-doctor-", suffix=".log")
    seconds = _LOCAL_SECONDS if master.startswith("local") else _REMOTE_SECONDS
    command = [sys.executable, "-c", "from headrace.pipeline.executors import main; main()", master]
    with (
        os.fdopen(number, "wb") as log,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, bufsize=0, start_new_session=True
        ) as process,
    ):
        try:
            _next(process, seconds, f"Spark did not start on {master}")
            found = _next(process, seconds, f"No executor of {master} ran a task")
        except ExecutionError as error:
            raise ExecutionError(str(error), hint=f"see Spark's output in {name}.") from None
        except KeyboardInterrupt:
            _kill(process)
            Path(name).unlink()
            raise
        finally:
            _end(process)
    Path(name).unlink()
    return [parse(each) for each in found["executors"]]


def _require_listener(master: str) -> None:
    """Check that one of the masters in a URL of a standalone cluster accepts connections."""
    if not master.startswith(_STANDALONE):
        return
    reason = None
    for address in master.removeprefix(_STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            return  # Spark explains what is wrong with the URL.
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()
            return
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
    raise ExecutionError(
        f"No Spark master answers at {master}: {reason}.", hint="check the URL, and that the master runs."
    )


def _next(process: subprocess.Popen[bytes], seconds: float, late: str) -> dict[str, Any]:
    """Return the next line of the process."""
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], seconds)[0]:
        _kill(process)
        raise ExecutionError(f"{late} within {seconds:.0f} seconds.")
    line = process.stdout.readline()
    found: dict[str, Any] = json.loads(line) if line else {"failed": f"{late}: its process ended."}
    if "failed" in found:
        raise ExecutionError(found["failed"])
    return found


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait until the process has stopped Spark, or kill it."""
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the process with its JVM and the executors that this started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def main() -> None:
    """Start Spark on the master in the first argument, run the tasks, and print one JSON object per line."""
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # The JVM inherits it.

    def say(**what: object) -> None:
        print(json.dumps(what), file=lines)

    try:
        _run(sys.argv[1], say)
    except HeadraceError as error:
        say(failed=str(error).removesuffix(f" Hint: {error.hint}"))
    except Exception as error:  # noqa: BLE001 - py4j and the launcher raise anything
        say(failed=f"The task on {sys.argv[1]} failed: {reason_of(error)}.")


def _run(master: str, say: Any) -> None:
    from pyspark import cloudpickle

    from headrace.pipeline.config import Pipeline, Source, Spark, TableConfig
    from headrace.pipeline.java import require_java
    from headrace.pipeline.spark_session import start_spark

    require_java()

    settings = Spark(master=master)
    spark = start_spark(Pipeline(name="doctor", source=Source(format=""), table=TableConfig(uri=""), spark=settings))
    say(started=master)
    # Pickled by reference, the function could not be loaded where headrace is missing.
    cloudpickle.register_pickle_by_value(interpreter)  # type: ignore[no-untyped-call]
    context, found = spark.sparkContext, []
    for python in task_pythons(is_local=master.startswith("local")):
        context.pythonExec = python
        found += context.parallelize([None], 1).map(describe).collect()
    say(executors=found)
    spark.stop()
