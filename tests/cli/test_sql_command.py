"""`headrace sql`: tables of every kind, statements from everywhere, results in every form."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

from headrace import PlanError, SessionContext
from headrace.cli.sql_sources import plan, quoted_paths
from headrace.cli.sql_statements import is_complete, split
from support.command import command, environment, headrace, succeeds
from support.lance_tables import create_table

ROWS = pa.table({"id": [1, 2, 3], "name": ["a", None, "c"], "v": [[1.5], [], None], "b": [b"\x01", b"", None]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    create_table(tmp_path / "rows.lance", ROWS)
    create_table(tmp_path / "unnamed", ROWS)
    (tmp_path / "many").mkdir()
    for number in range(2):
        pq.write_table(ROWS, tmp_path / "many" / f"{number}.parquet")
    csv.write_csv(ROWS.select(["id", "name"]), tmp_path / "rows.csv")
    (tmp_path / "rows.json").write_text('{"id": 1}\n{"id": 2}\n')
    return tmp_path


@pytest.mark.parametrize(
    ("place", "count"),
    [("rows.lance", 3), ("unnamed", 3), ("many", 6), ("many/0.parquet", 3), ("rows.csv", 3), ("rows.json", 2)],
)
def test_a_table_is_known_by_what_it_is(folder: Path, place: str, count: int) -> None:
    """C12: Lance, parquet, csv, json, and folders of them."""
    said = succeeds(
        "sql", "--table", f"t={place}", "--format", "csv", "-c", "select count(*) as n from t", folder=folder
    )
    assert said == f'"n"\n{count}\n'


def test_a_place_that_is_none_of_these_is_an_error(folder: Path) -> None:
    """C12: which says what it could be."""
    (folder / "mixed").mkdir()
    for place in ("mixed", "pipeline.toml"):
        done = headrace("sql", "--table", f"t={place}", "-c", "select 1", folder=folder)
        assert (done.returncode, "neither a Lance table nor" in done.stderr) == (2, True)


def test_a_table_can_be_a_quoted_path(folder: Path) -> None:
    """C24: of every kind, in joins, views and subqueries; later statements see a file that has changed."""
    script = """
        select count(*) as n from 'rows.csv' a, 'rows.lance' b join 'many' using (id) where a.id = b.id;
        describe 'rows.json';
        create view v as select * from 'rows.json'; select sum(id) as s from (select * from v);
        copy (select 7 as id) to 'new.csv' stored as csv options ('format.has_header' 'true'); select * from 'new.csv';
        copy (select 'x' as t) to 'new.csv' stored as csv options ('format.has_header' 'true'); select * from 'new.csv';
    """
    lines = succeeds("sql", "--format", "csv", "-c", script, folder=folder).splitlines()
    assert lines == [
        '"n"', "6", '"column_name","data_type","is_nullable"', '"id","Int64","YES"', '"s"', "3",
        '"count"', "1", '"id"', "7", '"count"', "1", '"t"', '"x"',
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("select * from 'nope.parquet'", "there is nothing at 'nope.parquet'"),
        ("select * from rows r join 'nope.lance' using (id)", "there is nothing at 'nope.lance'"),
        ("select * from 'nope'", "nope is neither a Lance table nor a file or folder"),
    ],
)
def test_a_quoted_path_that_is_not_there_is_named(folder: Path, statement: str, said: str) -> None:
    """C24"""
    done = headrace("sql", "--table", "rows=rows.csv", "-c", statement, folder=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr


@pytest.mark.parametrize(
    ("statement", "paths"),
    [
        ("select 'a.csv' from 'b.csv'", ["b.csv"]),
        ("select * FROM\n'it''s.csv'", ["it's.csv"]),
        ("select * from t left join 'b.csv' using (x)", ["b.csv"]),
        ("select * from (select * from('b.csv'))", ["b.csv"]),
        ("select * from /* 'c.csv' */ 'b.csv' -- from 'd.csv'", ["b.csv"]),
        ("select * from 'b.csv' x, 'c.csv' y, 'b.csv'", ["b.csv", "c.csv"]),
        ("select * from t where x = 'b.csv'", []),
        ("select afrom 'b.csv'", []),
        ('select "from" \'b.csv\', "x" from t', []),
        ("select * from ''", []),
    ],
)
def test_a_path_is_a_quoted_text_where_a_table_is_expected(statement: str, paths: list[str]) -> None:
    """C24"""
    assert quoted_paths(statement) == paths


def test_only_the_command_reads_quoted_paths(folder: Path) -> None:
    """C24: SQL that a program passes to a session cannot name files, whether it is read-only or not."""
    with SessionContext() as session:
        frame = plan(session, f"select count(*) as n from '{folder}/rows.csv'", {})
        for read_only in (True, False):
            with pytest.raises(PlanError, match=r"rows.csv' not found"):
                session.sql(f"select * from '{folder}/rows.csv'", read_only=read_only)
        assert frame.collect().read_all().to_pylist() == [{"n": 3}]


def test_a_text_that_looks_like_a_path_is_a_text(folder: Path) -> None:
    """C24: after FROM in a function, and in a list."""
    asked = "select trim('x' from 'nope.csv') as a, 'b' in ('c', 'rows.csv') as b"
    assert succeeds("sql", "--format", "csv", "-c", asked, folder=folder) == '"a","b"\n"nope.csv",false\n'


def test_rows_are_printed_in_every_form(folder: Path) -> None:
    """C13: with nulls, lists and bytes."""
    asked = ["sql", "--table", "t=rows.lance", "-c", "select * from t where id <= 2 order by id"]
    assert succeeds(*asked, folder=folder).splitlines() == [
        "┌────┬──────┬───────┬─────────┐",
        "│ id │ name │ v     │ b       │",
        "├────┼──────┼───────┼─────────┤",
        "│  1 │ a    │ [1.5] │ b'\\x01' │",
        "│  2 │ NULL │ []    │ b''     │",
        "└────┴──────┴───────┴─────────┘",
        "2 rows",
    ]
    assert succeeds(*asked, "--format", "csv", folder=folder) == '"id","name","v","b"\n1,"a","[1.5]","01"\n2,,"[]",""\n'
    assert [json.loads(line) for line in succeeds(*asked, "--format", "json", folder=folder).splitlines()] == [
        {"id": 1, "name": "a", "v": [1.5], "b": "01"},
        {"id": 2, "name": None, "v": [], "b": ""},
    ]
    done = subprocess.run(
        command(*asked, "--format", "arrow"), cwd=folder, capture_output=True, check=True, env=environment()
    )
    assert pa.ipc.open_stream(done.stdout).read_all().to_pylist() == ROWS.slice(0, 2).to_pylist()


def test_a_result_without_rows_still_has_its_columns() -> None:
    """C13."""
    asked = ["sql", "-c", "select 1 as one where false"]
    assert succeeds(*asked).splitlines()[-1] == "0 rows"
    assert "one" in succeeds(*asked)
    assert succeeds(*asked, "--format", "csv") == '"one"\n'
    assert succeeds(*asked, "--format", "json") == ""


def test_rows_come_while_the_query_runs() -> None:
    """C13: the first long before the last of very many."""
    asked = command("sql", "--format", "json", "-c", "select value from generate_series(1, 1000000000)")
    with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {"value": 1}
        process.kill()


def test_statements_come_from_the_line_a_file_or_a_pipe(tmp_path: Path) -> None:
    """C14: several, one after the other; the first that fails ends it."""
    text = "create table t as select 1 as x; -- a comment; with a semicolon\nselect x, ';' as s from t;"
    (tmp_path / "script.sql").write_text(text)
    expected = '"x","s"\n1,";"\n'
    for arguments, given in ((["-c", text], None), (["-f", str(tmp_path / "script.sql")], None), ([], text)):
        assert succeeds("sql", "--format", "csv", *arguments, given=given) == expected
    done = headrace("sql", "--format", "csv", "-c", "select 1 as a; select nope; select 2 as b")
    assert (done.returncode, done.stdout) == (1, '"a"\n1\n')
    assert headrace("sql", "-c", "select 1", "-f", str(tmp_path / "script.sql")).returncode == 2
    assert succeeds("sql", "-c", " -- nothing") == ""


@pytest.mark.parametrize(
    ("text", "statements", "is_whole"),
    [
        ("", [], True),
        (";;", [], True),
        ("select 1", ["select 1"], False),
        ("select 1;", ["select 1"], True),
        ("a;b", ["a", "b"], False),
        ("select ';' ; b;", ["select ';'", "b"], True),
        ("select 'it''s;' ;", ["select 'it''s;'"], True),
        ('select ";" ;', ['select ";"'], True),
        ("select 1 -- ;\n;", ["select 1 -- ;"], True),
        ("select /* ; */ 1;", ["select /* ; */ 1"], True),
        ("-- only a comment", [], True),
        ("select 'open;", ["select 'open;"], False),
        ("select 4 - 2 / 1;", ["select 4 - 2 / 1"], True),
    ],
)
def test_text_is_cut_where_a_statement_ends(text: str, statements: list[str], is_whole: bool) -> None:
    """C14: not inside quotes and comments."""
    assert split(text) == statements
    assert is_complete(text) == is_whole
