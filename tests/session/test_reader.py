"""The reader of a result: pyarrow's interface, and who may close, cancel, drop or interrupt it when."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from headrace import (
    CancelledError,
    ClosedError,
    ConsumerGoneError,
    RecordBatchReader,
    SessionContext,
    SimpleTableProvider,
    TableSink,
)

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
ONE = pa.record_batch([pa.array([1]), pa.array(["x"])], schema=SCHEMA)
# The limit for anything that must happen at once, and how long we watch for what must not happen.
AT_ONCE = 1.0
NOT_YET = 0.2
DEADLINE = 10.0


class Blocked:
    """A call that blocks, on a separate thread, and the error that it raises in the end."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.error: BaseException | None = None
        self.result: object = None
        self._ended = threading.Event()
        self._call = call
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert not self._ended.wait(NOT_YET), f"it did not block: {self.result!r}, {self.error!r}"

    def _run(self) -> None:
        try:
            self.result = self._call()
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            self.error = error
        self._ended.set()

    def ends(self) -> BaseException | None:
        """Return the error, which must be raised at once."""
        assert self._ended.wait(AT_ONCE), "it is still blocked"
        self._thread.join(DEADLINE)
        return self.error


@pytest.fixture
def sink(ctx: SessionContext) -> TableSink:
    return ctx.register_streaming_table("t", SCHEMA, capacity=4)


@pytest.fixture
def reader(ctx: SessionContext, sink: TableSink) -> RecordBatchReader:
    """A reader over a push table that stays open, so that it blocks once the queue is empty."""
    return ctx.sql("select * from t").execute_stream()


def result_of(ctx: SessionContext, execute: str, batches: int = 3) -> RecordBatchReader:
    name = f"t{batches}"
    if not ctx.table_exists(name):
        ctx.register_table(name, SimpleTableProvider(SCHEMA, lambda: [ONE] * batches))
    return getattr(ctx.sql(f"select * from {name}"), execute)()


both = pytest.mark.parametrize("execute", ["execute_stream", "collect"])


# -- pyarrow's interface -----------------------------------------------------------------------------


@both
def test_a_reader_has_pyarrows_interface(ctx: SessionContext, execute: str) -> None:
    """S1: schema, read_next_batch, read_all, read_pandas, iteration, close and `with`."""
    table = pa.Table.from_batches([ONE] * 3)
    with result_of(ctx, execute) as reader:
        assert isinstance(reader, pa.RecordBatchReader)
        assert reader.schema == SCHEMA
        rows = reader.read_next_batch().num_rows
        assert rows + reader.read_all().num_rows == 3
    assert result_of(ctx, execute).read_all() == table
    assert result_of(ctx, execute).read_pandas().equals(table.to_pandas())
    batches = list(result_of(ctx, execute))
    assert pa.Table.from_batches(batches) == table
    assert {type(batch) for batch in batches} == {pa.RecordBatch}
    assert {batch.schema for batch in batches} == {SCHEMA}
    reader = result_of(ctx, execute)
    assert iter(reader) is reader
    assert next(reader).num_rows > 0


@both
def test_after_the_end_every_read_returns_the_end_again(ctx: SessionContext, execute: str) -> None:
    """S1: like pyarrow's reader; read_all returns no rows with the same schema."""
    reader = result_of(ctx, execute)
    assert reader.read_all().num_rows == 3
    for _ in range(2):
        with pytest.raises(StopIteration):
            reader.read_next_batch()
        assert list(reader) == []
        assert reader.read_all() == SCHEMA.empty_table()
    assert "ended" in repr(reader)
    assert pa.table(reader) == SCHEMA.empty_table()


@both
def test_after_close_every_read_raises_and_the_schema_is_kept(ctx: SessionContext, execute: str) -> None:
    """S1: before the first batch, between batches and after the end; a second close does nothing."""
    for read_before in (lambda reader: None, RecordBatchReader.read_next_batch, RecordBatchReader.read_all):
        reader = result_of(ctx, execute)
        read_before(reader)
        reader.close()
        reader.close()
        for read in (reader.read_next_batch, reader.read_all, lambda r=reader: list(r), reader.__arrow_c_stream__):
            with pytest.raises(ClosedError, match="reader is closed"):
                read()
        assert reader.schema == SCHEMA
        assert "closed" in repr(reader)


