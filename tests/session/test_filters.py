"""WHERE means the same over a provider as over the same rows in memory, whether or not the provider filters."""

import datetime
import functools
from decimal import Decimal

import pyarrow as pa
import pyarrow.dataset
import pytest
from providers import Honouring, scanning

from headrace import SessionContext

NAN, INF = float("nan"), float("inf")
DAY_MS = 86_400_000
TIMES = [datetime.datetime(2024, 1, day, tzinfo=datetime.UTC) for day in range(1, 6)]
WORDS = ["a", "b", None, "", "ab", "A"]
BYTES = [None if word is None else word.encode() for word in WORDS]
NUMBERS = [1, 2, None, 4, 5, 0]
REALS = [1.5, NAN, None, -0.0, 0.0, INF]
PRICES = [Decimal("1.50"), Decimal("2.00"), None, Decimal("-1.00"), Decimal("0.00"), Decimal("99.99")]
MOMENTS = [*TIMES[:2], None, *TIMES[2:]]
PAIRS = [(1, "x"), (2, None), None, (None, "x"), (1, "y"), (1, "x")]
PAIR = pa.struct([("a", pa.int64()), ("b", pa.string())])

ROWS = pa.table(
    {
        "id": pa.array(range(6), pa.int64()),
        "i": pa.array(NUMBERS, pa.int64()),
        "i8": pa.array(NUMBERS, pa.int8()),
        "u64": pa.array([1, 2, None, 4, 2**64 - 1, 0], pa.uint64()),
        "f": pa.array(REALS, pa.float64()),
        "f32": pa.array(REALS, pa.float32()),
        "f16": pa.array(REALS, pa.float16()),
        "s": pa.array(WORDS, pa.string()),
        "ls": pa.array(WORDS, pa.large_string()),
        "dict": pa.array(WORDS).dictionary_encode(),
        "bin": pa.array(BYTES, pa.binary()),
        "lbin": pa.array(BYTES, pa.large_binary()),
        "fsb": pa.array([b"aa", b"bb", None, b"cc", b"ab", b"AA"], pa.binary(2)),
        "d32": pa.array(PRICES, pa.decimal32(6, 2)),
        "d128": pa.array(PRICES, pa.decimal128(10, 2)),
        "d256": pa.array(PRICES, pa.decimal256(50, 2)),
        "tz": pa.array(MOMENTS, pa.timestamp("us", "America/New_York")),
        "tu": pa.array(MOMENTS, pa.timestamp("ns", "UTC")),
        "tn": pa.array([1, 2, None, 3, 10**18 + 1, 5], pa.timestamp("ns")),
        "t64": pa.array([1, 2, None, 3, 4, 5], pa.time64("ns")),
        "t32": pa.array([1, 2, None, 3, 4, 5], pa.time32("s")),
        "date": pa.array([1, 2, None, 3, 4, 5], pa.date32()),
        "date64": pa.array([DAY_MS, 2 * DAY_MS, None, 3 * DAY_MS, 0, 5 * DAY_MS], pa.date64()),
        "dur": pa.array([1, 2, None, 3, 4, 5], pa.duration("ns")),
        "b": pa.array([True, False, None, True, False, None]),
        "st": pa.array(
            [
                {"a": 1, "b": "x"},
                {"a": 2, "b": None},
                None,
                {"a": None, "b": "x"},
                {"a": 1, "b": "y"},
                {"a": 1, "b": "x"},
            ],
            PAIR,
        ),
        "l": pa.array([[1, 2], [], None, [None], [1, 2, 3], [1, 2]], pa.list_(pa.int64())),
        "nothing": pa.nulls(6),
    }
)
# pyarrow cannot filter a table that has such columns, so they are in a separate table.
VIEWS = pa.table(
    {
        "id": pa.array(range(6), pa.int64()),
        "i": pa.array(NUMBERS, pa.int64()),
        "ls": pa.array(WORDS, pa.large_string()),
        "sv": pa.array(WORDS, pa.string_view()),
        "bv": pa.array(BYTES, pa.binary_view()),
    }
)

