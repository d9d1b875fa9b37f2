"""Queries over pull tables return every row once, also concurrently and from inside a provider."""

import threading
from concurrent.futures import ThreadPoolExecutor

import polars
import pyarrow as pa
import pytest
from providers import DEADLINE, SCHEMA, Provider, Reader, endless, in_time, rows, scanning

from headrace import SessionContext

EMPTY = rows(0, 0)
SIX = pa.Table.from_batches([rows(0), rows(3)])


@pytest.fixture(params=[True, False], ids=["", "unordered"])
def ctx(request):
    with SessionContext(ordered=request.param) as session:
        yield session


def values(ctx, query):
    table = ctx.sql(query).collect().read_all()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


# -- what a scan may return -----------------------------------------------------------------------------

RETURNED = {
    "a reader-like object": lambda: Reader([rows(0), rows(3)]),
    "a pyarrow reader": SIX.to_reader,
    "a generator": lambda: (batch for batch in SIX.to_batches()),
    "a list of batches": SIX.to_batches,
    "a table": lambda: SIX,
    "one batch": lambda: rows(0, 6),
    "an exported stream": lambda: _Exporting(SIX),
}


class _Exporting:
    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("kind", RETURNED)
def test_scan_may_return_any_object_that_contains_batches(ctx, kind):
    """T2, T7: a reader, a stream, a table, a batch or a generator of batches; a new one on every call."""
    ctx.register_table("t", scanning(RETURNED[kind]))
    for _ in range(2):
        assert values(ctx, "select x, s from t") == [(i, f"r{i}") for i in range(6)]
        assert values(ctx, "select count(*), sum(x) from t where s <> 'r5'") == [(5, 10)]


def test_scan_may_return_a_frame_of_another_library(ctx):
    """T2: any object with __arrow_c_stream__ is a reader."""
    frame = polars.DataFrame({"n": [1, 2, 3]})
    ctx.register_table("t", scanning(lambda: frame, pa.schema([("n", pa.int64())])))
    assert values(ctx, "select sum(n) from t") == [(6,)]


def test_scan_may_return_a_result_of_the_same_session(ctx):
    """T10: one table reads another, and both stream."""
    base = Provider(endless)
    ctx.register_table("base", base)
    query = "select x, s from base where x % 2 = 0"
    ctx.register_table("evens", scanning(lambda: ctx.sql(query).execute_stream()))
    numbers = [x for (x,) in in_time(lambda: values(ctx, "select x from evens limit 3"))]
    assert len(numbers) == 3
    assert not any(x % 2 for x in numbers)
    assert base.readers[0].closes_in_the_end() == 1


# -- empty streams and zero-row batches -----------------------------------------------------------------


@pytest.mark.parametrize("items", [[], [EMPTY], [EMPTY, EMPTY]], ids=["no batch", "an empty batch", "two empty ones"])
def test_an_empty_stream_gives_no_rows_and_keeps_the_schema(ctx, items):
    """T8: no rows, and the schema is kept."""
    ctx.register_table("t", Provider(lambda: items))
    result = ctx.sql("select * from t").collect()
    assert result.schema.equals(SCHEMA)
    assert result.read_all().equals(SCHEMA.empty_table())
    assert ctx.sql("select s from t where x > 1").collect().read_all().schema.names == ["s"]
    assert values(ctx, "select count(*), count(x), max(x) from t") == [(0, 0, None)]
    assert ctx.table("t").count() == 0


@pytest.mark.parametrize("where", range(4))
def test_a_zero_row_batch_is_not_the_end(ctx, where):
    """T8: a zero-row batch at the start, in the middle or at the end is not the end of the stream."""
    items = [rows(0), rows(3), rows(6)]
    items.insert(where, EMPTY)
    ctx.register_table("t", Provider(lambda: items))
    assert [x for (x,) in values(ctx, "select x from t")] == list(range(9))
    assert values(ctx, "select count(*) from t") == [(9,)]


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("select count(*) from t", [(6,)]),
        ("select count(1) from t", [(6,)]),
        ("select count(*) from t where true", [(6,)]),
        ("select count(*) from (select 1 from t)", [(6,)]),
        ("select 1 from t", [(1,)] * 6),
        ("select 'a', null from t", [("a", None)] * 6),
        ("select count(*) from t a, t b", [(36,)]),
        ("select count(*) from (select * from t limit 4)", [(4,)]),
        ("select 1 from t limit 2 offset 3", [(1,), (1,)]),
        ("select count(*) from (select 1 from t union all select 2 from t)", [(12,)]),
    ],
)
def test_the_row_count_is_kept_when_no_column_is_read(ctx, query, answer):
    """T8: `count(*)` and `select 1 from t` keep the row count, with or without empty batches."""
    ctx.register_table("t", Provider(lambda: [EMPTY, rows(0, 1), rows(1, 5), EMPTY]))
    assert values(ctx, query) == answer


