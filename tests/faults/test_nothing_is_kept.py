"""What an error refers to, its reader and its session among them, goes when nobody holds it any more.

C++ and the engine refer to Python objects too, where the garbage collector does not see it: a circle through one of
them is never freed, with every batch and exception in it.
"""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable

import pyarrow as pa
import pyarrow.dataset
import pytest
from rig import SCHEMA, Reader, batch, becomes_true

import headrace


def is_freed(thing: weakref.ref[object]) -> bool:
    gc.collect()
    return thing() is None


def read(reader: headrace.RecordBatchReader) -> None:
    list(reader)


def read_on_after_the_error(reader: headrace.RecordBatchReader) -> None:
    with pytest.raises(headrace.TableError):
        read(reader)
    reader.read_next_batch()


def read_by_pyarrow(reader: headrace.RecordBatchReader) -> None:
    pa.dataset.Scanner.from_batches(reader).to_table()


def read_after_cancel(reader: headrace.RecordBatchReader) -> None:
    reader.cancel()
    reader.read_next_batch()


def read_after_close(reader: headrace.RecordBatchReader) -> None:
    reader.close()
    reader.read_next_batch()


@pytest.mark.parametrize("fail", [read, read_on_after_the_error, read_by_pyarrow, read_after_cancel, read_after_close])
def test_a_reader_that_raised_is_freed(fail: Callable[[headrace.RecordBatchReader], None]) -> None:
    """F16, S7, S9: the error refers to the frames it came through, and they to the reader."""

    def raised() -> weakref.ref[object]:
        reader = session.sql("SELECT x FROM pulled").execute_stream()
        with pytest.raises(headrace.HeadraceError):
            fail(reader)
        return weakref.ref(reader)

    with headrace.SessionContext() as session:
        provider = headrace.SimpleTableProvider(SCHEMA, lambda: Reader(batch(1), ValueError("broken")))
        session.register_table("pulled", provider)
        reader = raised()
        assert becomes_true(lambda: is_freed(reader))


def test_a_collect_that_raised_leaves_no_batch_behind() -> None:
    """F16, T5: neither the rows before the error nor the error itself are kept by anybody."""
    with headrace.SessionContext() as session:
        kept: list[weakref.ref[object]] = []

        def scan() -> Reader:
            rows = batch(*range(1000))
            kept.append(weakref.ref(rows))
            return Reader(rows, ValueError("broken"))

        session.register_table("pulled", headrace.SimpleTableProvider(SCHEMA, scan))
        with pytest.raises(headrace.TableError):
            session.sql("SELECT x FROM pulled").collect()
        assert becomes_true(lambda: is_freed(kept[0]))


def test_a_closed_session_is_freed_though_its_provider_refers_to_it() -> None:
    """F16, T10: as a provider does that queries its own session."""

    def used() -> weakref.ref[object]:
        with headrace.SessionContext() as session:
            session.register_arrow("base", batch(1))
            provider = headrace.SimpleTableProvider(SCHEMA, lambda: session.sql("SELECT x FROM base").execute_stream())
            session.register_table("pulled", provider)
            session.sql("CREATE VIEW seen AS SELECT x FROM pulled")
            assert session.sql("SELECT x FROM seen").collect().read_all()["x"].to_pylist() == [1]
        return weakref.ref(session)

    session = used()
    assert becomes_true(lambda: is_freed(session))


def test_a_closed_session_is_freed_though_its_producer_failed_where_it_was_made() -> None:
    """F13, P12: the exception is the table's end, and its traceback has the session in it."""

    def used() -> weakref.ref[object]:
        with headrace.SessionContext() as session:
            made = weakref.ref(session)
            sink = session.register_streaming_table("pushed", SCHEMA)
            with contextlib.suppress(ValueError), sink:
                raise ValueError("broken")
        return made

    session = used()
    assert becomes_true(lambda: is_freed(session))
