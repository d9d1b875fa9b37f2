"""SQL text: names of tables, bound parameters, statements that change things, and a session that refuses them."""

import datetime
from decimal import Decimal

import datafusion
import pyarrow as pa
import pytest
from providers import DEADLINE, Provider, Reader, in_time, raising, scanning
from providers import rows as numbered

import headrace
from headrace import SessionContext
from support.lance_tables import create_table

ROWS = pa.table({"x": pa.array(range(10), pa.int64()), "s": [f"r{i}" for i in range(10)]})


@pytest.fixture
def ctx():
    with SessionContext() as session:
        session.register_arrow("t", ROWS)
        session.register_table("p", scanning(lambda: ROWS, ROWS.schema))
        yield session


def rows(ctx, query, parameters=None, **options):
    return ctx.sql(query, parameters, **options).collect().read_all().to_pylist()


def public_tables(ctx):
    shown = rows(ctx, "show tables")
    return sorted(row["table_name"] for row in shown if row["table_schema"] == "public")


# -- names ----------------------------------------------------------------------------------------------

ODD_NAMES = [
    "two words",
    "a..b",
    "a.b.c.d",
    'say "hi"',
    "it's",
    "1st",
    "select",
    "with-dash",
    "Übung",
    "日本",
    "MiXeD case",
    ".",
    '"',
    "-- comment",
    "information_schema",
    "x" * 300,
]


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


@pytest.mark.parametrize("name", ["Orders", "ORDERS", "orders", "oRDERS_2"])
def test_a_plain_name_means_the_same_in_any_case(ctx, name):
    """T12: as in SQL; table_exists, duplicates and deregistering included."""
    ctx.register_table(name, Provider())
    for spelling in (name, name.lower(), name.upper(), name.title()):
        assert ctx.table_exists(spelling)
        assert len(rows(ctx, f"select * from {spelling}")) == 6
        with pytest.raises(headrace.TableExistsError):
            ctx.register_arrow(spelling, ROWS)
    assert name.lower() in public_tables(ctx)
    ctx.deregister_table(name.swapcase())
    assert not ctx.table_exists(name)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_any_other_name_is_taken_to_the_letter_and_quoted_in_sql(ctx, name, tmp_path):
    """T12: spaces, dots, quotes, keywords, for every kind of table."""
    uri = str(tmp_path / "t.lance")
    create_table(uri, ROWS)

    def push():
        with ctx.register_streaming_table(name, ROWS.schema) as sink:
            sink.write(ROWS)

    kinds = [
        lambda: ctx.register_table(name, scanning(lambda: ROWS, ROWS.schema)),
        lambda: ctx.register_arrow(name, ROWS),
        lambda: ctx.register_lance(name, uri),
        push,
    ]
    for register in kinds:
        register()
        assert ctx.table_exists(name)
        assert name in public_tables(ctx)
        with pytest.raises(headrace.TableExistsError):
            ctx.register_arrow(name, ROWS)
        assert rows(ctx, f"select count(*) as n from {quoted(name)} where x > 3") == [{"n": 6}]
        ctx.deregister_table(name)
        assert not ctx.table_exists(name)


NAMES = {
    "T1": ("public", "t1"),
    '"T1"': ("public", "T1"),
    "`T1`": ("public", "T1"),
    " padded ": ("public", "padded"),
    "sales.Orders": ("sales", "orders"),
    'Sales."Orders"': ("sales", "Orders"),
    "datafusion.sales.orders": ("sales", "orders"),
    '"sales.orders"': ("public", "sales.orders"),
    '"say ""hi"""': ("public", 'say "hi"'),
    "two words.x": ("public", "two words.x"),
    "ÄÖ": ("public", "ÄÖ"),
}


