"""The rows of a result: the same both ways, in order, read lazily, released upstream, by partition."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

import headrace
from headrace import ConsumedError, ScanRequest, SessionContext, SimpleTableProvider, TableProvider

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
ROWS = 1_000
DEADLINE = 10.0


class Source:
    """A table that counts what is pulled from it, and notes when that is more than was allowed."""

    def __init__(self, batches: int = 5, *, rows: int = ROWS, allowance: int = 1 << 60) -> None:
        self.schema = SCHEMA
        self.pulled = 0
        self.closes = 0
        self.scanned = threading.Event()
        self.closed = threading.Event()
        self.overrun = threading.Event()
        self._batches = batches
        self._rows = rows
        self._allowed_rows = allowance * rows

    def provider(self) -> SimpleTableProvider:
        return SimpleTableProvider(SCHEMA, self._scan)

    def allow(self, rows: int) -> None:
        self._allowed_rows += rows

    def _scan(self) -> Source:
        self.scanned.set()
        return self

    def read_next_batch(self) -> pa.RecordBatch:
        if self.pulled == self._batches:
            raise StopIteration
        self.pulled += 1
        if self.pulled * self._rows > self._allowed_rows:
            self.overrun.set()
        return batch_of(self.pulled - 1, self._rows)

    def close(self) -> None:
        self.closes += 1
        self.closed.set()


def batch_of(number: int, rows: int = ROWS) -> pa.RecordBatch:
    keys = pa.array(range(number * rows, (number + 1) * rows))
    return pa.record_batch([keys, pa.repeat("x", rows)], schema=SCHEMA)


def keys_of(table: pa.Table) -> list[int]:
    return table.column("k").to_pylist()


def with_source(ctx: SessionContext, source: Source) -> Source:
    ctx.register_table("t", source.provider())
    return source


# -- the same rows, both ways ------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [1, 2, 8])
@pytest.mark.parametrize("query", ["select * from t", "select k, v from t where k % 3 = 0", "select count(*) k from t"])
def test_collect_and_execute_stream_give_the_same_rows_as_the_same_type(query: str, partitions: int) -> None:
    """S1: one reader type and one result, however it is asked for."""
    with SessionContext(target_partitions=partitions) as ctx:
        ctx.register_arrow("t", pa.Table.from_batches([batch_of(i) for i in range(20)]))
        collected, streamed = ctx.sql(query).collect(), ctx.sql(query).execute_stream()
        assert type(collected) is type(streamed) is headrace.RecordBatchReader
        assert collected.schema == streamed.schema == ctx.sql(query).schema()
        whole, parts = collected.read_all(), streamed.read_all()
        assert whole.schema == parts.schema == collected.schema
        assert sorted(keys_of(whole)) == sorted(keys_of(parts))
        assert whole.num_rows == {"select * from t": 20_000, "select count(*) k from t": 1}.get(query, 6_667)


@pytest.mark.parametrize("execute", ["collect", "execute_stream"])
def test_the_schema_is_there_before_the_first_batch_and_survives_a_result_without_rows(execute: str) -> None:
    """S1: names, types and nullability, though no batch ever comes."""
    with SessionContext() as ctx:
        source = with_source(ctx, Source(0))
        frame = ctx.sql("select v, k + 1.5 as total, 7 as seven from t where k > 5")
        expected = pa.schema(
            [("v", pa.string()), ("total", pa.float64()), pa.field("seven", pa.int64(), nullable=False)]
        )
        reader = getattr(frame, execute)()
        assert reader.schema == expected
        assert source.scanned.is_set() is (execute == "collect")
        table = reader.read_all()
        assert (table.num_rows, table.schema) == (0, expected)


@pytest.mark.parametrize("execute", ["collect", "execute_stream"])
@pytest.mark.parametrize("register", ["register_arrow", "register_table"])
def test_order_by_holds_across_batches_of_at_most_the_batch_size(register: str, execute: str) -> None:
    """S2: four rows, batches of two, in order."""
    rows = pa.table({"x": [3, 1, 4, 2]})
    with SessionContext(batch_size=2) as ctx:
        table = rows if register == "register_arrow" else SimpleTableProvider(rows.schema, lambda: rows)
        getattr(ctx, register)("t", table)
        batches = list(getattr(ctx.sql("select x from t order by x"), execute)())
        assert [x for batch in batches for x in batch.column(0).to_pylist()] == [1, 2, 3, 4]
        assert [batch.num_rows for batch in batches] == [2, 2]


@pytest.mark.parametrize("query", ["select x from t", "select x from t where x > 0", "select x + 1 as x from t"])
def test_a_provider_s_large_batch_is_cut_to_the_batch_size(query: str) -> None:
    """S2: it is the most rows in a batch, whatever a table hands out at once."""
    rows = pa.table({"x": range(1, 1_001)})
    with SessionContext(batch_size=100) as ctx:
        ctx.register_table("t", SimpleTableProvider(rows.schema, lambda: rows))
        sizes = [batch.num_rows for batch in ctx.sql(query).execute_stream()]
        assert sum(sizes) == 1_000
        assert max(sizes) <= 100


@pytest.mark.parametrize("partitions", [1, 2, 8])
def test_order_by_holds_however_many_partitions_sort(partitions: int) -> None:
    """S2: a sort over many batches and partitions comes out as one ordered stream."""
    with SessionContext(target_partitions=partitions, batch_size=100) as ctx:
        with_source(ctx, Source(20))
        query = "select (k * 7919) % 20000 as k from t where k % 2 = 0 order by k desc"
        batches = list(ctx.sql(query).execute_stream())
        keys = keys_of(pa.Table.from_batches(batches))
        assert keys == sorted(((k * 7919) % 20000 for k in range(0, 20_000, 2)), reverse=True)
        assert max(batch.num_rows for batch in batches) <= 100


# -- lazily ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [1, 8])
@pytest.mark.parametrize(
    "query",
    ["select * from t", "select v from t limit 5", "select k from t order by k", "select k from t where k % 2 = 0"],
)
def test_building_a_stream_does_not_even_open_the_table(query: str, partitions: int) -> None:
    """S3: nothing of the table's is called before the first read, whatever operators start with."""
    with SessionContext(target_partitions=partitions) as ctx:
        source = with_source(ctx, Source())
        with ctx.sql(query).execute_stream() as reader:
            assert not source.scanned.wait(0.2)
            reader.read_next_batch()
            assert source.scanned.is_set()


