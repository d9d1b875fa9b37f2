"""A release line of Spark with the jars of other projects' writers, in a separate environment, for `peers.py`."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from _spark import start as start_spark
from _streams import NARROW, Start, Stream
from harness import Samples

BUILD = Path(__file__).parents[1] / "build" / "peers"
HERE = Path(__file__).parent

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>bench</groupId><artifactId>peers</artifactId><version>1</version>
<dependencies>{}</dependencies></project>
"""
DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"


@dataclass(frozen=True, slots=True)
class Line:
    """A release of PySpark, the jars that it loads, its settings, and the streams that it runs, by their names."""

    pyspark: str
    jars: tuple[str, ...]
    settings: Mapping[str, str]
    starts: Mapping[str, Start]

    @property
    def folder(self) -> Path:
        return BUILD / f"spark-{self.pyspark}"

    @property
    def python(self) -> Path:
        return self.folder / "venv" / "bin" / "python"

    def install(self) -> None:
        """Fetch the jars and the environment, unless they are there."""
        done = self.folder / "installed"
        if done.exists() and done.read_text() == repr(self.jars):
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        pom = self.folder / "pom.xml"
        pom.write_text(POM.format("".join(DEPENDENCY.format(*jar.split(":")) for jar in self.jars)))
        print(f"Fetching {', '.join(self.jars)} from Maven Central", flush=True)
        copy = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={self.folder / 'jars'}"]
        _run("mvn", "-q", "-B", "-f", str(pom), *copy)
        print(f"Installing pyspark {self.pyspark} into {self.python.parents[1]}", flush=True)
        _run(sys.executable, "-m", "venv", "--without-pip", str(self.folder / "venv"))
        same = [f"{name}=={importlib.metadata.version(name)}" for name in ("pyarrow", "pylance", "msgspec")]
        wanted = [f"pyspark=={self.pyspark}", *same, "pandas<3", "setuptools"]
        _run(sys.executable, "-m", "pip", "--python", str(self.python), "install", "-q", *wanted)
        done.write_text(repr(self.jars))


class Running:
    """A line's session in a separate process, which runs one stream at a time."""

    def __init__(self, line: Line, script: str, rows: int, epochs: int) -> None:
        source = os.pathsep.join([str(HERE), str(HERE.parent / "src")])
        self._process = subprocess.Popen(
            [str(line.python), script, "--child", str(rows), str(epochs)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": source},
        )

    def run(self, start: str) -> Samples:
        """Run a stream by its name."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{start}\n")
        self._process.stdin.flush()
        for text in self._process.stdout:
            if text.startswith("{"):
                answer: dict[str, Any] = json.loads(text)
                return Samples({"time": answer["ms"]})
        raise SystemExit(
            f"{start} ended its process; `{shlex.join(self._process.args)}` shows why when given {start!r}"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def serve(line: Line, rows: int, epochs: int) -> None:
    """Run the streams that are named on stdin, and print the milliseconds of their epochs."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        jars = ",".join(str(jar) for jar in sorted((line.folder / "jars").glob("*.jar")))
        settings = {key: value.format(folder=name) for key, value in line.settings.items()}
        spark = start_spark(Path(name), **{"spark.jars": jars}, **settings)
        for start in sys.stdin:
            samples = Stream(spark, line.starts[start.strip()], NARROW, rows, epochs)()
            print(json.dumps({"ms": list(samples.of["time"])}), flush=True)
        spark.stop()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
