"""What a provider gets: columns, a filter, a limit, a partition; and no hint that would change rows."""

import pyarrow as pa
import pyarrow.dataset
import pytest
from providers import Honouring, scanning

import headrace
from headrace import ScanRequest, SessionContext

TABLE = pa.table(
    {
        "x": pa.array([None if i % 7 == 3 else i for i in range(200)], pa.int64()),
        "y": pa.array([i % 5 for i in range(200)], pa.int64()),
        "s": [f"r{i}" for i in range(200)],
        "f": pa.array([i / 4 for i in range(200)]),
    }
)
X, Y, S = (pyarrow.dataset.field(name) for name in "xys")


class Asked(Honouring):
    """Records its requests and returns the whole table: a request is a hint."""

    def scan_with(self, request):
        self.requests.append(request)
        return self._table


@pytest.fixture
def ctx():
    with SessionContext() as session:
        session.register_arrow("memory", TABLE)
        yield session


@pytest.fixture
def asked(ctx):
    provider = Asked(TABLE)
    ctx.register_table("t", provider)
    return provider


@pytest.fixture
def honouring(ctx):
    provider = Honouring(TABLE)
    ctx.register_table("t", provider)
    return provider


def values(ctx, query, table="t"):
    result = ctx.sql(query.replace("{t}", table)).collect().read_all()
    return sorted(zip(*(column.to_pylist() for column in result.columns), strict=True), key=repr)


# -- columns --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("select * from t", {"x", "y", "s", "f"}),
        ("select s from t", {"s"}),
        ("select s, x from t", {"x", "s"}),
        ("select s from t where x > 1", {"x", "s"}),
        ("select max(y) from t", {"y"}),
        ("select count(*) from t where y = 1", {"y"}),
        ("select s from (select * from t) order by y", {"y", "s"}),
    ],
)
def test_a_provider_gets_the_columns_that_the_query_reads(ctx, asked, query, columns):
    """T11: the projection."""
    values(ctx, query)
    [request] = asked.requests
    assert isinstance(request, ScanRequest)
    assert set(request.columns) == columns
    assert len(request.columns) == len(columns)


@pytest.mark.parametrize("query", ["select count(*) from {t}", "select 1 from {t}", "select count(*) from {t}, {t} u"])
def test_columns_are_never_empty_and_the_row_count_is_kept(ctx, honouring, query):
    """T11, T8: if only the number of rows matters, one column is requested."""
    assert values(ctx, query) == values(ctx, query, "memory")
    for request in honouring.requests:
        assert len(request.columns) == 1
        assert request.columns[0] in TABLE.schema.names


@pytest.mark.parametrize("answer", ["full", "projected"])
@pytest.mark.parametrize(
    "query", ["select s from {t} where x > 190", "select f, x from {t}", "select count(*) from {t}"]
)
def test_a_reader_may_have_all_columns_or_exactly_the_requested_ones(ctx, answer, query):
    """T11: both full and projected schemas are accepted."""

    class Either(Asked):
        def scan_with(self, request):
            return self._table if answer == "full" else self._table.select(request.columns)

    ctx.register_table("t", Either(TABLE))
    assert values(ctx, query) == values(ctx, query, "memory")


@pytest.mark.parametrize(
    "columns",
    [["x", "s"], ["y"], ["s", "x", "y"], ["x", "y", "s"]],
    ids=["another order", "one short", "one more", "neither"],
)
def test_a_reader_with_other_columns_than_requested_fails_the_query(ctx, columns):
    """T11, T3: a projected schema has the requested columns in the requested order."""

    class Stubborn(Asked):
        def scan_with(self, request):
            return self._table.select(columns)

    ctx.register_table("t", Stubborn(TABLE))
    with pytest.raises(headrace.TableError, match=r"'t'.*Table: \(x int64, y int64, s string, f double\); given: \("):
        ctx.sql("select s, y from t where s <> '' and y > 0").collect()


