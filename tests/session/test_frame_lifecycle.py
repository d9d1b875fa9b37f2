"""The life of a frame: transformed any number of times, executed once, closed at any time."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from datafusion import lit

import headrace
from headrace import ClosedError, ConsumedError, PlanError, SessionContext, SimpleTableProvider

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
BATCH = pa.record_batch([pa.array(range(1000)), pa.repeat("x", 1000)], schema=SCHEMA)
MORE = pa.record_batch([pa.array(range(1000, 2000)), pa.repeat("y", 1000)], schema=SCHEMA)
ROWS = 2000
DEADLINE = 10.0

# -- executed once -----------------------------------------------------------------------------------

EXECUTIONS: dict[str, Callable[[headrace.DataFrame], object]] = {
    "execute_stream": lambda frame: frame.execute_stream(),
    "execute_stream_partitioned": lambda frame: frame.execute_stream_partitioned(),
    "collect": lambda frame: frame.collect(),
    "count": lambda frame: frame.count(),
    "show": lambda frame: frame.show(),
    "__arrow_c_stream__": lambda frame: frame.__arrow_c_stream__(),
}
CONSUMING = ["execute_stream", "execute_stream_partitioned", "collect", "__arrow_c_stream__"]
LOOKS: dict[str, Callable[[headrace.DataFrame], object]] = {
    "schema": lambda frame: frame.schema(),
    "explain": lambda frame: frame.explain(),
    "repr": lambda frame: (repr(frame), frame._repr_html_()),
    "select": lambda frame: frame.select("k", "k + 1 as next"),
    "filter": lambda frame: frame.filter("k > 1"),
    "with_column": lambda frame: frame.with_column("more", lit(1)),
    "drop": lambda frame: frame.drop("v"),
    "sort": lambda frame: frame.sort("k"),
    "limit": lambda frame: frame.limit(3),
    "distinct": lambda frame: frame.distinct(),
    "union": lambda frame: frame.union(frame),
}


@pytest.fixture
def frame() -> Iterator[headrace.DataFrame]:
    with SessionContext() as ctx:
        ctx.register_table("t", SimpleTableProvider(SCHEMA, lambda: [BATCH, MORE]))
        yield ctx.sql("select k, v from t")


@pytest.mark.parametrize("first", CONSUMING)
@pytest.mark.parametrize("second", EXECUTIONS)
def test_a_frame_executes_once(frame: headrace.DataFrame, first: str, second: str) -> None:
    """S5: every later execution raises, and the message says why."""
    kept = EXECUTIONS[first](frame)
    with pytest.raises(ConsumedError, match=r"already consumed.*sql\(\) again"):
        EXECUTIONS[second](frame)
    del kept


@pytest.mark.parametrize("look", LOOKS)
def test_inspecting_a_frame_and_transforming_it_does_not_consume_it(frame: headrace.DataFrame, look: str) -> None:
    """S5: the frame still executes afterwards, with all its rows."""
    LOOKS[look](frame)
    assert frame.collect().read_all().num_rows == ROWS


@pytest.mark.parametrize("look", LOOKS)
def test_inspecting_a_frame_scans_no_table(look: str) -> None:
    """S5: so even a push table, which can be scanned once, keeps all its rows."""
    with SessionContext() as ctx:
        sink = ctx.register_streaming_table("t", SCHEMA)
        frame = ctx.sql("select k, v from t")
        if look != "union":
            LOOKS[look](frame)
        with sink:
            sink.write(BATCH)
        assert frame.collect().read_all() == pa.Table.from_batches([BATCH])


def test_counting_and_showing_leave_the_frame_usable(
    frame: headrace.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    """S5: they execute the query without consuming the frame."""
    assert (frame.count(), frame.count()) == (ROWS, ROWS)
    frame.show(1)
    assert "k" in capsys.readouterr().out
    assert frame.collect().read_all().num_rows == ROWS


def test_a_transformation_returns_a_separate_frame(frame: headrace.DataFrame) -> None:
    """S5: a derived frame executes once, before or after the frame it was made from."""
    derived = frame.filter("k >= 10").select("k").sort("k").limit(3)
    assert derived.execute_stream().read_all().to_pydict() == {"k": [10, 11, 12]}
    assert frame.count() == ROWS
    assert frame.execute_stream().read_all().num_rows == ROWS
    with pytest.raises(ConsumedError):
        derived.collect()


# -- closed ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("execute", ["execute_stream", "collect"])
def test_closing_a_consumed_frame_any_number_of_times_does_not_affect_its_reader(
    frame: headrace.DataFrame, execute: str
) -> None:
    """S6: the reader owns the execution."""
    reader = getattr(frame, execute)()
    frame.close()
    rows = reader.read_next_batch().num_rows
    frame.close()
    frame.close()
    assert rows + reader.read_all().num_rows == ROWS
    frame.close()


@pytest.mark.parametrize("call", [*EXECUTIONS, *(look for look in LOOKS if look != "repr")])
def test_every_call_on_a_closed_frame_raises(frame: headrace.DataFrame, call: str) -> None:
    """S6: after close() of a frame that was never executed, and again after a second close()."""
    frame.close()
    frame.close()
    with pytest.raises(ClosedError, match="frame is closed"):
        {**EXECUTIONS, **LOOKS}[call](frame)
    assert "closed" in repr(frame)


def test_leaving_a_frame_as_a_context_manager_closes_it(frame: headrace.DataFrame) -> None:
    """S6: a reader made inside the block stays open."""
    with frame.filter("k >= 0") as unused:
        pass
    with pytest.raises(ClosedError):
        unused.collect()
    with frame:
        reader = frame.execute_stream()
    assert reader.read_all().num_rows == ROWS


def test_closing_a_frame_that_was_not_executed_releases_its_tables() -> None:
    """S6: closing the last frame over a deregistered table releases the table's provider."""
    with SessionContext() as ctx:
        provider = SimpleTableProvider(SCHEMA, lambda: [BATCH])
        alive = weakref.ref(provider)
        ctx.register_table("t", provider)
        frame = ctx.sql("select * from t")
        ctx.deregister_table("t")
        del provider
        gc.collect()
        assert alive() is not None
        frame.close()
        gc.collect()
        assert alive() is None


