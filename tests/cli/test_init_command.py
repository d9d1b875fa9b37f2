"""What `headrace init` writes runs as it is: the file, and its twins."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import lance
import pytest

from support.command import headrace, succeeds
from support.deadlines import PROGRAM_SECONDS

pytestmark = pytest.mark.xdist_group("pipelines")


def test_nothing_is_written_over(tmp_path: Path) -> None:
    """C11: unless it is asked for."""
    said = succeeds("init", "first", folder=tmp_path)
    assert "Next: headrace run first/pipeline.toml" in said
    assert "first/declarative-storage" in (tmp_path / "first/spark-pipeline.yml").read_text()
    (tmp_path / "first/pipeline.toml").write_text("mine")
    done = headrace("init", "first", folder=tmp_path)
    assert (done.returncode, "first/pipeline.toml already exists" in done.stderr) == (2, True)
    assert (tmp_path / "first/pipeline.toml").read_text() == "mine"
    succeeds("init", "first", "--force", folder=tmp_path)
    assert (tmp_path / "first/pipeline.toml").read_text() != "mine"


@pytest.mark.slow
def test_the_file_and_its_twin_in_python_are_one_query(tmp_path: Path) -> None:
    """C11: each continues where the other ended."""
    succeeds("init", "first", folder=tmp_path)
    succeeds("run", "first/pipeline.toml", folder=tmp_path)
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    subprocess.run(
        [sys.executable, "first/pipeline.py"], cwd=tmp_path, check=True, env=environment, timeout=PROGRAM_SECONDS
    )
    found = lance.dataset(str(tmp_path / "first/numbers.lance")).to_table()["id"].to_pylist()
    assert sorted(found) == list(range(len(found)))
    assert len(found) == 2000
    said = succeeds("verify", "first/numbers.lance", "--checkpoint", "first/checkpoint", folder=tmp_path)
    assert "epochs 0-1: 2 landed once" in said


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="Declarative Pipelines need pyspark[pipelines]")
def test_the_declarative_twin_runs(tmp_path: Path) -> None:
    """C11: with Spark's own command."""
    succeeds("init", "first", folder=tmp_path)
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    home = Path(spec.origin).parent
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    subprocess.run(
        [str(home / "bin/spark-pipelines"), "run", "--conf", "spark.ui.enabled=false"],
        cwd=tmp_path / "first",
        check=True,
        env=environment,
        timeout=PROGRAM_SECONDS,
    )
    assert lance.dataset(str(tmp_path / "first/numbers.lance")).count_rows() == 1000
    assert "ok" in succeeds("verify", "first/numbers.lance", folder=tmp_path)