# Expected rows are written out, so that the same mistake on both sides does not count as agreement.
KNOWN = {
    "i = 1": [0],
    "i <> 1": [1, 3, 4, 5],
    "i in (1, null)": [0],
    "i not in (1, null)": [],
    "i not in (1, 2)": [3, 4, 5],
    "i in (1, 2, 4, 5, 7)": [0, 1, 3, 4],
    "i not in (1, 2, 4, 7)": [4, 5],
    "i not in (1, 2, 4, 7, null)": [],
    "not (i = 1)": [1, 3, 4, 5],
    "i between 1 and 3": [0, 1],
    "i not between 1 and 3": [3, 4, 5],
    "i is distinct from 1": [1, 2, 3, 4, 5],
    "i is not distinct from null": [2],
    "i is null": [2],
    "(i = 1) is null": [2],
    "(i = 1) is not true": [1, 2, 3, 4, 5],
    "f = 'nan'::double": [1],
    "f > 1": [0, 1, 5],
    "isnan(f)": [1],
    "f is null": [2],
    "s like 'a%'": [0, 4],
    "s not like 'a%'": [1, 3, 5],
    "s in ('a', 'b', 'c', 'd')": [0, 1],
    "s not in ('a', 'b', 'c', 'd')": [3, 4, 5],
    "s = ''": [3],
    "dict in ('a', 'b', 'c', 'd')": [0, 1],
    "d128 in (1.5, 2, 3, 4)": [0, 1],
    "t64 = '00:00:00.000000001'": [0],
    "b": [0, 3],
    "not b": [1, 4],
    "b is not true": [1, 2, 4, 5],
    "st = named_struct('a', 1, 'b', 'x')": [0, 5],
    "l = [1, 2]": [0, 5],
    "nothing is null": [0, 1, 2, 3, 4, 5],
    "i = null": [],
    "null": [],
    "false": [],
}

