"""A table whose partitions are read at the same time."""

import threading

import pyarrow as pa
import pytest
from providers import DEADLINE, SCHEMA, Provider, Reader, endless, in_time, rows

import headrace
from headrace import SessionContext


class Parts(Provider):
    """A table in ``count`` partitions of three rows each."""

    def __init__(self, count, items=lambda partition: [rows(3 * partition)]):
        super().__init__()
        self.requests = []
        self._count = count
        self._part = items

    def partition_count(self):
        if isinstance(self._count, BaseException):
            raise self._count
        return self._count

    def scan_with(self, request):
        self.requests.append(request)
        self.readers.append(Reader(self._part(request.partition)))
        return self.readers[-1]


@pytest.fixture(params=[1, 2, 8], ids="target_partitions={}".format)
def ctx(request):
    with SessionContext(target_partitions=request.param) as session:
        yield session


def numbers(ctx, query="select x from t"):
    return sorted(ctx.sql(query).collect().read_all()["x"].to_pylist())


def test_each_partition_is_scanned_once_with_its_number(ctx):
    """T4, T11: several partitions; scan_with once per partition, every row once, every reader closed once."""
    provider = Parts(5)
    ctx.register_table("t", provider)
    assert numbers(ctx) == list(range(15))
    assert sorted(request.partition for request in provider.requests) == [0, 1, 2, 3, 4]
    assert {request.partitions for request in provider.requests} == {5}
    assert [reader.closes_in_the_end() for reader in provider.readers] == [1] * 5


@pytest.mark.parametrize(
    "query",
    [
        "select x from t",
        "select sum(x) as x from t",
        "select x from t where x >= 0 order by x",
        "select a.x from t a join t b on a.x = b.x",
        "select x from t limit 100",
    ],
)
def test_the_partitions_are_scanned_at_the_same_time(ctx, query):
    """T11: no scan continues before the scans of all partitions have started."""
    together = threading.Barrier(4)

    def items(partition):
        yield rows(6 * partition)
        together.wait(DEADLINE)
        yield rows(6 * partition + 3)

    ctx.register_table("t", Parts(4, items))
    result = in_time(lambda: numbers(ctx, query))
    assert result == ([sum(range(24))] if "sum" in query else list(range(24)))


def test_a_table_in_partitions_can_be_counted_joined_and_grouped(ctx):
    """T11, T8: with the rows of all partitions, whatever the query."""
    ctx.register_table("t", Parts(3))
    ctx.register_table("one", Parts(1, lambda _: [rows(4)]))
    assert ctx.table("t").count() == 9
    assert ctx.sql("select count(*) as n from t").collect().read_all()["n"].to_pylist() == [9]
    assert numbers(ctx, "select t.x from t join one on t.x = one.x") == [4, 5, 6]
    assert numbers(ctx, "select max(x) as x from t group by x % 3") == [6, 7, 8]


def test_a_limit_ends_the_scans_of_all_partitions(ctx):
    """T11, T4: an early end closes the reader of every partition that was opened, once."""
    provider = Parts(4, lambda _: endless())
    ctx.register_table("t", provider)
    assert len(numbers(ctx, "select x from t limit 10")) == 10
    assert {request.limit for request in provider.requests} == {10}
    for reader in provider.readers:
        assert reader.closes_in_the_end() == 1


def test_an_error_in_one_partition_ends_the_scans_of_all(ctx):
    """T11, T5, T4: the query raises the partition's error, and the other readers are closed."""
    error = ValueError("part 2 is torn")
    provider = Parts(4, lambda partition: [error] if partition == 2 else endless())
    ctx.register_table("t", provider)
    with pytest.raises(headrace.TableError, match="'t' failed: ValueError: part 2 is torn") as caught:
        in_time(ctx.sql("select count(*) from t").collect)
    assert caught.value.__cause__ is error
    for reader in provider.readers:
        assert reader.closes_in_the_end() == 1


def test_an_empty_partition_does_not_end_the_query(ctx):
    """T11, T8: every row of the other partitions is returned."""
    ctx.register_table("t", Parts(4, lambda partition: [] if partition % 2 else [rows(0, 0), rows(3 * partition)]))
    assert numbers(ctx) == [0, 1, 2, 6, 7, 8]


@pytest.mark.parametrize("count", [0, -1, True, 1.5, None, "2"], ids=repr)
def test_an_invalid_partition_count_is_refused_and_no_table_is_registered(count):
    """T11: partition_count must be a whole number of at least 1."""
    with SessionContext() as ctx:
        with pytest.raises(headrace.InvalidArgumentError) as caught:
            ctx.register_table("t", Parts(count))
        expected = f"partition_count() of table 't' must be a whole number of at least 1, not {count!r}."
        assert str(caught.value).startswith(expected)
        assert not ctx.table_exists("t")
        ctx.register_table("t", Parts(1))
        assert ctx.table("t").count() == 3


def test_partition_count_is_called_once_at_registration_and_its_error_is_raised():
    """T11, T1: like schema(); after an error the table does not exist."""
    calls = []

    class Counting(Parts):
        def partition_count(self):
            calls.append(threading.current_thread())
            return super().partition_count()

    error = RuntimeError("cannot count")
    with SessionContext() as ctx:
        with pytest.raises(RuntimeError) as caught:
            ctx.register_table("t", Parts(error))
        assert caught.value is error
        assert not ctx.table_exists("t")
        ctx.register_table("t", Counting(2))
        assert ctx.table("t").count() == 6
        ctx.sql("select * from t").explain()
    assert calls == [threading.current_thread()]


def test_more_partitions_than_workers_is_a_clear_error_at_query_start():
    """T11: never a deadlock; the message names the setting, no scan starts and no worker stays claimed."""
    provider = Parts(10_000)
    with SessionContext() as ctx:
        ctx.register_table("many", provider)
        ctx.register_table("some", Parts(50))
        for _ in range(3):
            with pytest.raises(headrace.ResourcesExhaustedError, match=r"worker threads.*Hint: .*TOKIO_WORKER_THREADS"):
                ctx.sql("select * from many").collect()
        assert provider.requests == []
        assert ctx.table("some").count() == 150
        assert ctx.table("some").count() == 150


def test_the_schema_is_checked_in_every_partition():
    """T11, T3: a partition with another schema fails the query."""
    wrong = pa.schema([SCHEMA.field("s"), SCHEMA.field("x")])

    class OneWrong(Parts):
        def scan_with(self, request):
            return Reader([], wrong) if request.partition == 1 else super().scan_with(request)

    with SessionContext() as ctx:
        ctx.register_table("t", OneWrong(3))
        with pytest.raises(headrace.TableError, match=r"'t'.*another order"):
            ctx.sql("select * from t").collect()