def test_leaving_the_readers_block_closes_it_even_after_an_exception(ctx: SessionContext) -> None:
    """S7: after an exception in the block, the provider is released too."""
    closed = threading.Event()

    def endless() -> Iterator[pa.RecordBatch]:
        try:
            while True:
                yield ONE
        finally:
            closed.set()

    def read_one_and_fail() -> None:
        with ctx.sql("select * from t").execute_stream() as reader:
            reader.read_next_batch()
            raise LookupError("the consumer's own")

    ctx.register_table("t", SimpleTableProvider(SCHEMA, endless))
    with pytest.raises(LookupError, match="the consumer's own"):
        read_one_and_fail()
    assert closed.wait(AT_ONCE)


# -- cancelled ---------------------------------------------------------------------------------------


def test_cancel_from_another_thread_ends_a_blocked_read_at_once(reader: RecordBatchReader, sink: TableSink) -> None:
    """S11: every later read raises CancelledError again, and the producer's next write raises ConsumerGoneError."""
    sink.write(ONE)
    assert reader.read_next_batch().num_rows == 1
    blocked = Blocked(reader.read_next_batch)
    reader.cancel()
    assert isinstance(blocked.ends(), CancelledError)
    for read in (reader.read_next_batch, reader.read_all, lambda: list(reader), reader.__arrow_c_stream__):
        with pytest.raises(CancelledError, match=r"cancelled.*not the complete result"):
            read()
    with pytest.raises(ConsumerGoneError, match="cancelled"):
        sink.write(ONE)


def test_cancel_ends_a_read_that_waits_for_a_provider_that_never_returns(ctx: SessionContext) -> None:
    """S11: the provider's thread still waits, but the reader does not wait for it."""
    let_go = threading.Event()

    def stuck() -> Iterator[pa.RecordBatch]:
        let_go.wait(DEADLINE)
        yield ONE

    ctx.register_table("stuck", SimpleTableProvider(SCHEMA, stuck))
    reader = ctx.sql("select count(*) from stuck").execute_stream()
    blocked = Blocked(reader.read_all)
    reader.cancel()
    assert isinstance(blocked.ends(), CancelledError)
    assert ctx.sql("select 1").count() == 1
    let_go.set()


@both
def test_cancelling_twice_or_after_the_end_is_harmless(ctx: SessionContext, execute: str) -> None:
    """S11: only the first end takes effect."""
    cancelled = result_of(ctx, execute)
    cancelled.cancel()
    cancelled.cancel()
    with pytest.raises(CancelledError):
        cancelled.read_all()
    cancelled.cancel()
    cancelled.close()

    ended = result_of(ctx, execute)
    assert ended.read_all().num_rows == 3
    ended.cancel()
    ended.cancel()
    with pytest.raises(StopIteration):
        ended.read_next_batch()

    closed = result_of(ctx, execute)
    closed.close()
    closed.cancel()
    with pytest.raises(ClosedError):
        closed.read_next_batch()


def test_close_from_another_thread_ends_a_blocked_read_at_once(reader: RecordBatchReader, sink: TableSink) -> None:
    """S7, S11: the blocked thread gets ClosedError, never the end of the stream."""
    blocked = Blocked(reader.read_all)
    reader.close()
    assert isinstance(blocked.ends(), ClosedError)
    with pytest.raises(ConsumerGoneError, match="closed"):
        sink.write(ONE)


# -- dropped -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("batches_read", [0, 1])
def test_a_dropped_reader_releases_its_source(ctx: SessionContext, sink: TableSink, batches_read: int) -> None:
    """S7: within a second, like close(), whether or not a batch was read."""
    refused = threading.Event()

    def produce() -> None:
        try:
            while True:
                sink.write(ONE)
        except ConsumerGoneError:
            refused.set()

    reader = ctx.sql("select * from t").execute_stream()
    producer = threading.Thread(target=produce, daemon=True)
    producer.start()
    for _ in range(batches_read):
        reader.read_next_batch()
    assert not refused.is_set()
    del reader
    assert refused.wait(AT_ONCE)
    producer.join(DEADLINE)
    assert not producer.is_alive()


def test_dropped_readers_leave_no_thread(ctx: SessionContext) -> None:
    """S7, F14: one hundred readers, started and not started."""
    before = set(threading.enumerate())
    for number in range(100):
        reader = result_of(ctx, "execute_stream", 500)
        if number % 2:
            reader.read_next_batch()
        del reader
    gc.collect()
    left = set(threading.enumerate()) - before
    for thread in left:
        thread.join(AT_ONCE)
    assert [thread.name for thread in left if thread.is_alive()] == []


# -- the session closed meanwhile ----------------------------------------------------------------------


