"""Random predicates and random queries: a provider returns the rows that a table in memory returns."""

import datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.dataset
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from providers import Honouring, scanning

import headrace
from headrace import SessionContext

NAN = float("nan")
NUMBERS = [None, -1, 0, 1, 2, 3]
REALS = [None, NAN, -0.0, 0.0, 1.5, float("inf"), float("-inf")]
WORDS = [None, "", "a", "ab", "b", "B"]
FLAGS = [None, True, False]
PRICES = [None, Decimal("0.00"), Decimal("1.50"), Decimal("-1.00")]
DAYS = [None, datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), datetime.datetime(2024, 7, 1, tzinfo=datetime.UTC)]


def _rows():
    # Each column has its own period, so that most combinations of values occur in some row.
    columns = {
        "i": (NUMBERS, pa.int64()),
        "f": (REALS, pa.float64()),
        "s": (WORDS, pa.string()),
        "b": (FLAGS, pa.bool_()),
        "d": (PRICES, pa.decimal128(6, 2)),
        "t": (DAYS, pa.timestamp("us", "Europe/Paris")),
    }
    table = {"id": pa.array(range(84), pa.int64())}
    for step, (name, (values, kind)) in enumerate(columns.items(), start=1):
        table[name] = pa.array([values[(row // step) % len(values)] for row in range(84)], kind)
    return pa.table(table)


ROWS = _rows()
LITERALS = {
    "i": ["-1", "0", "1", "2", "3", "9", "1.5", "null"],
    "f": ["0.0", "-0.0", "1.5", "'nan'::double", "'inf'::double", "1", "null"],
    "s": ["''", "'a'", "'ab'", "'b'", "'zz'", "null"],
    "d": ["0", "1.5", "1.50::decimal(6,2)", "-1", "null"],
    "t": ["'2024-01-01T00:00:00Z'::timestamptz", "'2024-03-01T00:00:00Z'::timestamptz", "null"],
}
OPERATORS = ["=", "<>", "<", "<=", ">", ">=", "is distinct from", "is not distinct from"]

columns = st.sampled_from(sorted(LITERALS))


@st.composite
def comparisons(draw):
    column = draw(columns)
    literal = st.sampled_from(LITERALS[column])
    negated = draw(st.sampled_from(["", "not "]))
    match draw(st.sampled_from(["compare", "mirrored", "in", "between", "null", "column", "like", "flag", "case"])):
        case "compare":
            return f"{column} {draw(st.sampled_from(OPERATORS))} {draw(literal)}"
        case "mirrored":
            return f"{draw(literal)} {draw(st.sampled_from(OPERATORS))} {column}"
        case "in":
            return f"{column} {negated}in ({', '.join(draw(st.lists(literal, min_size=1, max_size=6)))})"
        case "between":
            return f"{column} {negated}between {draw(literal)} and {draw(literal)}"
        case "null":
            return f"{column} is {negated}null"
        case "column":
            return f"{column} {draw(st.sampled_from(OPERATORS))} {column}"
        case "like":
            return f"s {negated}like {draw(st.sampled_from(['a%', '%b', '_', '', '%']))!r}"
        case "flag":
            return draw(st.sampled_from(["b", "b is true", "b is not false", "b is unknown", "b = true", "b <> true"]))
        case _:
            return f"case when {column} = {draw(literal)} then b when i > 1 then {column} is null else i = 0 end"


def combined(inner):
    return st.one_of(
        st.builds("({} and {})".format, inner, inner),
        st.builds("({} or {})".format, inner, inner),
        st.builds("(not {})".format, inner),
        st.builds("(({}) is not true)".format, inner),
        st.builds("(({}) is null)".format, inner),
    )


predicates = st.recursive(st.builds("({})".format, comparisons()), combined, max_leaves=6)
shapes = st.sampled_from(
    [
        "select id from {t} where P",
        "select id from {t} where P union all select id from {t} where Q",
        "select id from {t} where P intersect select id from {t} where Q",
        "select id from {t} where P except select id from {t} where Q",
        "select id, (select count(*) from {t} where P) as n from {t} where Q",
        "select id from {t} where P and (select count(*) from {t} where Q) > 20",
        "select id from {t} where P and i <= (select max(i) from {t})",
        "select id from {t} where P or id in (select id + 1 from {t} where Q)",
        "select id from {t} where P and id not in (select id from {t} where Q)",
        "select id from {t} x where P and exists (select 1 from {t} y where y.id = x.id + 1 and Q)",
        "select x.id, y.id from {t} x join {t} y on x.id = y.id + 1 where x.i = 1 and y.i in (0, 1, 2, 3)",
        "select x.id, y.id from (select * from {t} where P) x left join (select * from {t} where Q) y on x.id = y.id",
        "select i, count(*) from {t} where P group by i having count(*) > 1",
        "select id from (select id, s, b, i, f, d, t from {t} where P) where Q",
        "select count(*) from (select id from {t} where P limit 5)",
        "select id from (select * from {t} order by id limit 30) where P",
        "select id from (select * from {t} order by id offset 40) where P",
        "select count(*) as n, (select count(*) from (select 1 from {t} limit 7)) as m from (select 1 from {t})",
        "with c as (select * from {t} where P) select id from c where Q union all select id from c",
    ]
)


def examples(count):
    # The same examples every time, so that a failure can be repeated.
    return settings(
        max_examples=count, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
    )


@pytest.fixture(scope="module")
def ctx():
    with SessionContext() as session:
        session.register_arrow("memory", ROWS)
        session.register_table("ignoring", scanning(lambda: ROWS.to_batches(max_chunksize=25), ROWS.schema))
        session.register_table("honouring", Honouring(ROWS))
        session.register_arrow("dataset", pyarrow.dataset.dataset(ROWS))
        yield session


def outcome(ctx, query, table):
    try:
        result = ctx.sql(query.replace("{t}", table)).collect().read_all()
    except headrace.PlanError:
        return "cannot be planned"
    return sorted(zip(*(column.to_pylist() for column in result.columns), strict=True), key=repr)


@pytest.mark.parametrize("count", [60, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["ignoring", "honouring", "dataset"])
def test_any_predicate_returns_the_rows_that_it_returns_in_memory(ctx, kind, count):
    """T9, T11: for a provider that ignores filters and for one that uses every filter it gets."""

    @examples(count)
    @given(predicates)
    def check(predicate):
        query = f"select id from {{t}} where {predicate}"
        assert outcome(ctx, query, kind) == outcome(ctx, query, "memory")

    check()


@pytest.mark.parametrize("count", [60, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["ignoring", "honouring", "dataset"])
def test_any_two_predicates_in_one_query_return_the_rows_that_they_return_in_memory(ctx, kind, count):
    """T9, T11: a table scanned twice with different filters and limits gets no hint that would change its rows."""

    @examples(count)
    @given(shapes, predicates, predicates)
    def check(shape, first, second):
        query = shape.replace("P", first).replace("Q", second)
        assert outcome(ctx, query, kind) == outcome(ctx, query, "memory")

    check()
