"""Tables that live elsewhere: Lance, files, and Arrow data held by other libraries."""

import json
import traceback
from pathlib import Path

import pandas
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
import pytest

import headrace
from support.lance_tables import LanceTable, create_table

ROWS = pa.table({"x": pa.array(range(10), pa.int64()), "s": [f"r{i}" for i in range(10)]})
MORE = pa.table({"x": pa.array(range(10, 15), pa.int64()), "s": [f"r{i}" for i in range(10, 15)]})
SECRET = "canary-3f9a1c"


def rows(ctx, query):
    return ctx.sql(query).collect().read_all().to_pylist()


def count(ctx, table="t"):
    return ctx.table(table).count()


# -- Lance ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    """A Lance table of two versions: ten rows, then fifteen; the first is tagged."""
    uri = str(tmp_path_factory.mktemp("lance") / "t.lance")
    create_table(uri, ROWS).open().tags.create("first", 1)
    LanceTable(uri).write(MORE)
    return uri


@pytest.mark.parametrize(("version", "expected"), [(None, 15), (1, 10), (2, 15), ("first", 10)])
def test_a_lance_table_is_read_at_a_version_or_tag(ctx, uri, version, expected):
    """Register_lance reads the latest version, a numbered or a tagged one; a Path is a location too."""
    ctx.register_lance("t", uri, version=version)
    ctx.register_lance("u", Path(uri), version=version)
    assert count(ctx) == count(ctx, "u") == expected
    assert rows(ctx, "select x, s from t where x between 8 and 9 order by x") == ROWS.slice(8).to_pylist()


def test_a_lance_table_gives_the_rows_a_table_in_memory_gives(ctx, uri):
    """T9: for Lance's own provider as for any other table."""
    ctx.register_lance("t", uri)
    ctx.register_arrow("memory", pa.concat_tables([ROWS, MORE]))
    for condition in (
        "x > 3",
        "x in (1, 5, 14) or s like 'r1%'",
        "s <> 'r4' and x % 2 = 0",
        "length(s) = 3",
        "x is null",
        "x not in (1, 2, 3, 4, 5, null)",
        "x > (select avg(x) from t)",
    ):
        query = f"select s from t where {condition} order by s"
        assert rows(ctx, query) == rows(ctx, query.replace("from t", "from memory")), condition


def test_a_lance_table_is_read_as_of_its_registration(ctx, tmp_path):
    """Later versions are not seen until the table is registered again."""
    uri = str(tmp_path / "t.lance")
    create_table(uri, ROWS)
    ctx.register_lance("t", uri)
    LanceTable(uri).write(MORE)
    assert count(ctx) == 10
    ctx.deregister_table("t")
    ctx.register_lance("t", uri)
    assert count(ctx) == 15


def test_explain_shows_filter_and_projection_inside_lances_own_scan(ctx, uri):
    """T11: the native provider takes both; no operator of the engine filters again."""
    ctx.register_lance("t", uri)
    plan = ctx.sql("select s from t where x > 3").explain()
    logical, physical = plan.split("physical_plan")
    [scan] = [line for line in logical.splitlines() if "TableScan" in line]
    assert "projection=[s]" in scan
    assert "full_filters=[t.x > Int64(3)]" in scan
    assert "Filter:" not in logical
    assert "FilteredReadExec" in physical
    assert "FilterExec" not in physical
    assert "projection=[x, s]" in ctx.sql("select * from t").explain()


@pytest.mark.parametrize(
    ("version", "mentioned"), [(3, "3"), ("nope", "nope"), ("1", "'1'"), (10**6, "1000000")], ids=repr
)
def test_a_lance_version_that_is_not_there_is_a_clear_error(ctx, uri, version, mentioned):
    """With the table's name, the location and the version, and what to check."""
    with pytest.raises(headrace.StorageError) as caught:
        ctx.register_lance("t", uri, version=version)
    message = str(caught.value)
    assert all(part in message for part in ("'t'", uri, mentioned, "Hint: check the location, the version"))
    assert caught.value.__cause__ is not None
    assert not ctx.table_exists("t")


@pytest.mark.parametrize("version", [0, -1, "", 1.5, True, [1]], ids=repr)
def test_a_lance_version_that_can_be_none_is_refused(ctx, uri, version):
    """A version is a number or a tag; anything else is an error of ours that says so."""
    with pytest.raises(headrace.HeadraceError, match="version"):
        ctx.register_lance("t", uri, version=version)
    assert not ctx.table_exists("t")