@pytest.mark.parametrize("partitions", [1, 2, 8])
@pytest.mark.parametrize("query", ["select * from t", "select k * 2 as k from t where k % 2 >= 0"])
def test_while_the_reader_idles_the_source_is_read_ahead_by_a_bounded_number_of_batches(
    query: str, partitions: int
) -> None:
    """S3: on building the stream, after the first batch and after more; with 100,000 batches to read."""
    # Up to 2 MiB of the result, and 4 MiB of each scan.
    allowance = 64 + 32 * partitions
    with SessionContext(target_partitions=partitions) as ctx:
        source = with_source(ctx, Source(100_000, rows=8192, allowance=allowance))
        with ctx.sql(query).execute_stream() as reader:
            assert not source.overrun.wait(0.1)
            for _ in range(3):
                source.allow(reader.read_next_batch().num_rows)
                assert not source.overrun.wait(0.1)


@pytest.mark.parametrize("partitions", [1, 2, 8])
def test_the_first_batch_arrives_before_the_last_is_produced(partitions: int) -> None:
    """S4: the source makes its last batch only after the reader has got its first."""
    first_arrived = threading.Event()

    def scan() -> Iterator[pa.RecordBatch]:
        for number in range(60 * partitions):
            yield batch_of(number)
        if not first_arrived.wait(DEADLINE):
            raise TimeoutError("nothing arrived while the source was waiting with its last batch")
        yield batch_of(60 * partitions)

    with SessionContext(target_partitions=partitions) as ctx:
        ctx.register_table("t", SimpleTableProvider(SCHEMA, scan))
        with ctx.sql("select k + 1 as k from t where k % 2 = 0").execute_stream() as reader:
            rows = reader.read_next_batch().num_rows
            first_arrived.set()
            assert rows + reader.read_all().num_rows == (60 * partitions + 1) * ROWS // 2


# -- released upstream -------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [1, 8])
@pytest.mark.parametrize(
    "query", ["select * from t", "select k from t where k % 2 = 0", "select k from t limit 100000"]
)
def test_closing_the_reader_after_one_batch_closes_the_pull_reader_once_within_a_second(
    query: str, partitions: int
) -> None:
    """S7: the session stays usable."""
    with SessionContext(target_partitions=partitions) as ctx:
        source = with_source(ctx, Source(100_000))
        with ctx.sql(query).execute_stream() as reader:
            reader.read_next_batch()
        assert source.closed.wait(1.0)
        assert ctx.sql("select 1 as one").collect().read_all().to_pydict() == {"one": [1]}
    assert source.closes == 1