def test_closing_the_session_ends_a_blocked_read_at_once_with_a_clear_error(
    ctx: SessionContext, reader: RecordBatchReader
) -> None:
    """S14: every later read raises it again."""
    blocked = Blocked(reader.read_all)
    ctx.close()
    error = blocked.ends()
    assert isinstance(error, ClosedError)
    assert "session was closed" in str(error)
    with pytest.raises(ClosedError, match="session was closed"):
        reader.read_next_batch()
    reader.cancel()
    reader.close()


@pytest.mark.parametrize("batches_read", [0, 1])
def test_a_reader_of_a_closed_session_raises_and_never_ends_cleanly(ctx: SessionContext, batches_read: int) -> None:
    """S14: whether or not a batch was read before."""
    closed = threading.Event()

    def endless() -> Iterator[pa.RecordBatch]:
        try:
            while True:
                yield ONE
        finally:
            closed.set()

    ctx.register_table("t", SimpleTableProvider(SCHEMA, endless))
    reader = ctx.sql("select * from t").execute_stream()
    for _ in range(batches_read):
        reader.read_next_batch()
    ctx.close()
    with pytest.raises(ClosedError, match="session was closed"):
        reader.read_all()
    assert batches_read == 0 or closed.wait(AT_ONCE)


def test_closing_the_session_ends_the_readers_of_every_partition(ctx: SessionContext, sink: TableSink) -> None:
    """S14, S13: readers that wait and readers that no thread reads."""
    frame = ctx.sql("select k from t where k % 2 = 0 union all select 1 as k")
    readers = frame.execute_stream_partitioned()
    assert len(readers) > 1
    waiting = [Blocked(reader.read_all) for reader in readers[:1]]
    ctx.close()
    assert [type(blocked.ends()) for blocked in waiting] == [ClosedError]
    for reader in readers[1:]:
        with pytest.raises(ClosedError):
            reader.read_all()


def test_closing_the_session_ends_a_collect_on_another_thread(ctx: SessionContext, sink: TableSink) -> None:
    """S14: no part of the result is returned."""
    sink.write(ONE)
    blocked = Blocked(ctx.sql("select * from t").collect)
    ctx.close()
    assert isinstance(blocked.ends(), ClosedError)
    assert blocked.result is None


def test_a_collected_result_can_be_read_after_its_session_is_closed() -> None:
    """S14: it is in memory, and needs nothing of the session."""
    with SessionContext() as ctx:
        reader = result_of(ctx, "collect")
    assert reader.read_all().num_rows == 3


def test_a_frame_of_a_closed_session_cannot_be_executed(ctx: SessionContext, sink: TableSink) -> None:
    """S14: it cannot be inspected either."""
    frame = ctx.sql("select * from t")
    ctx.close()
    for call in (frame.execute_stream, frame.collect, frame.count, frame.schema, frame.explain):
        with pytest.raises(ClosedError, match="session is closed"):
            call()
    frame.close()


# -- threads -----------------------------------------------------------------------------------------


def test_several_threads_may_take_turns_reading_one_reader() -> None:
    """S12: each batch on another thread, and none is lost."""
    with SessionContext(batch_size=100) as ctx:
        ctx.register_arrow("n", pa.table({"k": range(1_000)}))
        reader = ctx.sql("select k from n order by k").execute_stream()
        keys: list[int] = []
        for _ in range(10):
            thread = threading.Thread(target=lambda: keys.extend(reader.read_next_batch().column(0).to_pylist()))
            thread.start()
            thread.join(DEADLINE)
        assert keys == list(range(1_000))
        with pytest.raises(StopIteration):
            reader.read_next_batch()


@pytest.mark.parametrize("partitions", [1, 2, 8])
def test_two_readers_of_one_session_interleave(partitions: int) -> None:
    """S12: batch by batch on one thread, while a third reader of the session is blocked."""
    with SessionContext(target_partitions=partitions, batch_size=100) as ctx:
        rows = pa.table({"k": range(5_000)})
        ctx.register_table("t", SimpleTableProvider(rows.schema, lambda: rows))
        with ctx.register_streaming_table("silent", SCHEMA) as sink:
            silent = ctx.sql("select * from silent").execute_stream()
            blocked = Blocked(silent.read_all)
            left = ctx.sql("select k from t order by k").execute_stream()
            right = ctx.sql("select k * 10 as k from t order by k desc").execute_stream()
            in_turn = [*zip(left, right, strict=True)]
            assert [k for batch, _ in in_turn for k in batch.column(0).to_pylist()] == list(range(5_000))
            assert [k for _, batch in in_turn for k in batch.column(0).to_pylist()] == list(range(49_990, -10, -10))
            sink.write(ONE)
        assert blocked.ends() is None
        assert blocked.result == pa.Table.from_batches([ONE])
