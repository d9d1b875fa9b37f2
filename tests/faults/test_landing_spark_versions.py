"""The oldest and the newest Spark of each line that is supported, each installed in an environment of its own."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

# Installing and running must end within what the tests allow a single one.
INSTALL_SECONDS = 85.0
RUN_SECONDS = 90.0

# What a version can do: with ``format`` both ways, without it `LanceSink` only.
PROGRAM = """
import json, sys
from pathlib import Path
import pyspark
from landing_programs import start_spark, writer_of
from landing_rig import Stream, add_epochs, make_table, require_exact
from streams import drain, replay

folder = Path(sys.argv[1])
add_epochs(folder / "in", range(2))
spark = None
for way, mode in json.loads(sys.argv[2]):
    name = f"{way}-{mode}"
    told = Stream(
        make_table(str(folder / f"{name}.lance")), str(folder / "in"), str(folder / "spark"), way, mode,
        conf={"spark.python.unix.domain.socket.enabled": "true"},
    )
    spark = spark or start_spark(told)
    for _ in range(2):
        drain(writer_of(spark, told), folder / name)
        require_exact(told.uri, mode, 2)
        replay(folder / name)
    print("exact:", name, flush=True)
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
def environments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("environments")
