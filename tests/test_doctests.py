"""The examples in the docstrings of the public classes run, and every public method has one.

Each example starts with the same names: ``headrace``, ``pa`` (pyarrow), ``ctx`` (a new SessionContext that is closed
afterwards) and ``folder`` (a new temporary folder, as a ``pathlib.Path``). An example imports anything else itself.
"""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import headrace

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


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_public_class_and_method_has_an_example_that_runs(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = inspect.getdoc(DOCUMENTED[name]) or ""
    with headrace.SessionContext() as ctx:
        names = {"headrace": headrace, "pa": pa, "ctx": ctx, "folder": tmp_path}
        example = doctest.DocTestParser().get_doctest(text, names, name, None, None)
        assert example.examples, f"{name} has no example in its docstring"
        failed, _ = doctest.DocTestRunner().run(example)
    assert failed == 0, capsys.readouterr().out


def test_the_examples_cover_the_classes_that_users_hold() -> None:
    """If the list above were empty, the test above would pass."""
    assert {"SessionContext", "DataFrame.collect", "RecordBatchReader.cancel", "TableSink.write"} <= set(DOCUMENTED)