@pytest.mark.parametrize(("name", "place"), NAMES.items(), ids=NAMES)
def test_a_name_is_read_as_the_engine_reads_it(ctx, name, place):
    """T12: case, quotes and schemas; what plain DataFusion makes of the same text, for every kind of table."""
    plain = datafusion.SessionContext()
    plain.sql("create schema sales")
    plain.register_record_batches(name, [ROWS.to_batches()])
    schema, table = place
    assert table in plain.catalog().schema(schema).table_names()
    ctx.sql("create schema sales")
    for register in (
        lambda: ctx.register_table(name, scanning(lambda: ROWS, ROWS.schema)),
        lambda: ctx.register_arrow(name, ROWS),
        lambda: ctx.register_streaming_table(name, ROWS.schema).close(),
    ):
        register()
        assert ctx.table_exists(name)
        assert ctx.sql(f'select * from datafusion."{schema}".{quoted(table)}').schema() == ROWS.schema
        with pytest.raises(headrace.TableExistsError):
            ctx.register_arrow(name, ROWS)
        ctx.deregister_table(name)
        assert not ctx.table_exists(name)


def test_a_schema_that_does_not_exist_is_refused_with_both_ways_out(ctx):
    """T12: nothing is registered; the error says how to make the schema and how to quote a dot."""
    with pytest.raises(headrace.InvalidArgumentError, match="no schema 'sales'") as caught:
        ctx.register_arrow("sales.orders", ROWS)
    assert "CREATE SCHEMA sales" in str(caught.value)
    assert "'\"sales.orders\"'" in str(caught.value)
    assert not ctx.table_exists("sales.orders")
    assert not ctx.table_exists('"sales.orders"')


def test_names_with_capitals_and_more_are_different_from_their_lower_case(ctx):
    """T12: to the letter means both can exist side by side."""
    ctx.register_arrow("My Table", ROWS)
    ctx.register_arrow("my table", ROWS.slice(0, 3))
    assert (ctx.table("My Table").count(), ctx.table("my table").count()) == (10, 3)
    with pytest.raises(headrace.PlanError, match="MY TABLE"):
        ctx.table("MY TABLE")


def test_show_tables_and_describe_name_the_users_tables_and_nothing_else(ctx):
    """T12: every kind of table is shown under its own name; what deregistering removes is not."""
    sink = ctx.register_streaming_table("pushed", ROWS.schema)
    ctx.register_table("odd name", Provider())
    ctx.sql("create view seen as select 1 as one")
    assert public_tables(ctx) == ["odd name", "p", "pushed", "seen", "t"]
    assert [row["column_name"] for row in rows(ctx, 'describe "odd name"')] == ["x", "s"]
    ctx.deregister_table("odd name")
    ctx.deregister_table("pushed")
    sink.close()
    assert public_tables(ctx) == ["p", "seen", "t"]


# -- parameters -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["t", "p"])
@pytest.mark.parametrize(
    ("condition", "parameters"),
    [
        ("x = $x", {"x": 3}),
        ("x = $x", {"$x": 3}),
        ("x = $1", [3]),
        ("x = $1", (3,)),
        ("x = $2 and s = $1", ["r3", 3]),
        ("x = $a and s = $b", {"b": "r3", "a": 3}),
        ("x in ($1, $2) and s = $3", [3, 4, "r3"]),
        ("x = $x + $x - $x", {"x": 3}),
        ("s = concat('r', $n)", {"n": "3"}),
        ("x = $1", [pa.scalar(3, pa.int8())]),
    ],
)
def test_parameters_are_bound_by_name_and_by_position(ctx, table, condition, parameters):
    """T9: over a provider as over a table in memory."""
    assert rows(ctx, f"select x, s from {table} where {condition}", parameters) == [{"x": 3, "s": "r3"}]


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        1.5,
        "text",
        "",
        b"\x00bytes",
        Decimal("12.50"),
        datetime.date(2024, 2, 29),
        datetime.time(1, 2, 3),
        datetime.datetime(2024, 2, 29, 12, 30),
        datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.UTC),
        datetime.timedelta(days=1, seconds=2),
        [1, 2, None],
        {"a": 1, "b": "x"},
    ],
    ids=repr,
)
def test_a_parameter_of_any_kind_comes_back_as_it_was_given(ctx, value):
    """T13: values are bound with their types."""
    assert rows(ctx, "select $v as v", {"v": value}) == [{"v": value}]


