"""The checks of `headrace doctor` on the Python of Spark's tasks: on this machine, and on a master's executors."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.cli.findings import NOTE, OK, WRONG, Finding
from headrace.errors import ExecutionError

if TYPE_CHECKING:
    from headrace.pipeline.interpreter import Interpreter

_TASKS, _EXECUTOR, _OTHER = "tasks", "executor", "python3"


def local_tasks() -> Iterator[Finding]:
    """Run each Python that Spark would use for the tasks of `headrace run` on this machine."""
    from headrace.pipeline.interpreter import ask, task_pythons

    if importlib.util.find_spec("pyspark") is None:
        return  # The check of Spark reports it.
    for python in task_pythons(is_local=True):
        try:
            yield from _judged(_TASKS, ask(python))
        except ExecutionError as error:
            yield Finding(_TASKS, WRONG, str(error))
    yield from _fallback()


def _fallback() -> Iterator[Finding]:
    """Note if Spark would use a Python without headrace where `headrace run` does not choose it."""
    from headrace.pipeline.interpreter import ask, this_interpreter

    python = shutil.which("python3")
    if os.environ.get("PYSPARK_PYTHON") or python is None or Path(python).parent == Path(sys.executable).parent:
        return
    try:
        reasons = [problem.message for problem in ask(python).problems(this_interpreter())]
    except ExecutionError as error:
        reasons = [str(error).removesuffix(f" Hint: {error.hint}")]
    if reasons:
        yield Finding(
            _OTHER,
            NOTE,
            f"programs other than headrace run use {python} for tasks. {reasons[0]} "
            f"Hint: set PYSPARK_PYTHON={sys.executable} for them.",
        )


def executors(master: str) -> Iterator[Finding]:
    """Run a task on the executors of a master."""
    from headrace.pipeline.executors import ask_executors

    for found in ask_executors(master):
        yield from _judged(_EXECUTOR, found)


def _judged(what: str, found: Interpreter) -> Iterator[Finding]:
    from headrace.pipeline.interpreter import this_interpreter

    problems = list(found.problems(this_interpreter()))
    for problem in problems:
        yield Finding(what, WRONG if problem.is_certain else NOTE, str(problem))
    if not problems:
        yield Finding(what, OK, str(found))
