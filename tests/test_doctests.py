"""The examples in the docstrings of the public classes run, and every public method has one.

Each example starts with the same names: ``headrace``, ``pa`` (pyarrow), ``ctx`` (a new SessionContext that is closed
afterwards) and ``folder`` (a new temporary folder, as a ``pathlib.Path``). Those of ``headrace.spark`` also have
``spark`` (a SparkSession). An example imports anything else itself.
"""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import headrace
import headrace.spark
from headrace.spark import LanceSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = headrace.HeadraceError


def public_classes() -> list[type]:
    """The classes in ``headrace.__all__``; the errors are represented by their root, whose example is theirs too."""
    exported = [getattr(headrace, name) for name in sorted(headrace.__all__)]
    return [cls for cls in exported if isinstance(cls, type) and (cls is ROOT or not issubclass(cls, ROOT))]


def documented() -> Iterator[tuple[str, object]]:
    """The public classes, and the public methods that each defines; properties and special methods are left out."""
    for cls in public_classes():
        yield cls.__name__, cls
        for name, member in vars(cls).items():
            if not name.startswith("_") and inspect.isfunction(member):
                yield f"{cls.__name__}.{name}", member


DOCUMENTED = dict(documented())
# The other method is a call, for Spark; the class's own example has one.
OF_SPARK = {"register": headrace.spark.register, "LanceSink": LanceSink, "LanceSink.land": LanceSink.land}


def run(name: str, documented: object, names: dict[str, object]) -> int:
    """Run an example; return how many of its lines give another result."""
    text = inspect.getdoc(documented) or ""
    example = doctest.DocTestParser().get_doctest(text, names, name, None, None)
    assert example.examples, f"{name} has no example in its docstring"
    return doctest.DocTestRunner().run(example).failed


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_public_class_and_method_has_an_example_that_runs(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with headrace.SessionContext() as ctx:
        names = {"headrace": headrace, "pa": pa, "ctx": ctx, "folder": tmp_path}
        assert run(name, DOCUMENTED[name], names) == 0, capsys.readouterr().out


@pytest.mark.parametrize("name", OF_SPARK)
def test_every_public_name_for_spark_has_an_example_that_runs(
    name: str, tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"headrace": headrace, "pa": pa, "spark": spark, "folder": tmp_path}
    assert run(name, OF_SPARK[name], names) == 0, capsys.readouterr().out


def test_the_examples_cover_the_classes_that_users_hold() -> None:
    """If the lists above were empty, the tests above would pass."""
    assert {"SessionContext", "DataFrame.collect", "RecordBatchReader.cancel", "TableSink.write"} <= set(DOCUMENTED)
    assert {name.partition(".")[0] for name in OF_SPARK} == set(headrace.spark.__all__) - {"Landed"}
