"""Every block of Python in the README runs unchanged in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.deadlines import PROGRAM_SECONDS

README = Path(__file__).parents[1] / "README.md"
EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
# What Spark says whatever one sets, also where another Spark has the port of its page, and pyspark of pandas 3.
SPARKS_OWN = re.compile(
    r"incubator|log4j|log ?level|NativeCodeLoader|pandas|adaptive|\[Stage|'SparkUI' could not bind|^\s*$", re.IGNORECASE
)
# What its Python workers say when it stops: they lose their pipe, and are killed before, after or while they say so.
SPARKS_END = re.compile(
    r"""(?:PySpark\ daemon\ failed\ to\ flush\ .*\n)?
    Traceback\ \(most\ recent\ call\ last\):\n
    (?:\ {2}File\ "[^"]*pyspark/daemon\.py".*\n (?:\ {4}.*\n)*)*
    (?:BrokenPipeError:\ .*\n)?""",
    re.VERBOSE,
)

BLOCKS = re.findall(r"^## ([^\n]+)\n.*?^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("code", [pytest.param(code, id=title) for title, code in BLOCKS])
def test_the_readme_block_runs(code: str, tmp_path: Path) -> None:
    run([sys.executable, "-W", "error::ResourceWarning", "-c", code], tmp_path)


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.name)
def test_the_example_runs(script: Path, tmp_path: Path) -> None:
    assert "rows" in run([sys.executable, str(script)], tmp_path)


def test_no_block_is_left_out() -> None:
    assert len(BLOCKS) == README.read_text().count("```python") == 6


WORKERS_END = """\
Traceback (most recent call last):
  File "/lib/pyspark/daemon.py", line 261, in manager
    code = worker(sock, authenticated)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/lib/pyspark/daemon.py", line 69, in worker
    outfile.flush()
BrokenPipeError: [Errno 32] Broken pipe
"""


@pytest.mark.parametrize("lines", range(1, WORKERS_END.count("\n") + 1))
def test_the_last_lines_of_a_spark_worker_are_recognised_wherever_they_are_cut_off(lines: int) -> None:
    cut_off = "".join(WORKERS_END.splitlines(keepends=True)[:lines])
    assert not_sparks(cut_off) == not_sparks(cut_off + WORKERS_END) == not_sparks(WORKERS_END + cut_off) == []
    assert not_sparks(cut_off + "KeyError: 'ours'\n") != []
    assert not_sparks(cut_off.replace("pyspark/daemon.py", "ours.py") + "KeyError: 'ours'\n") != []


def run(command: list[str], folder: Path) -> str:
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert not_sparks(done.stderr) == []
    return done.stdout


def not_sparks(said: str) -> list[str]:
    return [line for line in SPARKS_END.sub("", said).splitlines() if not SPARKS_OWN.search(line)]