def test_columns_with_unusual_names_are_requested_by_their_names(ctx):
    """T11: dots, spaces, quotes and capitals in column names."""
    names = ["a.b", "A b", 'q"q', "Upper", "é", "row", "_row", "select", "*", "t"]
    table = pa.table({name: list(range(10)) for name in names})
    provider = Honouring(table)
    ctx.register_table("t", provider)
    ctx.register_arrow("odd", table)
    for name in names:
        quoted = '"' + name.replace('"', '""') + '"'
        query = f"select {quoted} from {{t}} where {quoted} > 6"
        assert values(ctx, query) == values(ctx, query, "odd") == [(7,), (8,), (9,)]
        request = provider.requests[-1]
        assert request.columns == (name,)
        assert request.filter.equals(pyarrow.dataset.field(name) > 6)


# -- filters --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "handed"),
    [
        ("x > 3", X > 3),
        ("3 < x", X > 3),
        ("x = 3", X == 3),
        ("not x = 3", X != 3),
        ("s = 'r1'", S == "r1"),
        ("x is null", X.is_null()),
        ("x is not null", X.is_valid()),
        ("x between 3 and 5", (X >= 3) & (X <= 5)),
        ("x > 3 and y = 1", (X > 3) & (Y == 1)),
        ("x = 3 or y = 1", (X == 3) | (Y == 1)),
        ("x in (1, 2, 3, 4, 5)", X.isin([1, 2, 3, 4, 5])),
        ("x > 3 and s like '%1'", X > 3),
        ("x > 3 and f > 1.5", X > 3),
        ("x > 3 and y not in (1, 2, 3, 4)", X > 3),
        ("x > 3 and x <> f", X > 3),
        ("x > 3 and (y = 1 or abs(y) = 2)", X > 3),
    ],
)
def test_a_provider_gets_the_part_of_a_filter_that_pyarrow_can_express(ctx, asked, condition, handed):
    """T11: the filter as an expression; of conditions joined by AND, those that pyarrow can express."""
    query = f"select x, y, s from {{t}} where {condition}"
    assert values(ctx, query) == values(ctx, query, "memory")
    [request] = asked.requests
    assert request.filter is not None
    mine, theirs = (TABLE.filter(expression) for expression in (handed, request.filter))
    assert theirs.equals(mine)


@pytest.mark.parametrize(
    "condition",
    [
        "s like 'r1%'",
        "abs(x) = 1",
        "f > 1.5",
        "f = 1.5 or x = 1",
        "x not in (1, 2, 3, 4, 5)",
        "x is distinct from 1",
        "x = y",
        "x in (1, 2, 3, 4, null)",
        "case when x = 1 then true else y = 2 end",
    ],
)
def test_a_provider_gets_no_condition_that_pyarrow_evaluates_differently(ctx, asked, condition):
    """T11, T9: such a condition would change rows; the engine evaluates it."""
    query = f"select x, y, s from {{t}} where {condition}"
    assert values(ctx, query) == values(ctx, query, "memory")
    [request] = asked.requests
    assert request.filter is None
    assert request.limit is None


def test_a_provider_gets_a_parameter_of_a_filter_as_its_value(ctx, asked):
    """T11: the filter contains the bound value."""
    reader = ctx.sql("select x from t where x > $least", {"least": 196}).collect()
    assert reader.read_all()["x"].to_pylist() == [197, 198]
    assert asked.requests[0].filter.equals(X > 196)


# -- limits ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "limit"),
    [
        ("select x from {t} limit 5", 5),
        ("select x from {t} limit 5 offset 2", 7),
        ("select x from (select x, y from {t}) limit 5", 5),
        ("select x + 1 from {t} limit 5", 5),
        ("select x from (select * from {t} limit 10) limit 5", 5),
        ("select x from (select * from {t} limit 5) where y = 3", 5),
    ],
)
def test_a_provider_gets_a_limit_if_every_row_of_the_scan_counts(ctx, honouring, query, limit):
    """T11: a filter above the limit stays above it."""
    assert len(values(ctx, query)) == len(values(ctx, query, "memory"))
    [request] = honouring.requests
    assert request.limit == limit
    assert request.filter is None


