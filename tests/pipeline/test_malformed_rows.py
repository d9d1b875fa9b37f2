"""What Spark's readers make of lines that do not fit, as docs/command.md describes it, and how many null rows land."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace import ExecutionError
from headrace.pipeline import load
from headrace.pipeline.progress import Progress, Totals
from headrace.pipeline.runner import Job
from support.hearing import Hearing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "id BIGINT, item STRING, total DOUBLE"

JSON = {
    '{"id": 1, "item": "a", "total": 1.5}': [(1, "a", 1.5)],
    "not json": [(None, None, None)],
    '{"id": 2, "item": "b"': [(None, None, None)],
    '{"id": "x", "item": "c", "total": 2.5}': [(None, "c", 2.5)],
    '{"id": 9.7, "item": 12, "total": "1.5"}': [(None, "12", None)],
    '{"id": 5, "item": "e", "total": 5.5, "extra": 7}': [(5, "e", 5.5)],
    '{"ID": 6}': [(None, None, None)],
    '{"id": 7} more': [(7, None, None)],
    "": [],
    '[{"id": 21}, {"id": 22}]': [(21, None, None), (22, None, None)],
}
MALFORMED_JSON = [
    line for line in JSON if line == "not json" or line.startswith(('{"id": 2,', '{"id": "x"', '{"id": 9.7'))
]

CSV = {
    "id,item,total": [],
    "1,a,1.5": [(1, "a", 1.5)],
    "x,b,2.5": [(None, "b", 2.5)],
    "3,c": [(3, "c", None)],
    "4,d,4.5,extra": [(4, "d", 4.5)],
    ",,": [(None, None, None)],
    "": [],
    "junk": [(None, None, None)],
}
MALFORMED_CSV = ["x,b,2.5", "3,c", "4,d,4.5,extra", "junk"]

LINES = {"json": JSON, "csv": CSV}
MALFORMED = {"json": MALFORMED_JSON, "csv": MALFORMED_CSV}
HEADER = {"json": {}, "csv": {"header": True}}


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Callable[..., Totals]:
    """Runs a pipeline over the file ``in/a`` in which these lines are."""
    (tmp_path / "in").mkdir()

    def run(format: str, lines: Any = None, *steps: str, schema: str | None = COLUMNS, **options: object) -> Totals:
        if lines is not None:
            (tmp_path / "in" / "a").write_text("\n".join(lines))
        file = tmp_path / "pipeline.toml"
        given = ", ".join(f"{name} = {json.dumps(value)}" for name, value in options.items())
        file.write_text(
            f'name = "job"\n[source]\nformat = "{format}"\npath = "in"\noptions = {{ {given} }}\n'
            + (f'schema = "{schema}"\n' if schema else "")
            + "".join(f"[[step]]\nsql = '''{step}'''\n" for step in steps)
            + '[table]\nuri = "out.lance"\ncreate = true\n'
        )
        told: list[Progress] = []
        try:
            totals = Job(load(file), spark, follow=False).run(Hearing(lambda progress, _: told.append(progress)))
        finally:
            for view in ("source", "step1", "step2"):
                spark.catalog.dropTempView(view)
        assert sum(progress.null_rows for progress in told) == totals.null_rows
        return totals

    return run


def landed(folder: Path) -> list[tuple[Any, ...]]:
    """Return the rows in the table, sorted."""
    found = lance.dataset(str(folder / "out.lance")).to_table().to_pylist()
    return in_order(tuple(row.values()) for row in found)


def cause(caught: pytest.ExceptionInfo[ExecutionError]) -> str:
    """Return Spark's words, which are in its output too."""
    return str(caught.value.__cause__)


def in_order(rows: Any) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