@pytest.mark.parametrize("table", ["t", "p"])
@pytest.mark.parametrize(
    "text", ["r1' or '1'='1", "'; drop table t; --", "$x", "r1'; select 1", '"t"', "\\' or true --", "%", "r1\x00"]
)
def test_a_value_is_never_read_as_sql(ctx, table, text):
    """T9: an attempt at injection finds no row, and comes back to the letter."""
    assert rows(ctx, f"select x from {table} where s = $s", {"s": text}) == []
    assert rows(ctx, f"select x from {table} where s = $1", [text]) == []
    assert rows(ctx, "select $x as v", {"x": text}) == [{"v": text}]
    assert ctx.table_exists("t")


def test_a_placeholder_inside_quotes_is_text(ctx):
    """T9: only placeholders are replaced."""
    assert rows(ctx, "select $a as v, '$a' as w", {"a": "z"}) == [{"v": "z", "w": "$a"}]


@pytest.mark.parametrize(
    "parameters",
    [None, {}, [], {"other": 1}, [1]],
    ids=["none", "no mapping", "no sequence", "another name", "another"],
)
def test_a_placeholder_without_value_is_an_error_that_names_it(ctx, parameters):
    """T9: never a null in its place."""
    with pytest.raises(headrace.HeadraceError, match=r"\$least"):
        rows(ctx, "select x from t where x > $least", parameters)


@pytest.mark.parametrize("parameters", ["abc", 5, b"x", {1, 2}], ids=repr)
def test_parameters_must_be_a_mapping_or_a_sequence(ctx, parameters):
    """A string is a sequence of letters and surely a mistake."""
    with pytest.raises(headrace.InvalidArgumentError, match="mapping or a sequence"):
        ctx.sql("select $1", parameters)


@pytest.mark.parametrize("value", [object(), 2**70, ROWS], ids=["object", "too large", "table"])
def test_a_value_that_cannot_be_bound_is_refused(ctx, value):
    """With an error of ours, before anything runs."""
    with pytest.raises(headrace.HeadraceError):
        ctx.sql("select $1 as v", [value])


@pytest.mark.parametrize("query", [None, "", "  ", 5, b"select 1"], ids=repr)
def test_a_query_must_be_text(ctx, query):
    """T6: refused before the engine sees it."""
    with pytest.raises(headrace.InvalidArgumentError, match="query must be SQL text"):
        ctx.sql(query)


# -- statements -----------------------------------------------------------------------------------------

CHANGES = [
    "create table made as select 1",
    "create view made as select 1",
    "create schema made",
    "create database made",
    "create external table made stored as csv location '{folder}/made.csv'",
    "drop table t",
    "drop view if exists p",
    "insert into t values (1, 'a')",
    "update t set x = 1",
    "delete from t",
    "truncate table t",
    "copy t to '{folder}/made.parquet'",
    "explain analyze copy t to '{folder}/made.parquet'",
    "explain analyze insert into t values (1, 'a')",
    "set datafusion.execution.batch_size = 1",
    "reset datafusion.execution.batch_size",
    "prepare made as select 1",
    "execute made(1)",
    "deallocate made",
    "begin",
    "select 1; drop table t",
]


@pytest.mark.parametrize("statement", CHANGES)
def test_read_only_refuses_everything_that_changes_something(ctx, statement, tmp_path):
    """T9: DDL, DML and statements, also behind EXPLAIN and after a semicolon; nothing has changed."""
    before = rows(ctx, "show all")
    with pytest.raises(headrace.PlanError):
        ctx.sql(statement.format(folder=tmp_path), read_only=True).collect()
    assert rows(ctx, "show all") == before
    assert public_tables(ctx) == ["p", "t"]
    assert ctx.table("t").count() == ctx.table("p").count() == 10
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "query",
    [
        "select * from t",
        "with a as (select * from p) select * from a where x > $1",
        "explain select * from p",
        "show tables",
        "describe t",
        "values (1), (2)",
    ],
)
def test_read_only_allows_everything_that_reads(ctx, query):
    """T9: with parameters too."""
    assert rows(ctx, query, [3] if "$1" in query else None, read_only=True)