CONDITIONS = f"""
not (i = 1 and s = 'a') | i = 1 or s is null | i is distinct from null | 1 < i | 3 >= i | i = 1.0 | i > 1.5 | i = i
i = i8 | i8 = 1 | i8 = 300 | i8 in (1, 2, 300, 5) | u64 = 18446744073709551615 | u64 > 9223372036854775807 | u64 = -1
u64 in (0, 1, 2, 18446744073709551615) | i + 1 = 2 | abs(i) = 1 | i::text = '1' | i = '1' | 1 = 1 and i = 1 | true
f < 1 | f <> 1.5 | f = 0.0 | f = -0.0 | f >= 0 | f in (0.0, 1.5) | f in (0.0, 1.5, 2.0, 3.0)
f not in (0.0, 1.5, 2.0, 3.0) | f is not distinct from 'nan'::double | f < 'inf'::double | f32 = 1.5 | f32 = -0.0
f32 > 0 | f32 in (0, 1.5, 2, 3) | f = f32 | f16 = 1.5 | f16 > 0 | f16 is null | f16 in (0, 1.5, 3, 4)
f between 0 and 'nan'::double | not (f > 1) | s = 'a' | s <> 'a' | s ilike 'A%' | s not in ('a', null) | s > 'a'
upper(s) = 'A' | length(s) = 1 | coalesce(s, 'z') = 'z' | s similar to 'a.*' | s ~ '^a' | starts_with(s, 'a')
s between 'a' and 'b' | nullif(s, 'a') is null | concat(s, 'x') = 'ax'
case when s = 'a' then true when i > 3 then false else null end | case s when 'a' then 1 else 2 end = 2 | s = dict
ls = 'a' | ls in ('a', 'b', 'c', 'd') | ls like 'a%' | ls <> 'a' | dict = 'a' | dict <> 'a' | dict in ('a', 'b')
dict like 'a%' | dict not in ('a', 'b', 'c', 'd') | dict is null | dict > 'a' | bin = X'61'
bin in (X'61', X'62', X'63', X'64') | bin > X'61' | lbin = X'61' | lbin in (X'61', X'62', X'63', X'64')
fsb = X'6161' | fsb in (X'6161', X'6262', X'6263', X'6264') | fsb > X'6161' | d128 = 1.5 | d128 = 1.50::decimal(10,2)
d128 > 1 | d128 in (1, 2) | d128 <> 2 | d128 between 0 and 2 | d128 not in (1.5, 2, 3, 4) | d256 = 1.5 | d256 > 1
d256 in (1, 2, 3, 4) | d256 = 2::decimal(50,2) | d32 = 2 | d32 > 1 | d32 in (1, 2, 3, 4) | d32 < 1.50
tz = '2024-01-01T00:00:00Z' | tz > '2024-01-02T00:00:00Z' | tz = timestamp '2024-01-01 00:00:00' | tz is not null
tz in ('2024-01-01T00:00:00Z', '2024-01-02T00:00:00Z', '2024-01-03T00:00:00Z', '2024-01-09T00:00:00Z')
tz between '2024-01-01T00:00:00+01:00' and '2024-01-02T00:00:00-05:00'
date_trunc('day', tz) = '2024-01-01T00:00:00-05:00' | tu = '2024-01-01T00:00:00Z' | tu > '2024-01-02'
tu <> '2024-01-01T00:00:00Z'
tu in ('2024-01-01T00:00:00Z', '2024-01-02T00:00:00Z', '2024-01-03T00:00:00.000000001Z', '2024-01-09T00:00:00Z')
tn = '1970-01-01T00:00:00.000000001' | tn > '1990-01-01'
tn in ({", ".join(f"'1970-01-01T00:00:00.00000000{n}'" for n in (1, 2, 5, 9))})
t64 in ({", ".join(f"'00:00:00.00000000{n}'" for n in (1, 2, 3, 9))}) | t64 > '00:00:00.000000002' | t32 = '00:00:01'
t32 in ('00:00:01', '00:00:02', '00:00:03', '00:00:09') | t32 > '00:00:02' | extract(day from date) = 2
date = '1970-01-02' | date in ('1970-01-02', '1970-01-03', '1970-01-04', '1970-01-09') | date > date '1970-01-03'
date64 = '1970-01-02' | date64 > '1970-01-03' | date64 in ('1970-01-02', '1970-01-03', '1970-01-04', '1970-01-09')
date = timestamp '1970-01-02 00:00:00' | dur = arrow_cast(1, 'Duration(Nanosecond)')
dur > arrow_cast(2, 'Duration(Nanosecond)')
dur in ({", ".join(f"arrow_cast({n}, 'Duration(Nanosecond)')" for n in (1, 2, 3, 9))}) | b = true | b is true
b is unknown | b is not false | b in (true, false) | b is distinct from true | b <> false | b and i > 1 | b or i = 2
b = (i = 1) | st['a'] = 1 | st is null | st['a'] is null | st['b'] = 'x' | st <> named_struct('a', 1, 'b', 'x')
st in (named_struct('a', 1, 'b', 'x'), named_struct('a', 2, 'b', 'y'))
st is distinct from named_struct('a', 1, 'b', 'x') | l is null | l[1] = 1 | array_length(l) = 2 | array_has(l, 1)
l in ([1, 2], [3]) | l <> [1, 2] | l is distinct from [1, 2] | cardinality(l) = 0 | nothing = 1
nothing in (1, 2, 3, 4) | random() < 2 | i in (select i8 from {{t}} where i8 > 2)
i not in (select i8 from {{t}} where i8 > 2) | i not in (select i8 from {{t}})
exists (select 1 from {{t}} u where u.i = {{t}}.i8 and u.i > 1) | i > (select avg(i) from {{t}})
i = any (select i8 from {{t}}) | not exists (select 1 from {{t}} u where u.i = {{t}}.i + 1)
i = 1 or i in (select i8 from {{t}} where s = 'ab') | i < (select count(*) from {{t}}) and i > 3
(select max(i) from {{t}} where i < 3) = 2 and i > 3 | (select count(*) from {{t}}) = 6 and i = 1
i = 1 and s in (select s from {{t}} where i = 1)
"""
VIEW_CONDITIONS = """
sv = 'a' | sv <> 'a' | sv in ('a', 'b', 'c', 'd') | sv in ('a', 'b') | sv not in ('a', 'b')
sv not in ('a', 'b', 'c', 'd') | sv like 'a%' | sv > 'a' | sv is null | sv = ls | upper(sv) = 'A' | bv = X'61'
bv <> X'61' | bv is null | bv > X'61' | bv in (X'61', X'62', X'63', X'64') | bv not in (X'61', null) | i = 1
i in (1, 2, 4, 5) | sv = 'a' and i = 1 | i is null
"""


def split(text):
    return [condition.strip() for line in text.strip().splitlines() for condition in line.split(" | ")]


def in_pieces(table):
    """Return the same rows in batches of uneven size, one of them empty."""
    return [batch for part in (table.slice(0, 2), table.slice(2, 0), table.slice(2)) for batch in part.to_batches()]


def session(**settings):
    ctx = SessionContext(**settings)
    for suffix, table in (("", ROWS), ("_views", VIEWS)):
        ctx.register_arrow(f"memory{suffix}", table)
        ctx.register_table(f"ignoring{suffix}", scanning(lambda t=table: in_pieces(t), table.schema))
        ctx.register_arrow(f"dataset{suffix}", pyarrow.dataset.dataset(table))
    ctx.register_table("honouring", Honouring(ROWS))
    return ctx