@pytest.mark.parametrize(
    "mode",
    [{}, {"mode": "FAILFSAT"}, {"columnNameOfCorruptRecord": "bad"}],
    ids=["default", "misspelt", "a column that is not in the schema"],
)
@pytest.mark.parametrize("format", ["json", "csv"])
def test_lines_that_do_not_fit_become_other_rows(
    run: Callable[..., Totals], tmp_path: Path, format: str, mode: dict[str, str]
) -> None:
    """C25: silently, in the default mode and in one that is misspelt, and where the schema says NOT NULL."""
    schema = COLUMNS.replace("BIGINT", "BIGINT NOT NULL")
    totals = run(format, LINES[format], schema=schema, **HEADER[format], **mode)
    expected = [row for rows in LINES[format].values() for row in rows]
    assert landed(tmp_path) == in_order(expected)
    assert (totals.rows, totals.null_rows) == (len(expected), expected.count((None, None, None)))


@pytest.mark.parametrize("format", ["json", "csv"])
def test_failfast_stops_the_run(run: Callable[..., Totals], tmp_path: Path, format: str) -> None:
    """C25: nothing of the epoch lands, and a file that is corrected in place is read by the next run."""
    good = [line for line in LINES[format] if line not in MALFORMED[format]]
    with pytest.raises(ExecutionError) as caught:
        run(format, [*good, MALFORMED[format][1]], mode="FAILFAST", **HEADER[format])
    assert "MALFORMED_RECORD_IN_PARSING" in cause(caught)
    assert str(tmp_path / "in" / "a") in cause(caught)
    assert landed(tmp_path) == []
    run(format, good, mode="FAILFAST", **HEADER[format])
    assert landed(tmp_path) == in_order(row for line in good for row in LINES[format][line])


@pytest.mark.parametrize("format", ["json", "csv"])
def test_dropmalformed_leaves_malformed_lines_out(run: Callable[..., Totals], tmp_path: Path, format: str) -> None:
    """C25: also those of which one value does not fit; they are not in any count."""
    totals = run(format, LINES[format], mode="DROPMALFORMED", **HEADER[format])
    expected = [row for line, rows in LINES[format].items() if line not in MALFORMED[format] for row in rows]
    assert landed(tmp_path) == in_order(expected)
    assert totals.rows == len(expected)


@pytest.mark.parametrize("format", ["json", "csv"])
def test_a_column_keeps_malformed_lines(run: Callable[..., Totals], tmp_path: Path, format: str) -> None:
    """C25: beside the values that could be read; their rows are then not null in every column."""
    name = {"columnNameOfCorruptRecord": "bad"}
    totals = run(format, LINES[format], schema=f"{COLUMNS}, bad STRING", **HEADER[format], **name)
    bad = MALFORMED[format]
    expected = [(*row, line if line in bad else None) for line, rows in LINES[format].items() for row in rows]
    assert landed(tmp_path) == in_order(expected)
    assert totals.null_rows == expected.count((None,) * 4) == 1


def test_the_column_of_malformed_lines_cannot_be_read_alone(run: Callable[..., Totals]) -> None:
    """C25: Spark refuses that."""
    with pytest.raises(ExecutionError, match="QUERY_ONLY_CORRUPT_RECORD_COLUMN"):
        run("json", JSON, "SELECT _corrupt_record FROM source", schema=f"{COLUMNS}, _corrupt_record STRING")


def test_only_columns_that_the_steps_use_are_checked(run: Callable[..., Totals], tmp_path: Path) -> None:
    """C25: a value that does not fit goes unnoticed in another column, in FAILFAST too."""
    run("json", ['{"id": "x", "item": "a"}'], "SELECT item FROM source", mode="FAILFAST")
    assert landed(tmp_path) == [("a",)]


@pytest.mark.parametrize("is_pruned", [True, False])
def test_the_number_of_fields_is_checked_if_columns_are_not_pruned(
    run: Callable[..., Totals], tmp_path: Path, is_pruned: bool
) -> None:
    """C25: of a line of CSV from which the steps use a part."""
    schema, step = f"{COLUMNS}, _corrupt_record STRING", "SELECT item, _corrupt_record FROM source"
    run("csv", ["1,a,1.5", "2,b"], step, schema=schema, columnPruning=is_pruned)
    assert landed(tmp_path) == [("a", None), ("b", None if is_pruned else "2,b")]