def test_the_row_count_is_kept_when_many_batches_are_combined(ctx):
    """T8: batches that are combined without any column keep their row count."""
    ctx.register_table("t", Provider(lambda: [rows(i, 1) for i in range(500)]))
    assert values(ctx, "select count(*) from t") == [(500,)]
    assert len(values(ctx, "select 1 from t")) == 500


# -- joins and other shapes -----------------------------------------------------------------------------


def test_two_tables_can_be_joined(ctx):
    """T10: also with a push table and with a table in memory."""
    ctx.register_table("left_table", Provider(lambda: [rows(0), rows(3)]))
    ctx.register_table("right_table", Provider(lambda: [rows(2), rows(5)]))
    ctx.register_arrow("memory", pa.table({"x": [4, 5, 6]}))
    sink = ctx.register_streaming_table("pushed", SCHEMA)
    sink.write(rows(4))
    sink.close()
    joined = "select a.x, b.s from left_table a join right_table b on a.x = b.x"
    assert sorted(values(ctx, joined)) == [(i, f"r{i}") for i in (2, 3, 4, 5)]
    outer = "select a.x, b.x from left_table a full join right_table b on a.x = b.x where a.x is null or b.x is null"
    assert sorted(values(ctx, outer), key=str) == [(0, None), (1, None), (None, 6), (None, 7)]
    everything = (
        "select a.x from left_table a join right_table b on a.x = b.x join memory m on a.x = m.x "
        "join pushed p on p.s = a.s"
    )
    assert sorted(values(ctx, everything)) == [(4,), (5,)]


def test_a_table_joins_itself_with_independent_readers(ctx):
    """T10, T2: a self-join reads two separate readers."""
    provider = Provider()
    ctx.register_table("t", provider)
    pairs = values(ctx, "select a.x, b.x from t a join t b on a.x = b.x + 1 order by 1")
    assert pairs == [(i + 1, i) for i in range(5)]
    assert len(provider.readers) == 2


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("select s from t where x = 2", [("r2",)]),
        ("select x from t where s in ('r1', 'r4') order by x", [(1,), (4,)]),
        ("select x from t where s like '%3'", [(3,)]),
        ("select count(*) from t where s is null", [(0,)]),
        ("select upper(s) from t where length(s) = 2 and x between 1 and 2 order by x", [("R1",), ("R2",)]),
        ("select x % 2 as parity, sum(x) from t group by parity order by parity", [(0, 6), (1, 9)]),
        ("select x from t order by x desc limit 2", [(5,), (4,)]),
        ("select x, row_number() over (order by x desc) from t order by x limit 1", [(0, 6)]),
        ("select x from t where x > (select avg(x) from t) order by x", [(3,), (4,), (5,)]),
        ("select distinct x / 4 from t order by 1", [(0,), (1,)]),
    ],
)
def test_common_queries_return_the_correct_rows(ctx, query, answer):
    """T9: projection and filters return correct rows although the provider ignores them."""
    ctx.register_table("t", Provider())
    assert values(ctx, query) == answer


# -- side by side ---------------------------------------------------------------------------------------


def test_concurrent_queries_do_not_share_readers(ctx):
    """T10: as many readers as queries, each read by one thread, and each query returns every row."""
    together = threading.Barrier(8)

    class Shared(Provider):
        def scan(self):
            together.wait(DEADLINE)
            return super().scan()

    provider = Shared(lambda: [rows(i * 3) for i in range(50)])
    ctx.register_table("t", provider)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: values(ctx, "select sum(x), count(*) from t"), range(8)))
    assert results == [[(sum(range(150)), 150)]] * 8
    assert len({id(reader) for reader in provider.readers}) == 8
    assert len({reader.reading_thread for reader in provider.readers}) == 8


