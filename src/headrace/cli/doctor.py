"""`headrace doctor`: check that this machine has everything a pipeline needs."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import click

from headrace._counts import counted
from headrace.cli import exit_codes
from headrace.cli.doctor_tasks import executors, local_tasks
from headrace.cli.findings import NOTE, OK, WRONG, Finding, print_finding
from headrace.cli.table_options import as_json
from headrace.errors import HeadraceError


@click.command()
@click.option(
    "--table", metavar="URI", help="Run the write test in this folder or bucket instead of a temporary folder."
)
@click.option("--master", metavar="URL", help="Also run a task on an executor of this Spark master.")
@as_json
def doctor(table: str | None, master: str | None, is_json: bool) -> int:
    """Check that this machine can run pipelines.

    Checks the versions of Python, Java, Spark and the packages, imports headrace with the Python of Spark's tasks, and
    lands an epoch in a test table. With --master, starts Spark as `headrace run --master` does, and compares an
    executor's packages with those here. Exits with 1 if something is wrong.
    """
    is_well = True
    checks = {
        "Python": _python(),
        "packages": _versions(),
        "Java": _java(),
        "Spark": _spark(),
        "tasks": local_tasks(),
        "sources": _clash(),
        "write test": _writes(table),
    }
    if master is not None:
        checks["executor"] = executors(master)
    for what, found in checks.items():
        for finding in _with_failure(what, found):
            is_well = is_well and finding.state != WRONG
            print_finding(finding, is_json=is_json)
    return exit_codes.DONE if is_well else exit_codes.FAILED


def _with_failure(what: str, found: Iterator[Finding]) -> Iterator[Finding]:
    """Yield the findings of a check; if it raises, yield the error as a finding."""
    try:
        yield from found
    except HeadraceError as error:
        yield Finding(what, WRONG, str(error))


def _python() -> Iterator[Finding]:
    found = f"{platform.python_version()} at {sys.executable}, on {platform.system()} {platform.machine()}"
    yield Finding("Python", OK if sys.version_info >= (3, 11) else WRONG, found)


def _versions() -> Iterator[Finding]:
    import importlib.metadata

    found = {}
    for name in ("headrace", "pyarrow", "datafusion", "pylance"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield Finding(name, WRONG, f"not installed. Hint: pip install {name}")
    yield Finding("packages", OK, ", ".join(f"{name} {version}" for name, version in found.items()))


def _java() -> Iterator[Finding]:
    from headrace.pipeline.java import OLDEST, find_java

    java, version = find_java()
    is_new = version >= OLDEST
    yield Finding(
        "Java", OK if is_new else WRONG, f"{version} at {java}" + ("" if is_new else f"; Spark needs {OLDEST} or newer")
    )


def _spark() -> Iterator[Finding]:
    import importlib.metadata

    from headrace.spark.registration import require_pyspark

    require_pyspark((3, 5))
    version = importlib.metadata.version("pyspark")
    has_format = tuple(int(part) for part in version.split(".")[:2]) >= (4, 1)
    more = "" if has_format else '; pipelines and format("lance") need 4.1 or newer, LanceSink does not'
    yield Finding("Spark", OK if has_format else WRONG, f"pyspark {version}{more}")
    home = os.environ.get("SPARK_HOME")
    if home:
        yield Finding("SPARK_HOME", NOTE, f"{home}; this Spark is used, and must have pyspark's version, {version}.")


def _clash() -> Iterator[Finding]:
    """Find JVM sources named lance: Spark silently prefers them to ours."""
    jars = [Path(folder) for folder in _jar_folders()]
    found = [jar.name for folder in jars if folder.is_dir() for jar in folder.glob("*lance*.jar")]
    if found:
        yield Finding(
            "a source named lance",
            NOTE,
            f"Spark uses {', '.join(found)} for format('lance'); use format('headrace') for headrace's source.",
        )


def _jar_folders() -> Iterator[str]:
    if home := os.environ.get("SPARK_HOME"):
        yield f"{home}/jars"
    found = importlib.util.find_spec("pyspark")
    if found is not None and found.origin is not None:
        yield str(Path(found.origin).parent / "jars")


def _writes(place: str | None) -> Iterator[Finding]:
    """Land an epoch twice in a test table and query it: Lance's table provider needs a matching DataFusion."""
    from headrace.session.context import SessionContext
    from headrace.tables.location import Location
    from headrace.tables.manage.probe import probe_table

    with tempfile.TemporaryDirectory() as folder:
        place = place.rstrip("/") if place else folder
        uri = f"{place}/headrace-doctor-{uuid.uuid4().hex[:8]}.lance"
        with probe_table(Location(uri)) as rows:
            found = (
                f"committed an epoch twice in {place}; it landed once"
                if rows == 1
                else f"{counted(rows, 'row')}, not 1"
            )
            yield Finding("write test", OK if rows == 1 else WRONG, found)
            with SessionContext() as session:
                session.register_lance("t", uri)
                count = session.sql("select x from t where x > 0").count()
            yield Finding(
                "query test",
                OK if count == rows else WRONG,
                f"the session read {count} of {counted(rows, 'row')} with SQL",
            )
