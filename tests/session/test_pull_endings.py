"""How a scan ends: its reader is closed once, and its errors are raised with their cause."""

import gc
import threading

import pyarrow as pa
import pytest
from providers import DEADLINE, SCHEMA, Provider, Reader, endless, in_time, raising, rows, scanning

import headrace
from headrace import SessionContext

# -- closing --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("how", ["end", "limit", "closed", "dropped", "cancelled", "session closed", "unread tail"])
def test_the_reader_is_closed_exactly_once_by_the_thread_that_read_it(how, ordered):
    """T4: at the end, on LIMIT, and when the stream is closed, dropped, cancelled or loses its session."""
    provider = Provider((lambda: [rows(0), rows(3)]) if how in ("end", "unread tail") else endless)
    with SessionContext(ordered=ordered) as ctx:
        ctx.register_table("t", provider)
        if how == "end":
            ctx.sql("select * from t").collect()
        elif how == "limit":
            assert ctx.sql("select * from t limit 4").collect().read_all().num_rows == 4
        else:
            stream = ctx.sql("select * from t").execute_stream()
            stream.read_next_batch()
            if how == "closed":
                stream.close()
                stream.close()
            elif how == "cancelled":
                stream.cancel()
                stream.close()
            elif how == "session closed":
                ctx.close()
            del stream
        [reader] = provider.readers
        assert reader.closes_in_the_end() == 1
        assert reader.closing_thread is reader.reading_thread


@pytest.mark.parametrize(
    "items",
    [
        [ValueError("at once")],
        [rows(0), ValueError("later")],
        [rows(0), KeyboardInterrupt()],
        [rows(0), rows(0).select(["x"])],
    ],
    ids=["first batch", "second batch", "interrupted", "wrong batch"],
)
def test_the_reader_is_closed_exactly_once_after_an_error(ctx, items):
    """T4: after an error of the reader, of the interpreter or of the schema check."""
    provider = Provider(lambda: items)
    ctx.register_table("t", provider)
    with pytest.raises((headrace.TableError, KeyboardInterrupt)):
        in_time(ctx.sql("select * from t").collect)
    assert provider.readers[0].closes_in_the_end() == 1


def test_an_error_outside_of_the_scan_closes_the_reader(ctx):
    """T4: the error is in the query itself or in another table."""
    provider = Provider(endless)
    ctx.register_table("t", provider)
    ctx.register_table("broken", raising(ValueError("boom")))
    with pytest.raises(headrace.ExecutionError):
        ctx.sql("select cast(s as int) from t").collect()
    with pytest.raises(headrace.TableError, match="'broken'"):
        ctx.sql("select x from t union all select x from broken").collect()
    for reader in provider.readers:
        assert reader.closes_in_the_end() == 1


def test_a_reader_is_closed_as_soon_as_its_part_of_the_query_is_done(ctx):
    """T4: LIMIT closes the reader while the rest of the query still runs."""
    go_on = threading.Event()

    def items():
        yield rows(0)
        assert go_on.wait(2 * DEADLINE)

    limited, waiting = Provider(endless), Provider(items)
    ctx.register_table("limited", limited)
    ctx.register_table("waiting", waiting)
    query = "(select x from limited limit 2) union all (select x from waiting)"
    with ctx.sql(query).execute_stream() as stream:
        seen = 0
        while seen < 5:
            seen += stream.read_next_batch().num_rows
        assert limited.readers[0].closes_in_the_end() == 1
        assert waiting.readers[0].closes == 0
        go_on.set()
        assert stream.read_all().num_rows == 0
    assert waiting.readers[0].closes_in_the_end() == 1


def _generator(finished):
    try:
        yield from endless()
    finally:
        finished.set()


class _Exporting:
    """Not a reader: it can only export a stream, and has no close()."""

    def __init__(self, finished):
        self._finished = finished

    def __arrow_c_stream__(self, requested_schema=None):
        reader = pa.RecordBatchReader.from_batches(SCHEMA, _generator(self._finished))
        return reader.__arrow_c_stream__(requested_schema)