@pytest.mark.parametrize("query", ["select * from t", "select k from t where k % 2 = 0"])
def test_closing_the_reader_after_one_batch_makes_the_sink_s_next_write_raise(query: str) -> None:
    """S7: within a second, for a writer that waits and for one that comes later."""
    with SessionContext(batch_size=100) as ctx:
        sink = ctx.register_streaming_table("t", SCHEMA, capacity=1)
        refused = threading.Event()

        def produce() -> None:
            try:
                for number in range(100_000):
                    sink.write(batch_of(number))
            except headrace.ConsumerGoneError:
                refused.set()

        producer = threading.Thread(target=produce, daemon=True)
        producer.start()
        reader = ctx.sql(query).execute_stream()
        reader.read_next_batch()
        reader.close()
        assert refused.wait(1.0)
        with pytest.raises(headrace.ConsumerGoneError, match="reader was closed"):
            sink.write(batch_of(0))
        assert ctx.sql("select 1 as one").count() == 1
        producer.join(DEADLINE)
        assert not producer.is_alive()


# -- one reader per partition ------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [1, 2, 8])
def test_partitioned_execution_gives_one_reader_per_partition_that_together_give_every_row(partitions: int) -> None:
    """S13: each row in exactly one of them."""
    with SessionContext(target_partitions=partitions) as ctx:
        with_source(ctx, Source(50))
        frame = ctx.sql("select k from t where k % 2 = 0")
        readers = frame.execute_stream_partitioned()
        assert [type(reader) for reader in readers] == [headrace.RecordBatchReader] * partitions
        assert {reader.schema for reader in readers} == {pa.schema([("k", pa.int64())])}
        keys = [key for reader in readers for key in keys_of(reader.read_all())]
        assert sorted(keys) == list(range(0, 50 * ROWS, 2))
        with pytest.raises(ConsumedError):
            frame.execute_stream_partitioned()


def test_all_partitions_drain_at_the_same_time() -> None:
    """S13: four threads meet at a barrier, each with a batch of a different partition."""
    with SessionContext(target_partitions=4) as ctx:
        with_source(ctx, Source(400))
        readers = ctx.sql("select k from t where k % 2 = 0").execute_stream_partitioned()
        all_have_one = threading.Barrier(len(readers))
        rows: list[int] = []

        def drain(reader: headrace.RecordBatchReader) -> None:
            first = reader.read_next_batch()
            all_have_one.wait(DEADLINE)
            rows.append(first.num_rows + reader.read_all().num_rows)

        threads = [threading.Thread(target=drain, args=[reader], daemon=True) for reader in readers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE)
        assert len(rows) == 4
        assert sum(rows) == 200 * ROWS


def test_each_partition_of_a_provider_has_its_own_reader() -> None:
    """S13: each scan waits for all four to have begun, so one that is drained after another would not end."""
    all_scanned = threading.Barrier(4)

    class Parted(TableProvider):
        def schema(self) -> pa.Schema:
            return SCHEMA

        def partition_count(self) -> int:
            return all_scanned.parties

        def scan(self) -> pa.RecordBatch:
            raise AssertionError("a scan of all of it was not asked for")

        def scan_with(self, request: ScanRequest) -> pa.RecordBatch:
            all_scanned.wait(DEADLINE)
            return batch_of(request.partition)

    with SessionContext(target_partitions=4) as ctx:
        ctx.register_table("t", Parted())
        readers = ctx.sql("select k from t").execute_stream_partitioned()
        parts: list[list[int]] = []
        threads = [
            threading.Thread(target=lambda r=reader: parts.append(keys_of(r.read_all())), daemon=True)
            for reader in readers
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE)
        assert sorted(parts) == [batch_of(number).column("k").to_pylist() for number in range(4)]


def test_closing_one_partition_leaves_the_others_whole_and_closing_the_last_releases_the_source() -> None:
    """S13, S7: the run lives as long as one of its readers."""
    with SessionContext(target_partitions=4) as ctx:
        source = with_source(ctx, Source(400))
        whole = ctx.sql("select k from t where k % 2 = 0").execute_stream_partitioned()
        taken = whole[0].read_next_batch().num_rows
        whole[0].close()
        assert 0 < sum(reader.read_all().num_rows for reader in whole[1:]) <= 200 * ROWS - taken
        assert source.closed.wait(1.0)
        assert source.pulled == 400

        endless = Source(1_000_000)
        ctx.register_table("endless", endless.provider())
        readers = ctx.sql("select k from endless where k % 2 = 0").execute_stream_partitioned()
        for reader in readers[:-1]:
            reader.close()
        assert not endless.closed.wait(0.2)
        readers[-1].read_next_batch()
        readers[-1].close()
        assert endless.closed.wait(1.0)