def test_a_slow_provider_does_not_stall_an_unrelated_query(ctx):
    """T10: providers that block in scan() or between batches delay no other query."""
    go_on = threading.Event()
    started = threading.Semaphore(0)

    def blocked_scan():
        started.release()
        assert go_on.wait(2 * DEADLINE)
        return Reader([rows(0)])

    def blocked_batches():
        yield rows(0)
        started.release()
        assert go_on.wait(2 * DEADLINE)
        yield rows(3)

    ctx.register_table("slow_scan", scanning(blocked_scan))
    ctx.register_table("slow_batches", Provider(blocked_batches))
    ctx.register_table("quick", Provider())
    with ThreadPoolExecutor(8) as pool:
        slow = [pool.submit(ctx.table(name).count) for name in ("slow_scan", "slow_batches") * 4]
        for _ in slow:
            assert started.acquire(timeout=DEADLINE)
        assert in_time(lambda: values(ctx, "select count(*) from quick a join quick b on a.x = b.x")) == [(6,)]
        assert not any(query.done() for query in slow)
        go_on.set()
        assert sorted(query.result(DEADLINE) for query in slow) == [3] * 4 + [6] * 4


# -- from inside a provider -----------------------------------------------------------------------------


def test_a_provider_may_query_the_same_session_inside_scan(ctx):
    """T10: no deadlock and no crash, also several levels deep, with every level executing."""
    ctx.register_table("level0", Provider())

    def level(below):
        return scanning(lambda: Reader(ctx.sql(f"select x, s from level{below} where x >= {below}").collect()))

    for number in range(1, 5):
        ctx.register_table(f"level{number}", level(number - 1))
    assert in_time(lambda: values(ctx, "select x from level4")) == [(3,), (4,), (5,)]


def test_a_provider_may_query_the_same_session_for_each_batch(ctx):
    """T10: read_next_batch may query the session too."""
    ctx.register_table("base", Provider())

    class Looking(Reader):
        def read_next_batch(self):
            batch = super().read_next_batch()
            found = ctx.sql("select s from base where x = $x", {"x": batch["x"][0].as_py()}).collect().read_all()
            assert found["s"].to_pylist() == batch["s"].slice(0, 1).to_pylist()
            return batch

    ctx.register_table("t", scanning(lambda: Looking([rows(0), rows(1), rows(2)])))
    assert in_time(lambda: values(ctx, "select count(*) from t a join t b on a.x = b.x")) == [(19,)]


def test_many_providers_may_query_the_same_session_at_the_same_time(ctx):
    """T10: every scan waits for its inner query, and the session makes progress."""
    together = threading.Barrier(12)
    ctx.register_table("base", Provider())

    def scan():
        together.wait(DEADLINE)
        return Reader([rows(ctx.table("base").count(), 1)])

    ctx.register_table("t", scanning(scan))
    query = "select sum(x) from (" + " union all ".join(["select x from t"] * 12) + ")"
    assert in_time(lambda: values(ctx, query)) == [(72,)]


def test_a_provider_may_change_the_tables_of_its_session_inside_scan(ctx):
    """T10, T12: register and deregister on a worker thread while the query runs."""

    def scan():
        ctx.register_table("extra", Provider())
        number = ctx.table("extra").count()
        ctx.deregister_table("extra")
        ctx.deregister_table("t")
        return Reader([rows(number, 1)])

    ctx.register_table("t", scanning(scan))
    assert in_time(lambda: values(ctx, "select x from t")) == [(6,)]
    assert not ctx.table_exists("t")
    assert not ctx.table_exists("extra")


@pytest.mark.parametrize("batches", [1, 50])
def test_scan_may_write_to_a_push_table_and_the_query_may_start_before_the_write(ctx, batches):
    """P11, T10: a provider feeds a push table of the same query through a channel of one batch."""
    sink = ctx.register_streaming_table("pushed", SCHEMA, capacity=1)

    def scan():
        with sink:
            for number in range(batches):
                sink.write(rows(3 * number), timeout=DEADLINE)
        return Reader([rows(0)])

    ctx.register_table("pulled", scanning(scan))
    query = "select count(*), sum(x) from (select x from pulled union all select x from pushed)"
    assert in_time(lambda: values(ctx, query)) == [(3 + 3 * batches, 3 + sum(range(3 * batches)))]


def test_a_provider_may_read_a_push_table_that_another_thread_writes_to(ctx):
    """P11, T10: the inner query starts first and waits for the first write."""
    sink = ctx.register_streaming_table("pushed", SCHEMA)
    started = threading.Event()

    def scan():
        started.set()
        return ctx.sql("select x, s from pushed").execute_stream()

    ctx.register_table("t", scanning(scan))
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(values, ctx, "select sum(x) from t")
        assert started.wait(DEADLINE)
        assert not result.done()
        with sink:
            sink.write(rows(0))
            sink.write(rows(3))
        assert result.result(DEADLINE) == [(15,)]