SOURCES = {
    "a generator": _generator,
    "a pyarrow reader": lambda finished: pa.RecordBatchReader.from_batches(SCHEMA, _generator(finished)),
    "an exported stream": _Exporting,
}


@pytest.mark.parametrize("how", ["limit", "closed", "dropped"])
@pytest.mark.parametrize("source", SOURCES)
def test_every_kind_of_source_is_released_when_the_query_ends_early(ctx, source, how):
    """T4: a source whose close() does not help is dropped, without waiting for a garbage collection."""
    finished = threading.Event()
    ctx.register_table("t", scanning(lambda: SOURCES[source](finished)))
    gc.disable()
    try:
        if how == "limit":
            ctx.sql("select * from t limit 1").collect()
        else:
            stream = ctx.sql("select * from t").execute_stream()
            stream.read_next_batch()
            if how == "closed":
                stream.close()
            del stream
        assert finished.wait(DEADLINE)
    finally:
        gc.enable()


def test_an_error_in_close_fails_the_query_at_the_end_but_not_after_a_limit(ctx):
    """T4, T5: an error at the end is never a silent end; a query that ended early already has its rows."""

    class Stuck(Reader):
        def close(self):
            super().close()
            raise OSError("cannot close")

    readers = []

    def scan():
        readers.append(Stuck([rows(0)]))
        return readers[-1]

    ctx.register_table("t", scanning(scan))
    with pytest.raises(headrace.TableError, match="'t' failed: OSError: cannot close") as caught:
        ctx.sql("select * from t").collect()
    assert isinstance(caught.value.__cause__, OSError)
    assert [reader.closes_in_the_end() for reader in readers] == [1]


# -- errors ---------------------------------------------------------------------------------------------


class OurError(Exception):
    pass


@pytest.mark.parametrize("query", ["select * from t", "select count(*) from t", "select * from t where x > 1 limit 1"])
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OurError("out of paper"), "OurError: out of paper"),
        (OurError(), "OurError: <no message>"),
        (OurError("  "), "OurError: <no message>"),
        (KeyError("k"), "KeyError: k"),
        (MemoryError(), "MemoryError: <no message>"),
        (pa.ArrowInvalid("bad data"), "ArrowInvalid: bad data"),
        (StopIteration(), "StopIteration: <no message>"),
        (GeneratorExit(), "GeneratorExit: <no message>"),
        (headrace.ConsumedError("the provider's own"), "ConsumedError: the provider's own"),
        (headrace.ResourcesExhaustedError("the provider's own"), "ResourcesExhaustedError: the provider's own"),
        (headrace.CancelledError("the provider's own"), "CancelledError: the provider's own"),
    ],
    ids=lambda value: repr(value) if isinstance(value, BaseException) else "",
)
def test_an_exception_from_scan_is_raised_with_the_table_class_message_and_cause(ctx, error, text, query):
    """T5: the table's name, the exception's class and message, the original object as __cause__."""
    ctx.register_table("paper", raising(error))
    with pytest.raises(headrace.TableError) as caught:
        in_time(ctx.sql(query.replace(" t", " paper")).collect)
    # Python itself puts the message of a KeyError in quotes; both are the message.
    assert str(caught.value).replace("'k'", "k") == f"Table 'paper' failed: {text}"
    assert caught.value.table == "paper"
    assert caught.value.__cause__ is error


def test_the_traceback_of_the_cause_leads_into_the_providers_code(ctx):
    """T5: the cause alone would not show where it was raised."""

    def scan_that_breaks():
        raise OurError("here")

    ctx.register_table("t", scanning(scan_that_breaks))
    with pytest.raises(headrace.TableError) as caught:
        ctx.sql("select * from t").collect()
    names = []
    trace = caught.value.__cause__.__traceback__
    while trace is not None:
        names.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    assert "scan_that_breaks" in names