def test_fields_of_csv_are_matched_by_position(run: Callable[..., Totals], tmp_path: Path) -> None:
    """C25: whatever the header says, unless `enforceSchema` is false: then another header stops the run."""
    lines = ["item,id,total", "a,1,1.5"]
    with pytest.raises(ExecutionError) as caught:
        run("csv", lines, header=True, enforceSchema=False)
    assert "CSV header does not conform to the schema" in cause(caught)
    run("csv", lines, header=True)
    assert landed(tmp_path) == [(None, "1", 1.5)]


@pytest.mark.parametrize("has_option", [False, True])
@pytest.mark.parametrize(
    ("format", "lines", "apart", "together"),
    [
        ("json", ["{", '  "id": 1,', '  "item": "a"', "}"], [(None, None)] * 4, [(1, "a")]),
        ("csv", ['1,"a', 'b"'], [(1, "a"), (None, None)], [(1, "a\nb")]),
    ],
    ids=["json", "csv"],
)
def test_values_over_several_lines_need_an_option(
    run: Callable[..., Totals], tmp_path: Path, format: str, lines: Any, apart: Any, together: Any, has_option: bool
) -> None:
    """C25: without `multiLine`, each line is read alone."""
    totals = run(format, lines, schema="id BIGINT, item STRING", multiLine=has_option)
    expected = together if has_option else apart
    assert landed(tmp_path) == in_order(expected)
    assert totals.null_rows == expected.count((None, None))


def test_a_column_that_a_step_adds_hides_null_rows(run: Callable[..., Totals], tmp_path: Path) -> None:
    """C25: they are counted over the columns that land."""
    assert run("json", ["not json"], "SELECT *, 1 AS one FROM source").null_rows == 0
    assert landed(tmp_path) == [(None, None, None, 1)]


def test_new_fields_are_seen_in_the_text(run: Callable[..., Totals], tmp_path: Path) -> None:
    """C25: with `from_json` for the values and `json_object_keys` for the names."""
    parse = f"""
        SELECT from_json(value, '{COLUMNS}') AS row,
               array_except(json_object_keys(value), array('id', 'item', 'total')) AS new_fields
        FROM source"""
    lines = ['{"id": 5, "item": "e", "total": 5.5, "extra": 7}', '{"id": 1}', "not json"]
    totals = run("text", lines, parse, "SELECT row.*, new_fields FROM step1", schema=None)
    assert landed(tmp_path) == in_order([(5, "e", 5.5, ["extra"]), (1, None, None, []), (None, None, None, None)])
    assert totals.null_rows == 1


def test_a_variant_keeps_every_field(run: Callable[..., Totals], tmp_path: Path) -> None:
    """C25: and beside it, another column keeps the lines that are no JSON."""
    run(
        "json",
        ['{"id": 5, "extra": 7}', '{"id": "x"}', "not json"],
        "SELECT try_variant_get(v, '$.id', 'BIGINT') AS id, to_json(v) AS line, _corrupt_record FROM source",
        schema="v VARIANT, _corrupt_record STRING",
        singleVariantColumn="v",
    )
    assert landed(tmp_path) == in_order(
        [(5, '{"extra":7,"id":5}', None), (None, '{"id":"x"}', None), (None, None, "not json")]
    )


def test_columns_of_parquet_are_matched_by_name(run: Callable[..., Totals], tmp_path: Path) -> None:
    """C25: missing ones are null and new ones vanish; another type stops the run."""
    pq.write_table(pa.table({"id": [1, None], "new": ["a", "b"]}), tmp_path / "in" / "a.parquet")
    totals = run("parquet")
    assert landed(tmp_path) == in_order([(1, None, None), (None, None, None)])
    assert totals.null_rows == 1
    pq.write_table(pa.table({"id": ["x"]}), tmp_path / "in" / "b.parquet")
    with pytest.raises(ExecutionError) as caught:
        run("parquet")
    assert "PARQUET_COLUMN_DATA_TYPE_MISMATCH" in cause(caught)