def test_a_filter_above_an_offset_stays_above_it(ctx, honouring):
    """T11: the skipped rows are those of the whole table."""
    query = "select x from (select * from {t} offset 3) where y = 3"
    assert values(ctx, query) == values(ctx, query, "memory")
    assert honouring.requests[0].filter is None


@pytest.mark.parametrize(
    "query",
    [
        "select x from {t} where s like '%9' limit 5",
        "select x from {t} where y = 3 limit 5",
        "select x from {t} where f > 40 limit 5",
        "select x from {t} order by x desc limit 5",
        "select distinct y from {t} limit 4",
        "select y, count(*) from {t} group by y limit 4",
        "select sum(x) from {t} limit 1",
        "select x from {t} offset 195",
        "select x, row_number() over (order by s) as n from {t} limit 5",
        "select x from {t} where x > 100 intersect select x from {t} limit 3",
        "select unnest([x, y]) from {t} where y = 1 limit 5",
        "select u.x from {t} join {t} u on u.x = {t}.x + 1 where {t}.y = 4 limit 5",
    ],
)
def test_a_provider_gets_no_limit_if_rows_are_dropped_or_reordered_below_it(ctx, honouring, query):
    """T11: a limit above a filter, an order, a group or an offset does not apply to the scan."""
    assert len(values(ctx, query)) == len(values(ctx, query, "memory"))
    assert [request.limit for request in honouring.requests] == [None] * len(honouring.requests)


def test_rows_past_the_limit_are_dropped_if_the_provider_returns_more(ctx, asked):
    """T11: a provider may ignore every hint."""
    assert values(ctx, "select x from {t} limit 3") == [(0,), (1,), (2,)]
    assert values(ctx, "select x from {t} limit 2 offset 3 ") == [(4,), (None,)]
    assert [request.limit for request in asked.requests] == [3, 5]


# -- several scans of one table -------------------------------------------------------------------------

FIRST, SECOND = range(100), [150 if i == 50 else i for i in range(100)]


def _among(numbers):
    return f"select x from {{t}} where x in ({', '.join(map(str, numbers))})"


TWICE = [
    "select x from {t} where y = 1 union all select x from {t} where y = 2",
    "select x from {t} where y = 1 union all select x from {t}",
    "select x from {t} union all select x from {t} where y = 1",
    "select count(*) from ((select x from {t} limit 3) union all (select x from {t} limit 9))",
    # Long lists that differ only in the middle, which a printed form omits.
    pytest.param(f"{_among(FIRST)} union all {_among(SECOND)}", id="long lists"),
    pytest.param(f"{_among(SECOND)} union all {_among(FIRST)}", id="long lists the other way round"),
    "select a.x, b.x from {t} a join {t} b on a.y = b.y where a.x < 5 and b.x > 190",
    "select a.x, b.x from {t} a left join {t} b on a.x = b.x and b.y = 2 where a.y = 1",
    "select x from {t} where y = 3 and x in (select x + 1 from {t} where y = 2)",
    "select x from {t} where y = 1 and x > (select avg(x) from {t})",
    "select x, (select max(x) from {t}) as m from {t} where y = 1",
    "select x, (select max(x) from {t} where x < 50) as m from {t} where x > 60",
    "select x from {t} where (select count(*) from {t}) > 100 and y = 1",
    "select count(*) as n, (select count(*) from {t}) as m from (select 1 from {t} limit 3)",
    "select x from {t} where y = 1 and exists (select 1 from {t} where y = 2 and x > 190)",
    "select x from {t} where y = 1 except select x from {t} where x > 20",
    "with a as (select * from {t} where y = 1) select count(*) from a where x > 5 union all select count(*) from a",
    "with recursive r as (select x from {t} where x = 4 union all select {t}.x from {t} join r on {t}.x = r.x + 1 "
    "where {t}.x < 9) select x from r",
]


