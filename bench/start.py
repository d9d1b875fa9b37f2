"""How long headrace takes to start: its imports, `headrace --help`, `headrace sql`, and `headrace run` of a tiny file.

Each contender is a process from its start to its end. The base imports, in bare Python, the libraries that headrace
imports for the same thing; for `headrace run` it is PySpark, which runs the same stream into Parquet. The last case has
the time of headrace's own modules, as `python -X importtime` reports it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from harness import Aim, Case, Samples, main

HEADRACE = ("-m", "headrace")
STANDARD = "import typing, pickle"
SINK = "from headrace.spark import LanceSink"
SELECT = (*HEADRACE, "sql", "-c", "select 1")
IN_DATAFUSION = "import click, datafusion; datafusion.SessionContext().sql('select 1').collect()"
PIPELINE = """
name = "tiny"
[source]
format = "json"
path = "in"
schema = "id bigint, total double"
[table]
uri = "out.lance"
create = true
"""
IN_PYSPARK = """
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
spark = builder.getOrCreate()
rows = spark.readStream.schema("id bigint, total double").json("in")
writer = rows.writeStream.format("parquet").option("checkpointLocation", "checkpoint").trigger(availableNow=True)
writer.start("out").awaitTermination()
spark.stop()
"""
_IMPORTED = re.compile(r"import time: +(\d+) \|.*\| +headrace\b")


def python(*arguments: str) -> Callable[[], None]:
    return lambda: _run(arguments)


def in_folder_of_rows(*arguments: str) -> Callable[[], None]:
    """Run Python in a new folder with a pipeline file and three rows."""

    def run() -> None:
        folder = Path(tempfile.mkdtemp())
        try:
            (folder / "in").mkdir()
            rows = ({"id": number, "total": number + 0.5} for number in range(3))
            (folder / "in" / "rows.json").write_text("\n".join(map(json.dumps, rows)))
            (folder / "pipeline.toml").write_text(PIPELINE)
            _run(arguments, folder)
        finally:
            shutil.rmtree(folder)

    return run


def own_imports(*arguments: str) -> Callable[[], Samples]:
    """Measure the time of headrace's own modules, without those they import."""

    def run() -> Samples:
        said = _run(("-X", "importtime", *arguments))
        return Samples({"time": [sum(map(int, _IMPORTED.findall(said))) / 1000]})

    return run


def _run(arguments: tuple[str, ...], folder: Path | None = None) -> str:
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"python {' '.join(arguments)} failed:\n{done.stderr}")
    return done.stderr


def cases(arguments: argparse.Namespace) -> Iterator[Case]:
    for name, ours, base, doing, at_most in (
        ("import headrace", ("-c", "import headrace"), "typing and pickle", STANDARD, 1.5),
        ("import headrace.spark", ("-c", "import headrace.spark"), "typing and pickle", STANDARD, 1.5),
        ("from headrace.spark import LanceSink", ("-c", SINK), "pyarrow", "import pyarrow.compute", 1.3),
        ("headrace --help", (*HEADRACE, "--help"), "click", "import click", 1.3),
        ("headrace sql", SELECT, "datafusion", IN_DATAFUSION, 1.0),
    ):
        yield Case(
            name,
            {name: python(*ours), base: python("-c", doing)},
            (name,),
            base,
            rounds=15,
            aims=(Aim(name, at_most, base),),
        )
    run = "headrace run"
    yield Case(
        run,
        {
            run: in_folder_of_rows(*HEADRACE, "run", "pipeline.toml"),
            "PySpark": in_folder_of_rows("-c", IN_PYSPARK),
        },
        (run,),
        "PySpark",
        rounds=5,
        aims=(Aim(run, 1.15, "PySpark"),),
    )
    names = ("import headrace", "import headrace.spark", SINK, "headrace --help", "headrace sql")
    starts = (*(("-c", name) for name in names[:3]), (*HEADRACE, "--help"), SELECT)
    yield Case(
        "headrace's own modules",
        {name: own_imports(*start) for name, start in zip(names, starts, strict=True)},
        names,
        rounds=7,
    )


if __name__ == "__main__":
    main(cases)