def test_a_missing_lance_table_is_a_clear_error_and_nothing_is_created(ctx, tmp_path):
    """The location is named, the folder stays empty."""
    missing = tmp_path / "missing.lance"
    with pytest.raises(headrace.StorageError, match=r"'t'.*missing\.lance.*Hint: "):
        ctx.register_lance("t", missing)
    assert list(tmp_path.iterdir()) == []
    assert not ctx.table_exists("t")


@pytest.mark.parametrize("location", [None, "", "  ", 5], ids=repr)
def test_a_location_must_be_a_path_or_url(ctx, location):
    """For every table that is somewhere."""
    for register in (ctx.register_lance, ctx.register_parquet, ctx.register_csv, ctx.register_json):
        with pytest.raises(headrace.InvalidArgumentError, match="'t': the location must be a path or a URL"):
            register("t", location)


@pytest.mark.parametrize(
    ("where", "options"),
    [
        ("missing.lance", {"aws_secret_access_key": SECRET}),
        ("s3://bucket/t.lance", {"allow_http": SECRET}),
        ("s3://bucket/t.lance", {"aws_secret_access_key": SECRET, "timeout": SECRET}),
        ("nosuch://bucket/t.lance", {"token": SECRET}),
    ],
    ids=["no table", "a flag that is none", "a duration that is none", "no such store"],
)
def test_storage_options_are_in_no_message(ctx, tmp_path, where, options):
    """Also where the library below quotes the value it could not read; nor in the traceback of its error."""
    location = where if "://" in where else str(tmp_path / where)
    with pytest.raises(headrace.StorageError) as caught:
        ctx.register_lance("t", location, storage_options=options)
    assert SECRET not in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("options", [5, "key=value", {"a": 5}, {5: "a"}], ids=repr)
def test_storage_options_must_be_text_by_text(ctx, uri, options):
    """A mapping of strings, or an error of ours that says so."""
    with pytest.raises(headrace.InvalidArgumentError, match="storage_options"):
        ctx.register_lance("t", uri, storage_options=options)


# -- files ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    pyarrow.parquet.write_table(ROWS, folder / "t.parquet")
    pyarrow.csv.write_csv(ROWS, folder / "t.csv")
    (folder / "t.json").write_text("\n".join(json.dumps(row) for row in ROWS.to_pylist()))
    with pa.OSFile(str(folder / "t.arrow"), "wb") as sink, pa.ipc.new_file(sink, ROWS.schema) as writer:
        writer.write_table(ROWS)
    (folder / "folder").mkdir()
    for number, part in enumerate([ROWS, MORE]):
        pyarrow.parquet.write_table(part, folder / "folder" / f"{number}.parquet")
    (folder / "t.txt").write_text("1;a\n2;b\n")
    for ending in ("parquet", "json", "arrow"):
        (folder / f"broken.{ending}").write_text("{nothing of the kind")
    (folder / "broken.csv").write_text("x,y\n1,2\n3\n")
    return folder


FORMATS = {"parquet": "register_parquet", "csv": "register_csv", "json": "register_json", "arrow": "register_arrow"}


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("kind", [str, Path])
def test_a_file_is_a_table(ctx, files, ending, kind):
    """T12: parquet, CSV, JSON and Arrow IPC, by text or Path; queried twice, deregistered, registered again."""
    path = kind(files / f"t.{ending}")
    getattr(ctx, FORMATS[ending])("t", path)
    assert count(ctx) == count(ctx) == 10
    assert rows(ctx, "select s from t where x = 3") == [{"s": "r3"}]
    ctx.deregister_table("t")
    assert not ctx.table_exists("t")
    getattr(ctx, FORMATS[ending])("t", path)
    assert count(ctx) == 10


@pytest.mark.parametrize("where", ["folder", "folder/", "folder/*.parquet"])
def test_a_folder_of_files_is_a_table(ctx, files, where):
    """All the files in it."""
    ctx.register_parquet("t", f"{files}/{where}")
    assert count(ctx) == 15