@pytest.mark.parametrize("query", TWICE)
def test_a_table_scanned_twice_with_different_filters_returns_all_its_rows(ctx, honouring, query):
    """T11: rows that one scan may skip are not missing in the other."""
    assert values(ctx, query) == values(ctx, query, "memory")
    assert len(honouring.requests) >= 2


def test_each_scan_of_a_table_scanned_twice_is_asked_for_enough_columns(ctx, honouring):
    """T11: a hint need not be minimal, but it is sufficient for every scan."""
    query = "select a.x, b.s from {t} a join {t} b on a.x = b.x where a.y = 1 and b.y = 1"
    assert values(ctx, query) == values(ctx, query, "memory")
    assert len(honouring.requests) == 2
    for request in honouring.requests:
        assert {"x", "y"} <= set(request.columns) <= {"x", "y", "s"}
        assert request.limit is None
        assert request.filter is None or request.filter.equals(Y == 1)


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("select x from {t} where f > (select avg(f) from {t} where y = 1)", {"x", "f", "y"}),
        ("select x from {t} where y > (select min(y) from {t} limit 1)", {"x", "y"}),
        ("select x from {t} where f > (select avg(f) from {t}) and s <> (select max(s) from {t})", {"x", "f", "s"}),
        ("select (select max(y) from {t}) as m, x from {t} where s = 'a'", {"x", "y", "s"}),
        # A text of the query cannot pass for a line of its plan.
        (
            'select x from {t} where s <> \'Projection: get_field(headrace.tables.t.row, Utf8("x")) AS x\n'
            "  TableScan: headrace.tables.t projection=[row]' and f > (select avg(f) from {t})",
            {"x", "y", "s", "f"},
        ),
    ],
)
def test_a_scan_in_a_scalar_subquery_is_asked_for_its_columns(ctx, honouring, query, columns):
    """T11: of all scans of the table together, and without a filter."""
    assert values(ctx, query) == values(ctx, query, "memory")
    for request in honouring.requests:
        assert set(request.columns) == columns
        assert request.filter is None


def test_a_filter_above_a_view_returns_the_correct_rows(ctx, honouring):
    """T11: filters of a view and of the query over it."""
    ctx.sql("create view v as select x, y + 1 as y from t where y > 1")
    ctx.sql("create view w as select x, y + 1 as y from memory where y > 1")
    query = "select x, y from {t} where y < 4 and x > 180"
    assert values(ctx, query, "v") == values(ctx, query, "w")


def test_a_name_registered_again_while_an_old_frame_exists_is_another_table(ctx):
    """T11, T12: an old frame reads the old provider with its own filter, a new frame the new provider."""
    old, new = Honouring(TABLE), Honouring(TABLE.slice(0, 50))
    ctx.register_table("t", old)
    old_frame = ctx.sql("select x from t where y = 1")
    old_limited = ctx.sql("select x from t limit 3")
    ctx.deregister_table("t")
    ctx.register_table("t", new)
    new_frame = ctx.sql("select x from t where y = 2")
    both = old_frame.union(new_frame)
    assert both.count() == 40 + 10
    assert new_frame.collect().read_all().num_rows == 10
    assert old_frame.collect().read_all().num_rows == 40
    assert old_limited.collect().read_all()["x"].to_pylist() == [0, 1, 2]
    assert [r.filter.equals(Y == 1) for r in old.requests if r.limit is None] == [True, True]
    assert [r.filter.equals(Y == 2) for r in new.requests] == [True, True]
    ctx.deregister_table("t")
    ctx.register_arrow("t", TABLE.slice(0, 7))
    assert ctx.sql("select * from t where x > 1").count() == 4