def test_an_exception_whose_text_cannot_be_made_is_raised_and_does_not_hang(ctx):
    """T5: whatever a provider raises ends the query."""

    class UnprintableError(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    error = UnprintableError()
    ctx.register_table("t", raising(error))
    with pytest.raises(headrace.TableError, match="'t' failed: UnprintableError") as caught:
        in_time(ctx.sql("select * from t").collect)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_inside_a_scan_is_raised_unchanged(ctx, kind):
    """T5: KeyboardInterrupt and SystemExit are not failures of a table."""
    ctx.register_table("t", raising(kind()))
    with pytest.raises(kind):
        in_time(ctx.sql("select * from t").collect)


@pytest.mark.parametrize(
    ("query", "settings"),
    [
        ("select * from t", {}),
        ("select x from t", {}),
        ("select x from t", {"target_partitions": 8}),
        ("select x from t", {"batch_size": 2}),
        ("select * from t", {"ordered": False, "target_partitions": 1}),
        ("select x, x + 1 as y from t", {}),
        ("select x from t where x >= 0 and s like 'r%'", {"target_partitions": 8}),
    ],
)
@pytest.mark.parametrize("good", [0, 1, 4])
def test_a_streamed_result_returns_the_batches_before_the_error_first(query, settings, good):
    """T5: an error in batch k is raised after the k-1 batches before it; then the stream is over."""
    error = OurError("torn")
    provider = Provider(lambda: [*(rows(3 * i) for i in range(good)), error])
    with SessionContext(**settings) as ctx:
        ctx.register_table("t", provider)
        seen = []
        with ctx.sql(query).execute_stream() as stream:
            with pytest.raises(headrace.TableError, match="'t' failed: OurError: torn") as caught:
                seen.extend(x for batch in stream for x in batch["x"].to_pylist())
            assert caught.value.__cause__ is error
            assert seen == list(range(3 * good))
            with pytest.raises(headrace.ClosedError):
                stream.read_next_batch()


@pytest.mark.parametrize(
    "query", ["select * from t where x >= 0", "select sum(x) from t", "select * from t order by x"]
)
def test_an_error_after_rows_is_never_a_silent_end_even_if_operators_buffer_rows(ctx, query):
    """T5: if the engine buffers rows, they may be missing before the error, but the error is always raised."""
    error = OurError("torn")
    ctx.register_table("t", Provider(lambda: [rows(0), rows(3), error]))
    with ctx.sql(query).execute_stream() as stream, pytest.raises(headrace.TableError) as caught:
        list(stream)
    assert caught.value.__cause__ is error


def test_the_error_of_a_provider_inside_another_providers_query_names_both(ctx):
    """T5, T10: errors pass through a provider that queries the same session, and the message names each table."""
    error = OurError("deep")
    ctx.register_table("inner", raising(error))
    ctx.register_table("outer", scanning(lambda: ctx.sql("select * from inner").collect()))
    with pytest.raises(headrace.TableError, match=r"Table 'outer' failed: TableError: Table 'inner' failed") as caught:
        in_time(ctx.sql('select * from "outer"').collect)
    assert caught.value.__cause__.__cause__ is error


def test_a_provider_that_executes_one_frame_twice_fails_the_query_with_an_error_that_names_its_table(ctx):
    """T5: an error of headrace inside a provider is the provider's error, not one of the caller's query."""
    ctx.register_table("base", Provider())
    frame = ctx.sql("select * from base")
    ctx.register_table("t", scanning(frame.collect))
    assert ctx.table("t").count() == 6
    with pytest.raises(headrace.TableError, match="Table 't' failed: ConsumedError"):
        ctx.table("t").count()


def test_the_session_and_the_table_stay_usable_after_errors(ctx):
    """T5: an error ends only its query, and releases its worker."""
    broken = [True]

    def scan():
        if broken[0]:
            raise OurError("not yet")
        return Reader([rows(0)])

    ctx.register_table("t", scanning(scan))
    for _ in range(200):
        with pytest.raises(headrace.TableError):
            ctx.sql("select * from t").collect()
    broken[0] = False
    assert ctx.table("t").count() == 3