def test_a_path_is_no_table(ctx, tmp_path):
    """SQL from outside reads no file that was not registered."""
    (tmp_path / "t.csv").write_text("x\n1\n")
    for options in ({}, {"read_only": True}):
        with pytest.raises(headrace.PlanError, match="not found"):
            ctx.sql(f"select * from '{tmp_path}/t.csv'", **options)


def test_a_table_created_from_a_pull_table_holds_its_rows(ctx):
    """T2: CREATE TABLE AS SELECT scans once, in the call to sql(); reading the copy scans nothing."""
    provider = Provider()
    ctx.register_table("pulled", provider)
    ctx.sql("create table made as select x, s from pulled where x > 1")
    assert len(provider.readers) == 1
    assert provider.readers[0].closes_in_the_end() == 1
    assert ctx.table("made").count() == ctx.table("made").count() == 4
    assert len(provider.readers) == 1
    ctx.deregister_table("made")
    assert not ctx.table_exists("made")


def test_a_table_created_from_a_push_table_holds_its_rows_and_has_used_it_up(ctx):
    """P6: the one scan is the copy's; the copy can be read again and again."""
    with ctx.register_streaming_table("pushed", ROWS.schema) as sink:
        sink.write(ROWS)
        sink.write(ROWS)
    in_time(lambda: ctx.sql("create table made as select x from pushed where x < 5"))
    assert ctx.table("made").count() == ctx.table("made").count() == 10
    with pytest.raises(headrace.ConsumedError, match="'pushed'"):
        ctx.table("pushed").count()


def test_a_provider_that_fails_a_create_table_is_named_and_nothing_is_created(ctx):
    """T5: the error of sql() is that of the table, the original as __cause__."""
    error = ValueError("boom")
    ctx.register_table("broken", raising(error))
    with pytest.raises(headrace.TableError, match="'broken' failed: ValueError: boom") as caught:
        in_time(lambda: ctx.sql("create table made as select * from broken"))
    assert caught.value.__cause__ is error
    assert not ctx.table_exists("made")


def test_rows_of_a_pull_table_can_be_inserted_into_a_table_in_memory(ctx):
    """T2, T4: INSERT ... SELECT runs when the frame is executed, scans once and closes once."""
    provider = Provider(lambda: [numbered(100), numbered(103)])
    ctx.register_table("pulled", provider)
    frame = ctx.sql("insert into t select x, s from pulled")
    assert provider.readers == []
    assert rows(ctx, "select count(*) as n from t") == [{"n": 10}]
    frame.collect()
    assert rows(ctx, "select count(*) as n, max(x) as m from t") == [{"n": 16, "m": 105}]
    assert [reader.closes_in_the_end() for reader in provider.readers] == [1]


def test_a_view_over_a_pull_table_scans_it_for_every_query(ctx):
    """T2: a view is a name for a query."""
    provider = Provider()
    ctx.register_table("pulled", provider)
    ctx.sql("create view seen as select x + 1 as y from pulled where x > 1")
    assert provider.readers == []
    for _ in range(2):
        assert rows(ctx, "select sum(y) as n from seen where y < 6") == [{"n": 3 + 4 + 5}]
    assert len(provider.readers) == 2


@pytest.mark.parametrize(("kind", "statement"), [("pull", "view"), ("push", "view"), ("arrow", "table")])
def test_drop_is_deregistering(ctx, kind, statement):
    """T12, P8: DROP removes a table of any kind, and tells the writers of a push table."""
    if kind == "pull":
        ctx.register_table("gone", scanning(lambda: Reader([numbered(0)])))
    elif kind == "arrow":
        ctx.register_arrow("gone", ROWS)
    else:
        sink = ctx.register_streaming_table("gone", ROWS.schema, capacity=1)
        sink.write(ROWS)
    ctx.sql(f"drop {statement} gone").collect()
    assert not ctx.table_exists("gone")
    if kind == "push":
        with pytest.raises(headrace.ConsumerGoneError):
            sink.write(ROWS, timeout=DEADLINE)
        sink.close()
    ctx.register_arrow("gone", ROWS)
    assert ctx.table("gone").count() == 10