@pytest.mark.parametrize("ending", FORMATS)
def test_a_missing_file_is_a_clear_error(ctx, files, ending):
    """The path is named, the table does not exist, and the earlier one of that name is unharmed."""
    with pytest.raises(headrace.StorageError, match=rf"'t': there is nothing at .*missing\.{ending}.*Hint: check"):
        getattr(ctx, FORMATS[ending])("t", files / f"missing.{ending}")
    assert not ctx.table_exists("t")


@pytest.mark.parametrize("where", ["missing/*.parquet", "empty"])
def test_a_folder_without_files_is_a_clear_error(ctx, tmp_path, where):
    """Nothing there is said, in a folder as in a pattern."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(headrace.HeadraceError, match=r"(?i)no files found|nothing at"):
        ctx.register_parquet("t", str(tmp_path / where))
    assert not ctx.table_exists("t")


@pytest.mark.parametrize("ending", FORMATS)
def test_a_file_that_cannot_be_read_is_a_storage_error(ctx, files, ending):
    """At registration; its class says to look at the file, not at the query or at the engine."""
    with pytest.raises(headrace.StorageError):
        getattr(ctx, FORMATS[ending])("t", files / f"broken.{ending}")
    assert not ctx.table_exists("t")


def test_a_store_the_session_does_not_know_is_a_clear_error(ctx):
    """And not one that asks to report a bug of the engine."""
    with pytest.raises(headrace.StorageError, match="s3://bucket") as caught:
        ctx.register_parquet("t", "s3://bucket/t.parquet")
    assert "bug" not in str(caught.value)


def test_csv_takes_its_options(ctx, files):
    """Header, delimiter, ending and schema."""
    ctx.register_csv("t", files / "t.txt", has_header=False, delimiter=";", file_extension=".txt")
    assert rows(ctx, "select * from t") == [{"column_1": 1, "column_2": "a"}, {"column_1": 2, "column_2": "b"}]
    schema = pa.schema([("x", pa.string()), ("s", pa.string())])
    ctx.register_csv("typed", files / "t.csv", schema=schema)
    assert ctx.table("typed").schema().types == [pa.string(), pa.string()]
    assert rows(ctx, "select x from typed where s = 'r7'") == [{"x": "7"}]


def test_a_file_of_another_ending_is_read_when_it_is_named(ctx, files, tmp_path):
    """And refused with its ending otherwise."""
    (tmp_path / "t.pq").write_bytes((files / "t.parquet").read_bytes())
    (tmp_path / "t.ndjson").write_bytes((files / "t.json").read_bytes())
    with pytest.raises(headrace.HeadraceError, match="extension"):
        ctx.register_parquet("t", tmp_path / "t.pq")
    ctx.register_parquet("t", tmp_path / "t.pq", file_extension=".pq")
    ctx.register_json("u", tmp_path / "t.ndjson", file_extension=".ndjson")
    assert count(ctx) == count(ctx, "u") == 10


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("register_parquet", {"schema": 5}),
        ("register_parquet", {"file_extension": 5}),
        ("register_csv", {"delimiter": ";;"}),
        ("register_csv", {"delimiter": ""}),
        ("register_csv", {"delimiter": 5}),
        ("register_csv", {"has_header": "yes"}),
        ("register_json", {"schema": ["x"]}),
    ],
)
def test_a_wrong_option_is_refused_as_an_argument(ctx, files, method, options):
    """The call is wrong, not the SQL; the message names the option."""
    [name] = options
    with pytest.raises(headrace.InvalidArgumentError, match=name):
        getattr(ctx, method)("t", files / f"t.{method.removeprefix('register_')}", **options)
    assert not ctx.table_exists("t")


# -- Arrow data -----------------------------------------------------------------------------------------


class _Exporting:
    def __arrow_c_stream__(self, requested_schema=None):
        return ROWS.__arrow_c_stream__(requested_schema)


ARROW = {
    "table": lambda: ROWS,
    "table in pieces": lambda: pa.concat_tables([ROWS.slice(0, 3), ROWS.slice(3, 0), ROWS.slice(3)]),
    "record batch": lambda: ROWS.to_batches()[0],
    "dataset": lambda: pyarrow.dataset.dataset(ROWS),
    "polars": lambda: polars.from_arrow(ROWS),
    "pandas": lambda: pandas.DataFrame(ROWS.to_pydict()),
    "anything that exports": _Exporting,
}


@pytest.mark.parametrize("kind", ARROW)
def test_arrow_data_is_a_table_any_number_of_times(ctx, kind):
    """T2, T9: what can be scanned again is, in a self-join too."""
    ctx.register_arrow("t", ARROW[kind]())
    for _ in range(2):
        assert count(ctx) == 10
        assert rows(ctx, "select s from t where x in (3, 4) order by s") == [{"s": "r3"}, {"s": "r4"}]
    assert rows(ctx, "select count(*) as n from t a join t b on a.x = b.x + 1") == [{"n": 9}]


def test_an_empty_table_is_a_table(ctx):
    """T8: no rows, schema kept."""
    ctx.register_arrow("t", ROWS.schema.empty_table())
    result = ctx.sql("select * from t").collect().read_all()
    assert result.num_rows == 0
    assert result.schema.equals(ROWS.schema)


def test_a_dataset_reads_only_the_columns_and_files_it_needs(ctx, files):
    """T11: projection and filter go down into the dataset, whose statistics skip files."""
    ctx.register_arrow("t", pyarrow.dataset.dataset(files / "folder"))
    assert rows(ctx, "select s from t where x = 12") == [{"s": "r12"}]
    assert rows(ctx, "select count(*) as n from t") == [{"n": 15}]


ONCE = {
    "a pyarrow reader": ROWS.to_reader,
    "a headrace reader": None,
    "a generator": lambda: (batch for batch in ROWS.to_batches()),
    "a list of batches": ROWS.to_batches,
    "None": lambda: None,
    "a dict": lambda: {"x": [1]},
    "an array": lambda: pa.array([1, 2]),
    "a chunked array": lambda: pa.chunked_array([[1, 2]]),
    "a polars series": lambda: polars.Series([1, 2]),
}


@pytest.mark.parametrize("kind", ONCE)
def test_what_can_be_read_once_or_is_no_table_is_refused(ctx, kind):
    """At registration, with what to use instead; a reader is not touched."""
    ctx.register_arrow("base", ROWS)
    data = ctx.sql("select * from base").execute_stream() if ONCE[kind] is None else ONCE[kind]()
    with pytest.raises(headrace.InvalidArgumentError, match=r"'t'.*Hint: .*register_streaming_table"):
        ctx.register_arrow("t", data)
    assert not ctx.table_exists("t")
    if "reader" in kind:
        assert data.read_all().num_rows == 10


def test_a_frame_which_can_be_executed_once_is_refused_and_stays_usable(ctx):
    """P6: registering a frame neither executes it nor uses up a push table."""
    sink = ctx.register_streaming_table("pushed", ROWS.schema)
    with sink:
        sink.write(ROWS)
    frame = ctx.sql("select * from pushed")
    with pytest.raises(headrace.InvalidArgumentError, match="'t'"):
        ctx.register_arrow("t", frame)
    assert frame.collect().read_all().num_rows == 10


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pa.table({}), "no column"),
        (ROWS.append_column("x", ROWS["x"]), "more than one column named 'x'"),
        (pa.RecordBatch.from_pylist([], schema=pa.schema([])), "no column"),
    ],
    ids=["no column", "two of one name", "a batch without column"],
)
def test_data_no_table_can_have_is_refused(ctx, data, message):
    """A table has columns, each with a unique name."""
    with pytest.raises(headrace.InvalidArgumentError, match=message):
        ctx.register_arrow("t", data)


def test_every_way_to_register_refuses_a_name_that_is_taken(ctx, files, uri):
    """T12: and leaves the earlier table unharmed."""
    ctx.register_arrow("t", MORE)
    for register, source in (
        (ctx.register_lance, uri),
        (ctx.register_parquet, files / "t.parquet"),
        (ctx.register_csv, files / "t.csv"),
        (ctx.register_json, files / "t.json"),
        (ctx.register_arrow, files / "t.arrow"),
        (ctx.register_arrow, ROWS),
        (ctx.register_arrow, polars.from_arrow(ROWS)),
        (ctx.register_arrow, pyarrow.dataset.dataset(ROWS)),
        (ctx.register_streaming_table, ROWS.schema),
    ):
        with pytest.raises(headrace.TableExistsError, match="'t'"):
            register("T", source)
    assert count(ctx) == 5
