"""How queries over Python tables are planned: with the session's settings and memory, and with SQL's filters."""

import pyarrow as pa
import pytest
from providers import scanning

import headrace
from headrace import SessionContext

NAN = float("nan")
ROWS = pa.table({"id": [1, 2, 3, None], "up": [1, 2, 3, None], "x": [1.0, NAN, -0.0, None]})
# Queries that the optimiser cannot decorrelate over views.
NESTED_LATERAL = (
    "select a.id, l.inner_id, l.m from {t}1 a, lateral (select b.id as inner_id, n.id as m from {t}2 as b, lateral "
    "(select {t}3.id from {t}3 where {t}3.up = b.id) as n where b.up = a.id) as l"
)


def plans(session, query):
    return session.sql(query).explain()


@pytest.fixture
def session():
    with SessionContext(target_partitions=2) as session:
        session.register_table("t", scanning(lambda: ROWS, ROWS.schema))
        for number in (1, 2, 3):
            session.register_table(f"t{number}", scanning(lambda: ROWS, ROWS.schema))
            session.register_arrow(f"memory{number}", ROWS)
        yield session


def answers(session, query):
    """Return the rows of a query over Python tables, and over the same rows in memory."""
    tables = [session.sql(query.replace("{t}", name)).collect().read_all() for name in ("t", "memory")]
    return [sorted(map(str, table.to_pylist())) for table in tables]


def test_a_setting_changed_by_sql_applies_to_queries_over_python_tables(session):
    """T9: such queries are planned in a separate context, a copy of the session's current one."""
    session.sql("set datafusion.execution.target_partitions = 7").collect()
    assert "partitioning=Hash([x@0], 7)" in plans(session, "select x, count(*) from t group by x")


def test_tables_created_by_sql_after_a_query_are_known_to_the_next_query(session):
    """T9: the copy of the context has the tables too."""
    session.sql("create table u as select id + 1 as id from t").collect()
    assert session.sql("select t.id from t join u on t.id = u.id").count() == 2


def test_queries_over_python_tables_share_the_sessions_memory_limit():
    """S10: all contexts share one memory pool."""
    rows = pa.table({"x": range(400_000)})
    with SessionContext(memory_limit="2MB", spill=False, target_partitions=1) as session:
        session.register_table("t", scanning(lambda: rows, rows.schema))
        with pytest.raises(headrace.ResourcesExhaustedError):
            session.sql("select x, count(*) from t group by x order by 2").collect()


def test_nested_correlated_queries_return_the_rows_that_they_return_in_memory(session):
    """T9: the same rows as over a table in memory."""
    ours, in_memory = answers(session, NESTED_LATERAL)
    assert ours == in_memory
    assert len(ours) == 3


@pytest.mark.parametrize("condition", ["a.x > 1", "a.id not in (2, 3)", "a.x = 0", "a.x <> 5", "not (a.id > 1)"])
def test_filters_of_nested_correlated_queries_have_sqls_meaning(session, condition):
    """T9: pyarrow filters nothing; NaN, NOT IN and the two zeros mean something else to it."""
    ours, in_memory = answers(session, f"{NESTED_LATERAL} where {condition}")
    assert ours == in_memory


def test_a_frame_derived_from_a_nested_correlated_query_is_planned_like_it(session):
    """T9: filters, unions and limits that are added later."""
    frame = session.sql(NESTED_LATERAL.replace("{t}", "t"))
    assert frame.filter("id not in (1)").union(session.sql("select id, id as inner_id, id as m from t")).count() == 6
    assert frame.filter("inner_id > 1").limit(1).count() == 1
    assert "Join" in frame.explain()


@pytest.mark.parametrize("made", ["table", "view"])
def test_a_nested_correlated_query_over_python_tables_cannot_create_a_table_or_view(session, made):
    """T9: its conditions would be lost there; over tables in memory it can."""
    with pytest.raises(headrace.PlanError, match="LATERAL") as caught:
        session.sql(f"create {made} u as {NESTED_LATERAL.replace('{t}', 't')}")
    assert "run the SELECT by itself" in str(caught.value)
    assert not session.table_exists("u")
    session.sql(f"create {made} u as {NESTED_LATERAL.replace('{t}', 'memory')}").collect()
    assert session.sql("select * from u").count() == 3


def test_a_view_inside_a_nested_correlated_query_is_refused(session):
    """T9: a view of Python tables cannot be planned over plain columns."""
    session.sql("create view t3_seen as select id, up from t3").collect()
    query = NESTED_LATERAL.replace("{t}3", "t3_seen").replace("{t}", "t")
    with pytest.raises(headrace.PlanError, match="LATERAL"):
        session.sql(query)


def test_the_schema_before_the_first_batch_is_the_schema_of_the_batches(session):
    """S1: the types after coercion, for frames and readers alike."""
    frame = session.sql("select id as a from t union all select 2.5 union all select null")
    schema = frame.schema()
    with frame.execute_stream() as reader:
        assert reader.schema == schema
        assert schema.field("a").type == pa.float64()
        assert {batch.schema.field("a").type for batch in reader} == {pa.float64()}


def test_a_file_cannot_be_named_by_its_path(session, tmp_path):
    """T9: not even in a statement that creates a table from rows of Python tables."""
    path = tmp_path / "rows.csv"
    path.write_text("a\n1\n")
    for statement in (
        f"select * from '{path}'",
        f"create table u as select f.* from t, '{path}' f",
        f"create table u as select id from t where id in (select a from '{path}')",
    ):
        with pytest.raises(headrace.PlanError, match="not found"):
            session.sql(statement)
    assert not session.table_exists("u")
