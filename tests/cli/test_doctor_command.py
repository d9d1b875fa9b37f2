"""`headrace doctor` finds this machine well, and says what is wrong with one that is not."""

from __future__ import annotations

from pathlib import Path

from support.command import headrace, succeeds


def test_a_machine_that_is_well(tmp_path: Path) -> None:
    """C21: the place that is named is written to, and left as it was."""
    lines = succeeds("doctor", "--table", str(tmp_path)).splitlines()
    assert {line.split()[0] for line in lines} <= {"ok", "note"}
    for what in ("Python", "packages", "Java", "Spark", "write test", "query test"):
        assert any(what in line for line in lines)
    assert f"committed an epoch twice in {tmp_path}; it landed once" in "\n".join(lines)
    assert list(tmp_path.iterdir()) == []


def test_a_machine_that_is_not(tmp_path: Path) -> None:
    """C21: exit code 1; the checks that pass are listed as well."""
    (tmp_path / "file").write_text("")
    done = headrace("doctor", "--table", str(tmp_path / "file"), JAVA_HOME="/nowhere")
    assert (done.returncode, done.stderr) == (1, "")
    wrong = [line for line in done.stdout.splitlines() if line.startswith("wrong")]
    assert [line.split()[1] for line in wrong] == ["Java:", "write"]
    assert "ok    Python" in done.stdout


def test_another_python_for_tasks_is_worth_a_note() -> None:
    """C21: since headrace must be installed there too."""
    said = succeeds("doctor", PYSPARK_PYTHON="/usr/bin/another-python")
    assert "note  PYSPARK_PYTHON: /usr/bin/another-python, not this Python" in said
