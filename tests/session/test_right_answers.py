"""Queries that once had a wrong answer or none: the answer is DataFusion's, however the rows are fed to a session."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from headrace import ConsumedError, ConsumerGoneError, SessionContext, SimpleTableProvider, StorageError
from support.differential.processes import Worker
from support.differential.seeds import check
from support.differential.selects import Query
from support.differential.sql import sql
from support.differential.tables import Table
from support.differential.ways import WAYS, Settings, register

INNER = pa.struct([("b", pa.int64())])
NUMBERS = pa.table({"value": [1, 2, 3]})
# A column has the name of a field inside the struct.
NESTED = pa.table(
    {"s": pa.array([{"a": {"b": n}} for n in (1, 2, None)], pa.struct([("a", INNER)])), "x": [1, 2, 3], "b": [7, 8, 9]}
)
LEFT = pa.table({"id": [1, 2, 3], "s": [{"id": 1, "k": "a"}, {"id": 3, "k": "b"}, {"id": None, "k": "c"}]})
RIGHT = pa.table({"id": [1, 2, 5], "s": [{"id": 2, "k": "a"}, {"id": 3, "k": "z"}, {"id": 1, "k": None}]})
THIRD = pa.table({"id": [1, 7]})
DICTIONARY = pa.table({"d": pa.array(["a", "b", None, "a"]).dictionary_encode()})
TABLES = {
    "numbers": NUMBERS,
    "nested": NESTED,
    "t1": LEFT,
    "t2": RIGHT,
    "t3": THIRD,
    "T1": NUMBERS,
    "two words": NUMBERS,
}
TABLES |= {"dotted.name": NUMBERS, "select": NUMBERS, "dictionary": DICTIONARY}

TYPES_MADE_ONE = {
    "a date and a timestamp": "select date '2020-01-01' a union all select timestamp '2020-01-02 12:34:56'",
    "a number and text": "select 1 a union all select '007'",
    "a float and a double": "select cast(1 as float) a union all select cast(0.1 as double)",
    "an integer and a fraction": "select 1 a union all select 2.5",
    "a null and a number": "select null a union all select 1",
    "three types": "select null a union all select 1 union all select 2.5",
    "a union under a sort": "select * from (select 1 a union all select 2.5) order by a desc",
    "branches of a case": "select case when value > 1 then 1 else 'small' end a from numbers",
    "branches of a case of numbers": "select case when value > 1 then 0.5 else value end a from numbers",
    "coalesce": "select coalesce(null, value, 0.5) a from numbers",
    "a table and a fraction": "select value from numbers union all select 2.5",
    "an array of nulls": "select make_array(null, null) a",
    "an array of numbers": "select make_array(1, 2.5) a",
    "values": "select * from (values (1, null), (2.5, 'a')) as v (a, b)",
}
NESTED_FIELDS = {
    "a field of a field": "select s['a']['b'] b, x from nested",
    "a field of a field alone": "select s['a']['b'] from nested",
    "a field of a field, filtered": "select s['a']['b'] as inner_b, x from nested where s['a']['b'] = 2 and x = 2",
    "a filter on a field of a field": "select x from nested where s['a']['b'] = 2",
    "a filter on the column of that name": "select x from nested where b = 8",
    "a filter on both": "select x from nested where s['a']['b'] = 2 and b = 8",
    "a struct beside its field": "select s['a'], s['a']['b'], b from nested",
    "a field under a limit": "select s['a']['b'] c from nested order by c limit 1",
    "a group by a field": "select s['a']['b'] c, count(*), sum(x) from nested group by 1",
}
STRUCT_KEYS = {
    "a join": "select t1.id, t2.id from t1 join t2 on t1.s['id'] = t2.s['id']",
    "a left join": "select t1.id, t2.s from t1 left join t2 on t1.s['id'] = t2.id",
    "a join on two fields": "select t1.id from t1 join t2 on t1.s['id'] = t2.s['id'] and t1.s['k'] = t2.s['k']",
    "EXISTS": "select t1.id from t1 where exists (select 1 from t2 where t1.s['id'] = t2.s['id'])",
    "NOT EXISTS": "select t1.id from t1 where not exists (select 1 from t2 where t1.s['id'] = t2.id)",
    "IN": "select t1.id from t1 where t1.s['id'] in (select t2.s['id'] from t2)",
    "NOT IN": "select t1.id from t1 where t1.s['id'] not in (select t2.s['id'] from t2 where t2.s['id'] is not null)",
    "a scalar subquery": "select t1.id, (select max(t2.id) from t2 where t2.s['id'] = t1.s['id']) m from t1",
    "a struct field of a derived table": "select q.k from (select s['k'] k from t1) q join t2 on q.k = t2.s['k']",
    "a semi join": "select t1.id from t1 left semi join t2 on t1.s['id'] = t2.s['id']",
}
JOINS = {
    "nested LATERAL": "select t1.id, l.m, n.o from t1 cross join lateral (select t2.id m from t2 where t2.id = t1.id) l"
    " cross join lateral (select t3.id o from t3 where t3.id = l.m) n",
    "LATERAL in LATERAL": "select t1.id, l.m from t1 join lateral (select t2.id m from t2 join lateral"
    " (select t3.id from t3 where t3.id = t2.id) n on true where t2.id = t1.id) l on true",
    "ON NULL below ON TRUE": "select t1.id, t2.id, t3.id from t1 join t2 on null right join t3 on true",
    "ON FALSE": "select t1.id, t2.id from t1 left join t2 on false",
    "ON FALSE below a constant filter": "select 1 as c from t1 left semi join t2 on false where t1.id = 1 and null",
    "a union with itself": "select id from t1 where id = 1 union all select id from t1 where id = 3",
    "a union with itself, distinct": "select id from t1 where id = 1 union select id from t1 where id = 3",
}
NAMES = {
    "capitals": 'select value from "T1" where value > 1',
    "a qualified name": 'select value from public."T1"',
    "a fully qualified name": "select value from datafusion.public.numbers",
    "two words": 'select value from "two words"',
    "two words, qualified": 'select value from public."two words" as t where t.value = 2',
    "a dot": 'select value from "dotted.name"',
    "a keyword": 'select "select".value from "select"',
    "a plain name in capitals": "select value from NUMBERS",
}
FUNCTIONS = {
    "LIKE of a dictionary": "select d like d from dictionary",
    "a comparison of a dictionary": "select d = 'a', d in ('a', 'c') from dictionary",
}
QUERIES = {**TYPES_MADE_ONE, **NESTED_FIELDS, **STRUCT_KEYS, **JOINS, **NAMES, **FUNCTIONS}
CONFIGURED = {
    "default": Settings(target_partitions=2),
    "unordered": Settings(ordered=False, target_partitions=2, batch_size=2, pause=0.03),
    "limited": Settings(target_partitions=4, memory_limit="200MB"),
}


def wrong_of(query: str, settings: Settings, tables: dict[str, pa.Table], ways: tuple[str, ...] = WAYS) -> list[str]:
    """Return how the answers to a query differ, over the tables that it names, for each way of feeding rows."""
    named = [
        Table(name, rows.schema, (tuple(rows.to_batches()),))
        for name, rows in tables.items()
        if name in query or name.upper() in query
    ]
    return [f"{way}: {wrong.words}" for way, wrong in check(named, Query(sql(query), ()), ways, settings)]


@pytest.mark.parametrize(
    "settings", [pytest.param(name, marks=pytest.mark.slow if name != "default" else ()) for name in CONFIGURED]
)
@pytest.mark.parametrize("query", QUERIES)
def test_a_session_answers_as_datafusion_does(query: str, settings: str) -> None:
    """S1, T9, T13: the same rows with the same types, or a refusal on both sides."""
    assert wrong_of(QUERIES[query], CONFIGURED[settings], TABLES) == []


DEEP = {
    "a struct in a struct": pa.array([{"a": {"b": n}} for n in range(500)], pa.struct([("a", INNER)])),
    "structs in a fixed-size list": pa.array([[{"b": n}, None] for n in range(500)], pa.list_(INNER, 2)),
    "structs in a list": pa.array([[{"b": n}] * (n % 3) for n in range(500)], pa.list_(INNER)),
    "structs in a map": pa.array([[("k", {"b": n})] for n in range(500)], pa.map_(pa.string(), INNER)),
}


IN_MEMORY = ("pull", "hinted", "push", "arrow", "stream", "dataset")


@pytest.mark.parametrize("query", ["select x from t where x % 1000 = 0", "select s, x from t where x > 69990"])
@pytest.mark.parametrize("kind", DEEP)
def test_a_large_batch_of_nested_columns_is_read(kind: str, query: str) -> None:
    """T13, P14: the engine gets it in slices."""
    column = pa.concat_arrays([DEEP[kind]] * 141).slice(0, 70_001)
    rows = pa.table({"s": column, "x": pa.array(range(70_001))})
    assert wrong_of(query, Settings(target_partitions=2), {"t": rows}, IN_MEMORY) == []


@pytest.mark.parametrize("kind", DEEP)
def test_a_slice_of_nested_columns_is_read(kind: str) -> None:
    """T13, P9: a slice is a batch like any other."""
    rows = pa.table({"s": DEEP[kind], "x": pa.array(range(500))}).slice(3, 7)
    assert wrong_of("select s, x from t", Settings(), {"t": rows}, IN_MEMORY) == []


@pytest.mark.parametrize("way", ["pull", "hinted", "dataset", "arrow"])
def test_a_union_over_one_table_is_answered_correctly_as_one_filter(way: str) -> None:
    """T9: with this setting, the engine makes one scan of it."""
    config = {"datafusion.optimizer.enable_unions_to_filter": True}
    query = "select id from t1 where id = 1 union select id from t1 where id = 3"
    table = Table("t1", LEFT.schema, (tuple(LEFT.to_batches()),))
    with SessionContext(config=config) as session:
        assert register(session, way, [table], Path()) is None
        assert sorted(session.sql(query).collect().read_all()["id"].to_pylist()) == [1, 3]


RUN_ENDS = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int16()), pa.array([5, 7]))
NOT_NULL = {
    "run ends": pa.array(RUN_ENDS),
    "a dictionary": pa.array(["a", "b", "a"]).dictionary_encode(),
    "a view": pa.array(["a", "b", "c"], pa.string_view()),
    "a list": pa.array([[1], [], [2, 3]]),
    "a struct": pa.array([{"b": 1}, {"b": 2}, {"b": 3}], INNER),
}


@pytest.mark.parametrize("query", ["select x from t", "select c from t", "select count(*) from t where x > 1"])
@pytest.mark.parametrize("kind", NOT_NULL)
def test_a_column_that_is_not_null_may_be_read_or_not(kind: str, query: str) -> None:
    """T11, T13: placeholder values replace a column that no operator reads."""
    column = NOT_NULL[kind]
    schema = pa.schema([pa.field("c", column.type, nullable=False), pa.field("x", pa.int64())])
    rows = pa.Table.from_arrays([column, pa.array([1, 2, 3])], schema=schema)
    assert wrong_of(query, Settings(), {"t": rows}, IN_MEMORY) == []


@pytest.fixture
def worker() -> Iterator[Worker]:
    with Worker() as worker:
        yield worker


def rows_of(query: str, read_only: bool) -> list[dict[str, Any]]:
    with SessionContext() as session:
        rows: list[dict[str, Any]] = session.sql(query, read_only=read_only).collect().read_all().to_pylist()
        return rows


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("query", ["select make_map() as m", "select map {} as m", "select map([], []) as m"])
def test_a_map_without_entries_does_not_end_the_process(worker: Worker, query: str, read_only: bool) -> None:
    """S1, S10: pyarrow aborts the process when it casts such a map."""
    assert worker.call(rows_of, query, read_only) == [{"m": []}]


FILE_QUERIES = {
    "its name": ("t", "select count(*) from t"),
    "a qualified name": ("t", "select count(*) from public.t"),
    "a fully qualified name": ("t", "select count(*) from datafusion.public.t"),
    "two words": ("two words", 'select count(*) from "two words"'),
    "two words, qualified": ("two words", 'select count(*) from public."two words"'),
    "capitals": ('"T1"', 'select count(*) from "T1"'),
    "a dot": ('"dotted.name"', 'select count(*) from "dotted.name"'),
    "a subquery": ("t", "select 1 where exists (select 1 from t)"),
    "a CTE": ("t", "with w as (select * from public.t) select * from w"),
    "CREATE TABLE": ("t", "create table u as select * from t"),
    "CREATE TABLE of a qualified name": ("t", "create table u as select * from public.t"),
    "a view": ("t", "select * from v"),
    "INSERT": ("t", "insert into w select * from t"),
}


@pytest.mark.parametrize("said", FILE_QUERIES)
def test_a_query_over_a_removed_file_raises_in_every_kind_of_query(said: str, tmp_path: Path) -> None:
    """S10, T9: the engine alone reads a removed file as an empty table."""
    name, query = FILE_QUERIES[said]
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(NUMBERS, path)
    with SessionContext() as session:
        session.register_parquet(name, path)
        if said == "a view":
            session.sql("create view v as select * from t").collect()
        if said == "INSERT":
            session.sql("create table w as select * from t").collect()
        path.unlink()
        with pytest.raises(StorageError):
            session.sql(query).collect().read_all()


def write_slowly(sink: Any, rows: pa.Table) -> None:
    with contextlib.suppress(ConsumerGoneError), sink:
        for batch in rows.to_batches(max_chunksize=2):
            # The sleep is the pause that the test is about; no thread waits for it.
            time.sleep(0.1)
            sink.write(batch)


SLOW = {
    "LIKE": "select d like d as c from t",
    "a comparison": "select d = 'a' as c from t",
    "a function": "select upper(d) as c from t",
    "a filter": "select d as c from t where d like d",
    "an array": "select make_array(d) as c from t",
    "a case": "select case when d = 'a' then 1 else 2.5 end as c from t",
}


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("said", SLOW)
def test_a_producer_that_pauses_changes_no_answer(said: str, ordered: bool) -> None:
    """S15, P14: a scan that waits returns batches without rows, which some functions do not accept."""
    with SessionContext(ordered=ordered) as session:
        session.register_arrow("u", DICTIONARY)
        expected = session.sql(SLOW[said].replace("from t", "from u")).collect().read_all()
        sink = session.register_streaming_table("t", DICTIONARY.schema)
        producer = threading.Thread(target=write_slowly, args=(sink, DICTIONARY))
        producer.start()
        try:
            answer = session.sql(SLOW[said]).collect().read_all()
        finally:
            session.deregister_table("t")
            producer.join()
        assert answer.schema == expected.schema
        assert Counter(map(str, answer["c"])) == Counter(map(str, expected["c"]))


TWICE = {
    "a self-join": "select * from t a join t b on a.value = b.value",
    "a union": "select * from t union all select * from t",
    "a CTE read twice": "with w as (select * from t) select * from w a join w b on a.value = b.value",
    "a subquery": "select * from t where value in (select value from t)",
}


@pytest.mark.parametrize("said", TWICE)
def test_the_refusal_of_a_first_query_that_scans_a_push_table_twice_says_so(said: str) -> None:
    """P6: the table was not consumed before, and the message does not claim that it was."""
    with SessionContext() as session:
        sink = session.register_streaming_table("t", NUMBERS.schema)
        with pytest.raises(ConsumedError, match="scanned twice in this query"):
            session.sql(TWICE[said]).collect().read_all()
        sink.close()


@pytest.mark.parametrize("step", ["join t on t.value = w.n", "cross join t"])
def test_a_push_table_in_each_step_of_a_recursive_query_is_refused(step: str) -> None:
    """P6: each step scans it."""
    query = f"with recursive w as (select 1 as n union all select w.n + 1 from w {step} where w.n < 3) select * from w"
    with SessionContext() as session:
        sink = session.register_streaming_table("t", NUMBERS.schema)
        sink.write(NUMBERS.to_batches()[0])
        sink.close()
        with pytest.raises(ConsumedError):
            session.sql(query).collect().read_all()


def pulled(session: SessionContext, name: str) -> None:
    session.register_table(name, SimpleTableProvider(NUMBERS.schema, lambda: NUMBERS))


REGISTER: dict[str, Callable[[SessionContext, str], None]] = {
    "pull": pulled,
    "arrow": lambda session, name: session.register_arrow(name, NUMBERS),
    "push": lambda session, name: session.register_streaming_table(name, NUMBERS.schema).close(),
}


SAID = {
    "T1": "t1",
    '"T1"': '"T1"',
    "two words": '"two words"',
    '"a.b"': '"a.b"',
    'a"b': '"a""b"',
    "public.t": "t",
    "datafusion.public.t": "public.t",
    "größe": '"größe"',
    "select": '"select"',
}


@pytest.mark.parametrize("way", REGISTER)
@pytest.mark.parametrize("name", SAID)
def test_a_table_is_found_by_the_name_it_was_registered_with(name: str, way: str) -> None:
    """T12, P9: a name is parsed as SQL parses it."""
    with SessionContext() as session:
        REGISTER[way](session, name)
        assert session.table_exists(name)
        session.sql(f"select value from {SAID[name]}").collect().read_all()
        session.deregister_table(name)
        assert not session.table_exists(name)