# -- plans that cannot be -----------------------------------------------------------------------------

BAD_QUERIES = {
    "unknown table": "select * from nothing_of_that_name",
    "unknown column": "select nothing_of_that_name from t",
    "unknown function": "select nothing_of_that_name(k) from t",
    "bad SQL": "selec k from t",
    "types that do not fit": "select k + v from t",
    "ambiguous column": "select k from t a join t b on a.k = b.k",
    "not supported": "alter table t add column more int",
    "placeholder without a value": "select * from t where k = $missing",
    "bad pattern": "select * from t where v ~ '('",
}


@pytest.mark.parametrize("query", BAD_QUERIES.values(), ids=BAD_QUERIES)
def test_a_query_that_cannot_be_planned_raises_a_plan_error_and_can_be_closed(query: str) -> None:
    """S8: sql() or the execution raises; a frame, if there is one, can be closed, and the session stays usable."""
    with SessionContext() as ctx:
        ctx.register_table("t", SimpleTableProvider(SCHEMA, lambda: [BATCH]))
        frames: list[headrace.DataFrame] = []

        def run() -> None:
            frames.append(ctx.sql(query))
            frames[0].execute_stream()

        with pytest.raises(PlanError):
            run()
        for frame in frames * 2:
            frame.close()
        assert ctx.sql("select * from t").count() == BATCH.num_rows


@pytest.mark.parametrize("change", ["select", "filter", "sort"])
def test_a_transformation_that_cannot_be_planned_leaves_its_frame_unchanged(
    frame: headrace.DataFrame, change: str
) -> None:
    """S8: the wrong call itself raises."""
    with pytest.raises(PlanError, match="nothing_of_that_name"):
        getattr(frame, change)("nothing_of_that_name")
    assert frame.count() == ROWS
    frame.close()


def test_an_execution_that_fails_to_start_claims_nothing_and_can_be_closed() -> None:
    """S8, P6: the next query can scan the push table of a query that could not start."""
    with SessionContext() as ctx, ctx.register_streaming_table("t", SCHEMA) as sink:
        self_join = ctx.sql("select a.k from t a join t b on a.k = b.k")
        with pytest.raises(ConsumedError):
            self_join.execute_stream()
        self_join.close()
        sink.write(BATCH)
        sink.close()
        assert ctx.sql("select * from t").count() == BATCH.num_rows


def test_of_threads_that_execute_one_frame_at_the_same_time_exactly_one_gets_a_reader() -> None:
    """S5: a frame executes once, even if the calls overlap."""
    with SessionContext() as ctx:
        ctx.register_arrow("t", pa.Table.from_batches([BATCH]))
        for _ in range(10):
            readers, refusals = race(ctx.sql("select * from t"), threads=4)
            assert (len(readers), len(refusals)) == (1, 3)


def race(frame: headrace.DataFrame, threads: int) -> tuple[list[object], list[ConsumedError]]:
    readers: list[object] = []
    refusals: list[ConsumedError] = []
    together = threading.Barrier(threads)

    def execute() -> None:
        together.wait(DEADLINE)
        try:
            readers.append(frame.execute_stream())
        except ConsumedError as error:
            refusals.append(error)

    racers = [threading.Thread(target=execute, daemon=True) for _ in range(threads)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(DEADLINE)
    return readers, refusals
