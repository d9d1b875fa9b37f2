"""Which Python runs Spark's tasks, and whether it can run those of headrace."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from headrace import ExecutionError
from headrace.pipeline.interpreter import Interpreter, ask, task_pythons, this_interpreter
from headrace.pipeline.reasons import reason_of
from support.pythons import bare_python, script

GOOD = Interpreter("here", "/bin/py", "3.11.7", {"headrace": "1.0", "pyarrow": "26.0", "lance": "14.0"}, {})


def test_this_python_can_run_tasks() -> None:
    """C23: it describes itself with the modules that it imports."""
    found = ask(sys.executable)
    assert list(found.versions) == ["headrace", "pyarrow", "lance", "pyspark"]
    assert (found.python, found.failures) == (this_interpreter().python, {})
    assert list(found.problems(this_interpreter())) == []


def test_a_python_without_packages_cannot(tmp_path: Path) -> None:
    """C23: one problem names what is missing; Spark adds its own pyspark."""
    found = ask(str(bare_python(tmp_path)))
    (problem,) = found.problems(this_interpreter())
    assert list(found.failures) == ["headrace", "pyarrow", "lance"]
    assert f"at {tmp_path}/bare/bin/python" in problem.message
    assert "cannot import headrace (No module named 'headrace'), pyarrow (" in problem.message
    assert problem.hint.startswith(f"{tmp_path}/bare/bin/python -m pip install 'headrace[spark]==")
    assert problem.is_certain


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be run: No such file or directory."),
        ("exit 3", "is not a Python that works: exit code 3"),
        ("echo 'cannot start' >&2; exit 1", "is not a Python that works: cannot start"),
        ("echo hello", "is not a Python that works: hello"),
    ],
)
def test_what_is_no_python_is_named(tmp_path: Path, text: str | None, said: str) -> None:
    """C23: with what it wrote."""
    program = tmp_path / "py"
    if text is not None:
        script(program, text)
    with pytest.raises(ExecutionError) as caught:
        ask(str(program))
    assert str(caught.value).startswith(f"{program} {said}")
    assert "PYSPARK_PYTHON" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("changes", "said", "is_certain"),
    [
        ({"python": "3.12.7"}, "has another minor version than Python 3.11.7 here, which Spark refuses.", True),
        ({"versions": {"headrace": "0.9"}}, "has headrace 0.9, not 1.0 as here.", True),
        ({"versions": {"headrace": "1.0", "pyarrow": "25.0"}}, "has pyarrow 25.0, not 26.0 as here.", False),
        ({"versions": {"headrace": "1.0", "lance": "14.1"}}, "has pylance 14.1, not 14.0 as here.", False),
    ],
)
def test_other_versions_are_problems(changes: dict[str, object], said: str, is_certain: bool) -> None:
    """C23: those of Python and headrace certainly, those of the libraries perhaps."""
    (problem,) = dataclasses.replace(GOOD, **changes).problems(GOOD)
    assert problem.message.endswith(said)
    assert problem.is_certain == is_certain


def test_patch_releases_of_python_are_the_same() -> None:
    """C23"""
    assert list(dataclasses.replace(GOOD, python="3.11.2").problems(GOOD)) == []


@pytest.mark.parametrize(
    ("environment", "is_local", "expected"),
    [
        ({}, True, (sys.executable,)),
        ({}, False, ("python3",)),
        ({"PYSPARK_PYTHON": "a"}, False, ("a",)),
        ({"PYSPARK_PYTHON": "a", "PYSPARK_DRIVER_PYTHON": "b"}, True, ("a", "b")),
        ({"PYSPARK_DRIVER_PYTHON": "b"}, True, (sys.executable, "b")),
    ],
)
def test_functions_and_data_sources_may_run_in_two_pythons(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], is_local: bool, expected: tuple[str, ...]
) -> None:
    """C23: as Spark chooses them."""
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert task_pythons(is_local=is_local) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("An error occurred while calling x.\n: org.apache.SparkException: No URL: x\n\tat org.a", "No URL: x"),
        (
            "An error.\n: org.a.SparkException: Job aborted: Lost task 0.0 in stage 0.0 (TID 7) (host executor 1): "
            'java.io.IOException: Cannot run program "x"\n\tat org.a\nCaused by: java.io.IOException: error=2',
            'Cannot run program "x"',
        ),
        (
            "An error.\n: org.a.SparkException: Job aborted (TID 7) (host executor 1): org.a.PythonException: "
            "Traceback (most recent call last):\n  File x\npyspark.errors.PySparkRuntimeError: [VERSION] Python 3.9",
            "[VERSION] Python 3.9",
        ),
        ("plain\nand more", "plain"),
        ("", "ValueError"),
    ],
)
def test_one_line_says_why_spark_failed(text: str, reason: str) -> None:
    """C23: of the stacks of Java and Python."""
    assert reason_of(ValueError(text)) == reason
