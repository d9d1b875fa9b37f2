"""`headrace doctor` finds this machine well, and says what is wrong with one that is not."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from support.command import headrace, succeeds
from support.deadlines import allow_long_test
from support.pythons import bare_python

REFUSED = "spark://127.0.0.1:1"
CLUSTER = "local-cluster[1,1,1024]"


def found(text: str, what: str) -> list[str]:
    """The findings of one check, with their states."""
    return [line for line in text.splitlines() if line[6:].startswith(f"{what}: ")]


def test_a_machine_that_is_well(tmp_path: Path) -> None:
    """C21, C23: the place that is named is written to, and left as it was."""
    said = succeeds("doctor", "--table", str(tmp_path))
    lines = said.splitlines()
    assert {line.split()[0] for line in lines} <= {"ok", "note"}
    for what in ("Python", "packages", "Java", "Spark", "tasks", "write test", "query test"):
        assert found(said, what)
    assert f"committed an epoch twice in {tmp_path}; it landed once" in said
    assert list(tmp_path.iterdir()) == []


def test_a_machine_that_is_not(tmp_path: Path) -> None:
    """C21: exit code 1; the checks that pass are listed as well."""
    (tmp_path / "file").write_text("")
    done = headrace("doctor", "--table", str(tmp_path / "file"), JAVA_HOME="/nowhere")
    assert (done.returncode, done.stderr) == (1, "")
    wrong = [line for line in done.stdout.splitlines() if line.startswith("wrong")]
    assert [line.split()[1] for line in wrong] == ["Java:", "write"]
    assert "ok    Python" in done.stdout


def test_a_python_that_cannot_run_tasks_is_wrong(tmp_path: Path) -> None:
    """C23: each of the two that Spark would use; as JSON too."""
    bare = str(bare_python(tmp_path))
    done = headrace("doctor", "--json", PYSPARK_PYTHON=bare, PYSPARK_DRIVER_PYTHON="/nowhere/python")
    assert (done.returncode, done.stderr) == (1, "")
    findings = [json.loads(line) for line in done.stdout.splitlines()]
    first, second = (finding for finding in findings if finding["state"] != "ok")
    assert (first["what"], first["state"]) == (second["what"], second["state"]) == ("tasks", "wrong")
    assert "cannot import headrace (No module named 'headrace')" in first["message"]
    assert "-m pip install 'headrace[spark]==" in first["message"]
    assert second["message"].startswith("/nowhere/python cannot be run: No such file or directory.")


def test_a_python3_without_headrace_is_a_note(tmp_path: Path) -> None:
    """C23: `headrace run` does not use it, but other programs do."""
    bare_python(tmp_path).rename(tmp_path / "python3")
    done = headrace("doctor", PATH=f"{tmp_path}:/usr/bin:/bin", PYSPARK_PYTHON="")
    (note,) = found(done.stdout, "python3")
    assert note.startswith(f"note  python3: programs other than headrace run use {tmp_path}/python3 for tasks. ")
    assert "Hint: set PYSPARK_PYTHON=" in note
    assert done.returncode == 0


def test_a_master_that_does_not_listen_is_found_at_once() -> None:
    """C23: Spark itself would try for a minute."""
    before = time.monotonic()
    done = headrace("doctor", "--master", REFUSED)
    assert time.monotonic() - before < 30
    assert (done.returncode, done.stderr) == (1, "")
    assert found(done.stdout, "executor") == [
        f"wrong executor: No Spark master answers at {REFUSED}: Connection refused. "
        "Hint: check the URL, and that the master runs."
    ]


@pytest.mark.slow
@pytest.mark.xdist_group("pipelines")
def test_an_executor_describes_itself(tmp_path: Path) -> None:
    """C23: a task runs there even if it has no headrace; nothing of Spark's output is printed, and no log stays."""
    allow_long_test()
    (tmp_path / "tmp").mkdir()
    said = succeeds("doctor", "--master", CLUSTER, TMPDIR=str(tmp_path / "tmp"))
    (line,) = found(said, "executor")
    assert line.startswith("ok    executor: Python 3.")
    assert all(f"{name} " in line for name in ("headrace", "pyarrow", "pylance"))
    assert list((tmp_path / "tmp").glob("headrace-doctor-*")) == []
    done = headrace("doctor", "--master", CLUSTER, PYSPARK_PYTHON=str(bare_python(tmp_path)))
    assert (done.returncode, done.stderr) == (1, "")
    (line,) = found(done.stdout, "executor")
    assert line.startswith("wrong executor: Python 3.")
    assert "cannot import headrace (No module named 'headrace'), pyarrow (" in line
    assert all(line[:5] in ("ok   ", "note ", "wrong") for line in done.stdout.splitlines())


@pytest.mark.slow
@pytest.mark.xdist_group("pipelines")
def test_a_task_that_fails_is_a_finding_with_a_log(tmp_path: Path) -> None:
    """C23: which has Spark's output."""
    allow_long_test()
    done = headrace("doctor", "--master", "local[1]", PYSPARK_PYTHON="/nowhere/py", TMPDIR=str(tmp_path))
    (line,) = found(done.stdout, "executor")
    assert 'The task on local[1] failed: Cannot run program "/nowhere/py"' in line
    (log,) = tmp_path.glob("headrace-doctor-*.log")
    assert line.endswith(f"Hint: see Spark's output in {log}.")
    assert "Cannot run program" in log.read_text()