@pytest.fixture(scope="module")
def ctx():
    with session() as ctx:
        yield ctx


@pytest.fixture(scope="module")
def unordered():
    with session(ordered=False) as ctx:
        yield ctx


@pytest.fixture(scope="module")
def in_memory(ctx):
    return functools.cache(functools.partial(matching, ctx))


def matching(ctx, table, condition):
    query = f"select id from {table} where {condition}".replace("{t}", table)
    return sorted(ctx.sql(query).collect().read_all()["id"].to_pylist())


@pytest.mark.parametrize("kind", ["memory", "ignoring", "honouring", "dataset"])
@pytest.mark.parametrize("condition", KNOWN)
def test_a_filter_returns_the_rows_that_sql_defines(ctx, condition, kind):
    """T9: `=`, `IN`, `NOT IN` with nulls, `LIKE`, `IS NULL`, functions, NaN: the rows written out above."""
    assert matching(ctx, kind, condition) == KNOWN[condition]


@pytest.mark.parametrize("kind", ["ignoring", "honouring"])
@pytest.mark.parametrize("condition", KNOWN)
def test_a_filter_returns_the_rows_that_sql_defines_in_an_unordered_session(unordered, condition, kind):
    """T9: such a session plans queries differently, and the rows are the same."""
    assert matching(unordered, kind, condition) == KNOWN[condition]


@pytest.mark.parametrize("kind", ["ignoring", "honouring", "dataset"])
@pytest.mark.parametrize("condition", split(CONDITIONS))
def test_a_filter_returns_the_rows_that_it_returns_over_a_table_in_memory(ctx, in_memory, condition, kind):
    """T9, T11: for every type and operator, whether the provider ignores filters or uses them."""
    assert matching(ctx, kind, condition) == in_memory("memory", condition)


@pytest.mark.parametrize("kind", ["ignoring_views", "dataset_views"])
@pytest.mark.parametrize("condition", split(VIEW_CONDITIONS))
def test_a_filter_returns_the_same_rows_over_view_columns(ctx, in_memory, condition, kind):
    """T9, T13: string and binary views, which pyarrow's own filters do not support."""
    assert matching(ctx, kind, condition) == in_memory("memory_views", condition)


@pytest.mark.parametrize("kind", ["ignoring", "honouring", "dataset"])
@pytest.mark.parametrize(
    "query",
    [
        "select s, count(*) from {t} where i > 0 group by s having count(*) > 0 and s <> 'b' order by s",
        "select a.id, b.id from {t} a left join {t} b on a.i = b.i8 and b.s like 'a%' where a.i > 0 order by 1, 2",
        "select count(*) filter (where s = 'a') as n, sum(i) filter (where b) as m from {t} where d128 > 0",
        "select id from (select id, i from {t} where i > 0) where i < 5 order by id",
        "select id from (select id, i from {t} order by i desc limit 3) where i > 1 order by id",
        "select id, case when f > 1 then 'big' when f is null then 'none' else 'small' end as c from {t} order by id",
        "select id from {t} where i = 1 union all select id from {t} where s = 'b' order by id",
        "select id from {t} where i in (1, 2) except select id from {t} where s = 'b'",
    ],
)
def test_a_filter_anywhere_in_a_query_returns_the_same_rows(ctx, query, kind):
    """T9: HAVING, join conditions, FILTER, nested queries and CASE, as well as WHERE."""
    expected = ctx.sql(query.replace("{t}", "memory")).collect().read_all()
    assert ctx.sql(query.replace("{t}", kind)).collect().read_all().equals(expected)


@pytest.mark.parametrize(
    "condition",
    ["sv = 'a'", "sv in ('a', 'b', 'c', 'd')", "bv in (X'61', X'62', X'63', X'64')", "sv is null", "i in (1, 2, 4, 5)"],
)
def test_pyarrow_can_evaluate_every_filter_that_a_provider_gets(condition):
    """T11: a condition that pyarrow cannot compute is not passed to a provider."""
    requests = []

    class Recording(Honouring):
        def scan_with(self, request):
            requests.append(request)
            return self._table

    with SessionContext() as ctx:
        ctx.register_table("t", Recording(VIEWS))
        ctx.register_arrow("memory_views", VIEWS)
        assert matching(ctx, "t", condition) == matching(ctx, "memory_views", condition)
    [request] = requests
    if request.filter is not None:
        evaluated = pyarrow.dataset.dataset(VIEWS).scanner(columns={"keep": request.filter}).to_table()
        assert evaluated.num_rows == 6
