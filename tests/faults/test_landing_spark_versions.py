"""The lines of Spark that are not installed here, each in a separate environment."""

from __future__ import annotations

import importlib.metadata
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.deadlines import allow_long_test

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAMS = os.pathsep.join([str(HERE), str(HERE.parent)])

INSTALL_SECONDS = 300.0
RUN_SECONDS = 180.0

# What a version can do: with ``format`` both ways, without it `LanceSink` only.
PROGRAM = """
import json, sys
from pathlib import Path
import pyspark
from landing_programs import start_spark, writer_of
from landing_plan import Stream
from landing_rig import add_epochs, make_table, require_exact
from support.streams import drain, replay

folder = Path(sys.argv[1])
add_epochs(folder / "in", range(2))
spark = None
for way, mode in json.loads(sys.argv[2]):
    name = f"{way}-{mode}"
    query = Stream(make_table(str(folder / f"{name}.lance")), str(folder / "in"), str(folder / "spark"), way, mode)
    spark = spark or start_spark(query)
    for _ in range(2):
        drain(writer_of(spark, query), folder / name)
        require_exact(query.uri, mode, 2)
        replay(folder / name)
    print("exact:", name, flush=True)
if way == "sink" and len(sys.argv) > 3:
    import lance, pyarrow as pa
    from landing_rig import SCHEMA, rows_of
    from headrace.spark import LanceSink
    copy = make_table(str(folder / "copy.lance"))
    for _ in range(3):
        for _ in range(2):  # Before 4.2 a run over what is available is one epoch, and that may be the replay.
            stream = spark.readStream.format("lance").load(query.uri)
            drain(stream.writeStream.foreachBatch(LanceSink(copy, query_id="copy")), folder / "copying")
        assert rows_of(copy) == rows_of(query.uri), (rows_of(copy), rows_of(query.uri))
        assert spark.read.format("lance").option("filter", "id > 1").load(copy).where("id > 1").count() > 0
        replay(folder / "copying")
        lance.write_dataset(pa.table({"id": [7], "n": [7]}, schema=SCHEMA), query.uri, mode="append")
    print("read", flush=True)
spark.stop()
print("OK", pyspark.__version__, flush=True)
"""

FORMAT = [["format", "append"], ["sink", "upsert"]]
SINK = [["sink", "append"], ["sink", "upsert"]]


def run(command: list[str], seconds: float, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end, and none of it any longer than that."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **environment},
    )
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        errors += f"\nkilled after {seconds} s"
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This project, as it would be published."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--no-deps", "--no-build-isolation", "-q", "-w", str(folder)]
    built = run([sys.executable, "-m", "pip", "wheel", *options, str(ROOT)], INSTALL_SECONDS)
    assert built.returncode == 0, built.stderr
    return next(folder.glob("*.whl"))


def install(folder: Path, wheel: Path, spark: str) -> Path:
    """A new environment with one Spark, and all else as it is here; its Python."""
    made = run([sys.executable, "-m", "venv", "--without-pip", str(folder)], INSTALL_SECONDS)
    assert made.returncode == 0, made.stderr
    python = folder / "bin" / "python"
    here = [f"{name}=={importlib.metadata.version(name)}" for name in ("pyarrow", "pylance", "datafusion")]
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q"]
    installed = run([*pip, f"pyspark=={spark}", *here, "pandas<3", "setuptools"], INSTALL_SECONDS)
    unreachable = ("Could not find a version", "connection", "Connection", "Temporary failure", "killed after")
    if installed.returncode and any(sign in installed.stderr for sign in unreachable):
        pytest.skip(f"Spark {spark} cannot be had here: {installed.stderr.strip().splitlines()[-1]}")
    assert installed.returncode == 0, installed.stderr
    installed = run([*pip, "--no-deps", str(wheel)], INSTALL_SECONDS)
    assert installed.returncode == 0, installed.stderr
    return python


def test_what_runs_there_needs_nothing_but_what_is_installed_there() -> None:
    """L38: the programs of the tests below load without any tool for tests."""
    program = (
        "import sys; sys.modules['pytest'] = None; import landing_programs, landing_plan, landing_rig, support.streams"
    )
    done = run([sys.executable, "-c", program], RUN_SECONDS, PYTHONPATH=PROGRAMS)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spark", "ways"),
    [("3.5.*", SINK), ("4.0.*", SINK), ("4.1.*", FORMAT), ("4.2.*", FORMAT)],
    ids=["3.5", "4.0", "4.1", "4.2"],
)
def test_epochs_land_once_on_every_line_of_spark(tmp_path: Path, wheel: Path, spark: str, ways: list[str]) -> None:
    """L38, R1: append and upsert, each with a replay; ``format("lance")`` where Spark can write Arrow streams."""
    allow_long_test()
    python = install(tmp_path / "environment", wheel, spark)
    reads = ["reads"] if ways is FORMAT else []
    command = [str(python), "-c", PROGRAM, str(tmp_path / "run"), json.dumps(ways), *reads]
    done = run(command, RUN_SECONDS, PYTHONPATH=PROGRAMS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("read" in done.stdout.splitlines()) == bool(reads)
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("exact")] == [f"exact: {way}-{mode}" for way, mode in ways]
    assert lines[-1].startswith(f"OK {spark.removesuffix('*')}")
