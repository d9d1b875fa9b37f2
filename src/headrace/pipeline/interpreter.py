"""Find out whether a Python interpreter can run the tasks of a pipeline."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace._version import __version__
from headrace.errors import ExecutionError

_SECONDS = 60.0
_HINT = "correct PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON, or unset them."
_MARK = "headrace-interpreter "
_INSTALL_NAMES = {"lance": "pylance"}


@dataclass(frozen=True, slots=True)
class Problem:
    """Why an interpreter cannot, or may not, run the tasks of a pipeline.

    Attributes:
        message: What is wrong, in one sentence.
        hint: What to do.
        is_certain: Whether tasks fail; otherwise they may.
    """

    message: str
    hint: str
    is_certain: bool = True

    def __str__(self) -> str:
        return f"{self.message} Hint: {self.hint}"


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python interpreter, as it described itself.

    Attributes:
        host: The name of its machine.
        path: Its program.
        python: Its version.
        versions: The versions of the modules that it imported.
        failures: The errors of the modules that it could not import.
    """

    host: str
    path: str
    python: str
    versions: Mapping[str, str]
    failures: Mapping[str, str]

    @property
    def name(self) -> str:
        """What it is and where, for messages."""
        return f"Python {self.python} at {self.path} on {self.host}"

    def __str__(self) -> str:
        found = [f"{_INSTALL_NAMES.get(name, name)} {version}" for name, version in self.versions.items()]
        return f"{self.name}, with {', '.join(found)}" if found else self.name

    def problems(self, ours: Interpreter) -> Iterator[Problem]:
        """Yield why it cannot, or may not, run the tasks of a driver that runs in our interpreter."""
        install = f"{self.path} -m pip install 'headrace[spark]=={__version__}'"
        if _minor(self.python) != _minor(ours.python):
            yield Problem(
                f"{self.name} has another minor version than Python {ours.python} here, which Spark refuses.",
                f"set PYSPARK_PYTHON to a Python {_minor(ours.python)} that has headrace.",
            )
        if self.failures:
            failed = [f"{_INSTALL_NAMES.get(name, name)} ({error})" for name, error in self.failures.items()]
            yield Problem(f"{self.name} cannot import {', '.join(failed)}.", install)
        for name, version in self.versions.items():
            if version != ours.versions.get(name, version):
                yield Problem(
                    f"{self.name} has {_INSTALL_NAMES.get(name, name)} {version}, not {ours.versions[name]} as here.",
                    install,
                    is_certain=name == "headrace",
                )


def describe(_: object = None) -> object:
    """Describe the running interpreter.

    It imports nothing of headrace: it also runs as a script, and pickled by value as a task of Spark, where headrace
    may be missing.
    """
    import platform
    import socket
    import sys

    versions, failures = {}, {}
    for name in ("headrace", "pyarrow", "lance", "pyspark"):
        try:
            versions[name] = str(__import__(name).__version__)
        except BaseException as error:  # noqa: BLE001 - a broken package may raise anything
            failures[name] = (str(error) or type(error).__name__).splitlines()[0]
    return {
        "host": socket.gethostname(),
        "path": sys.executable,
        "python": platform.python_version(),
        "versions": versions,
        "failures": failures,
    }


def parse(description: Any) -> Interpreter:
    """Return what ``describe`` returned as an Interpreter."""
    return Interpreter(**description)


def ask(python: str) -> Interpreter:
    """Run an interpreter as Spark runs it for a task on this machine, and return its description.

    Args:
        python: Its program: a path, or a name to look up in PATH.

    Raises:
        ExecutionError: It cannot be run, or does not answer in time.
    """
    script = f"{inspect.getsource(describe)}\nimport json\nprint({_MARK!r} + json.dumps(describe()))"
    try:
        done = subprocess.run(
            [python, "-c", script],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(_spark_paths())},
        )
    except OSError as error:
        raise ExecutionError(f"{python} cannot be run: {error.strerror}.", hint=_HINT) from error
    except subprocess.TimeoutExpired as error:
        raise ExecutionError(f"{python} did not answer in {_SECONDS:.0f} seconds.") from error
    for line in done.stdout.splitlines():
        if line.startswith(_MARK):
            return parse(json.loads(line.removeprefix(_MARK)))
    said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]
    raise ExecutionError(f"{python} is not a Python that works: {said}", hint=_HINT)


def _spark_paths() -> Iterator[str]:
    """Yield the entries of PYTHONPATH in a task: Spark's own pyspark comes first."""
    import pyspark

    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    yield from map(str, sorted((home / "python" / "lib").glob("*.zip"), reverse=True))
    yield from filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))


def this_interpreter() -> Interpreter:
    """Describe the interpreter that runs this."""
    return parse(describe())


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def task_pythons(*, is_local: bool) -> tuple[str, ...]:
    """Return the programs of Spark's tasks: of functions, and of data sources if that is another one.

    Args:
        is_local: Whether headrace starts Spark on a local master.
    """
    functions = os.environ.get("PYSPARK_PYTHON") or (sys.executable if is_local else "python3")
    return tuple(dict.fromkeys((functions, os.environ.get("PYSPARK_DRIVER_PYTHON") or functions)))