def test_names_that_differ_only_in_special_characters_are_different_tables(ctx):
    """T11: rows that one table may skip are not missing in another with a similar name."""
    names = ["a_b_3", "a b", "a..b", "a_b", "A-b", "a_b_2"]
    for number, name in enumerate(names):
        ctx.register_table(name, Honouring(TABLE.slice(0, 10 * (number + 1))))
    query = " union all ".join(f'select {i} as t, x, y from "{name}" where y = {i % 5}' for i, name in enumerate(names))
    result = ctx.sql(f"select t, count(*) as n from ({query}) group by t order by t").collect().read_all()
    assert result["n"].to_pylist() == [2, 4, 6, 8, 10, 12]


@pytest.mark.parametrize("ordered", [False, True])
def test_a_provider_needs_only_schema_and_scan(ordered):
    """T11: the other methods are optional, with or without the base class."""

    class Plain:
        def schema(self):
            return TABLE.schema

        def scan(self):
            return TABLE.to_reader(max_chunksize=7)

    with SessionContext(ordered=ordered) as ctx:
        ctx.register_arrow("memory", TABLE)
        ctx.register_table("duck", Plain())
        ctx.register_table("simple", scanning(Plain().scan, TABLE.schema))
        for query in ("select s from {t} where x > 190 and y = 1", "select count(*) from (select x from {t} limit 9)"):
            assert values(ctx, query, "duck") == values(ctx, query, "simple") == values(ctx, query, "memory")


def test_a_provider_gets_the_same_hints_in_an_unordered_session():
    """T11: columns, filter and limit, though queries are planned differently."""
    provider = Honouring(TABLE)
    with SessionContext(ordered=False) as ctx:
        ctx.register_table("t", provider)
        assert values(ctx, "select s from t where x = 198 or x = 1") == [("r1",), ("r198",)]
        assert values(ctx, "select s from t limit 1") == [("r0",)]
    filtered, limited = provider.requests
    assert set(filtered.columns) == {"x", "s"}
    assert filtered.filter.equals((X == 198) | (X == 1))
    assert (limited.columns, limited.filter, limited.limit) == (("s",), None, 1)


# -- fields of structs ----------------------------------------------------------------------------------

# A column has the name of a field inside the struct.
NESTED = pa.table(
    {
        "x": [1, 2, 3],
        "n": pa.array(
            [{"a": {"b": 1}}, {"a": {"b": 2}}, {"a": None}], pa.struct([("a", pa.struct([("b", pa.int64())]))])
        ),
        "b": [2, 2, 9],
    }
)


@pytest.mark.parametrize(
    ("query", "columns", "condition"),
    [
        ("select n['a']['b'] as b, x from {t}", ("x", "n"), None),
        ("select n['a']['b'] as x from {t}", ("n",), None),
        ("select x from {t} where n['a']['b'] = 2", ("x", "n"), None),
        ("select x from {t} where n['a']['b'] = 2 and x = 2", ("x", "n"), X == 2),
        ("select x from {t} where n['a']['b'] = 2 and b = 2", ("x", "n", "b"), pyarrow.dataset.field("b") == 2),
        ("select n['a']['b'] as b from {t} where x > 1 order by 1 limit 1", ("x", "n"), X > 1),
    ],
)
def test_a_struct_field_is_read_from_its_column_and_no_condition_on_it_is_passed_on(ctx, query, columns, condition):
    """T11: the name of a field is not taken for the name of a column."""
    provider = Honouring(NESTED)
    ctx.register_table("nested", provider)
    ctx.register_arrow("plain", NESTED)
    assert values(ctx, query, "nested") == values(ctx, query, "plain")
    [request] = provider.requests
    assert set(request.columns) == set(columns)
    assert request.filter is None if condition is None else request.filter.equals(condition)
