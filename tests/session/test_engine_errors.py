"""Every kind of engine error, provoked in the real engine: its class, its message and its cause.

The engine's errors carry their kind only in their text, so these tests fail if an upgrade rewords one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace

# The engine's wrapper texts, which do not help a user.
NOISE = ("DataFusion error", "External error", "External:", "Arrow error", "Result::unwrap", "Optimizer rule")

FEW_ROWS = pa.table({"x": [1, 2, 3], "word": ["one", "two", "three"]})

# A panic is a bug of the engine, and an upgrade may fix it. Replace it then with another engine bug.
PANIC = "date_trunc('week', arrow_cast(-9223372036854775808, 'Timestamp(ns)'))"
PANIC_IN_A_ROW = "date_trunc('week', arrow_cast(x - x - 9223372036854775807 - 1, 'Timestamp(ns)'))"


@pytest.fixture
def session() -> Iterator[headrace.SessionContext]:
    """A session with a little data, which must still work after the test."""
    with headrace.SessionContext(target_partitions=2) as session:
        session.register_arrow("few", FEW_ROWS)
        yield session
        assert session.sql("SELECT sum(x) AS total FROM few").collect().read_all()["total"].to_pylist() == [6]


def error_of(call: Callable[[], object]) -> headrace.HeadraceError:
    """Return the error that a call raises, after the checks that apply to every engine error."""
    with pytest.raises(headrace.HeadraceError) as caught:
        call()
    error = caught.value
    assert isinstance(error.__cause__, BaseException), "the original is lost"
    assert not isinstance(error.__cause__, headrace.HeadraceError)
    message = str(error)
    assert message.rstrip().endswith((".", "?")), message
    assert not [noise for noise in NOISE if noise in message], message
    return error


def run(session: headrace.SessionContext, sql: str) -> pa.Table:
    return session.sql(sql).collect().read_all()


PLAN_ERRORS = {
    "no SQL": ("SELEC 1", "SELEC"),
    "SQL that is cut off": ("SELECT 1 +", "expression"),
    "an unknown table": ("SELECT * FROM nowhere", "nowhere"),
    "an unknown column": ("SELECT nothing FROM few", "nothing"),
    "an unknown function": ("SELECT no_such_function(x) FROM few", "no_such_function"),
    "an argument of the wrong type": ("SELECT sum(word) FROM few", "sum"),
    "a column neither grouped nor aggregated": ("SELECT word, sum(x) FROM few GROUP BY x", "word"),
    "types that cannot be compared": ("SELECT 1 FROM few WHERE x > [1]", ""),
    "two statements": ("SELECT 1; SELECT 2", "single"),
    "a negative limit": ("SELECT x FROM few LIMIT -1", "-1"),
}


@pytest.mark.parametrize("case", PLAN_ERRORS)
def test_a_query_that_cannot_be_planned_is_a_plan_error(session, case: str) -> None:
    """S8, S10: sql() or the execution raises it, and the message names the mistake."""
    sql, word = PLAN_ERRORS[case]
    error = error_of(lambda: run(session, sql))
    assert type(error) is headrace.PlanError
    assert word.lower() in str(error).lower()


def test_a_frame_whose_execution_could_not_be_planned_closes_harmlessly(session) -> None:
    """S8: close() after the error is a no-op, any number of times, and the session stays usable."""
    frame = session.sql("SELECT x FROM few LIMIT -1")
    assert type(error_of(frame.execute_stream)) is headrace.PlanError
    frame.close()
    frame.close()


def test_a_transformation_that_cannot_be_planned_leaves_its_frame_usable(session) -> None:
    """S8, S5: the transformation raises; its frame is unchanged."""
    frame = session.sql("SELECT x FROM few")
    for change in (lambda: frame.select("nothing"), lambda: frame.filter("nothing > 1"), lambda: frame.sort("nothing")):
        error = error_of(change)
        assert type(error) is headrace.PlanError
    assert frame.count() == 3


def test_an_unknown_table_by_name_is_a_plan_error_that_names_it(session) -> None:
    """S8: the class does not depend on how the table is named."""
    error = error_of(lambda: session.table("nowhere"))
    assert type(error) is headrace.PlanError
    assert "'nowhere'" in str(error)
    assert '"' not in str(error)


EXECUTION_ERRORS = {
    "a division by zero of constants": ("SELECT 1 / 0", "by zero"),
    "a division by zero in a row": ("SELECT 1 / (x - 2) FROM few", "by zero"),
    "a cast of a constant": ("SELECT CAST('one' AS INT)", "'one'"),
    "a cast in a row": ("SELECT CAST(word AS INT) FROM few", "'one'"),
    "an overflow": ("SELECT abs(x - 4 - 9223372036854775805) FROM few", "overflow"),
    "a subquery with too many rows": ("SELECT (SELECT x FROM few) AS one", "one row"),
    "a division in a statement that runs at once": ("CREATE TABLE bad AS SELECT 1 / (x - 2) FROM few", "by zero"),
}


@pytest.mark.parametrize("case", EXECUTION_ERRORS)
def test_a_query_that_fails_while_it_runs_is_an_execution_error(session, case: str) -> None:
    """S10: the exact class: no engine bug, file or limit caused it."""
    sql, word = EXECUTION_ERRORS[case]
    error = error_of(lambda: run(session, sql))
    assert type(error) is headrace.ExecutionError
    assert word in str(error).lower()


@pytest.mark.parametrize("text", ["IO error", "Resources exhausted", "Internal error", "SQL error", "Parquet error: x"])
@pytest.mark.parametrize("sql", ["SELECT CAST(word AS INT) FROM texts", "SELECT CAST('{}' AS INT)"])
def test_words_in_the_data_do_not_change_the_kind(session, sql: str, text: str) -> None:
    """S10: the engine quotes values in its messages, and a value may look like another error."""
    session.register_arrow("texts", pa.table({"word": [text]}))
    error = error_of(lambda: run(session, sql.format(text)))
    assert type(error) is headrace.ExecutionError
    assert text in str(error)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT value FROM generate_series(1, 1000000) ORDER BY value % 1000",
        "SELECT value, count(*) FROM generate_series(1, 1000000) GROUP BY value",
        "SELECT count(*) FROM generate_series(1, 300000) a JOIN generate_series(1, 300000) b ON a.value = b.value",
    ],
    ids=["sort", "aggregate", "join"],
)
def test_a_query_over_the_memory_limit_says_which_setting_to_raise(sql: str) -> None:
    """S10, S4: spilling is off; the session stays usable."""
    with headrace.SessionContext(memory_limit="500KB", spill=False, target_partitions=2) as session:
        error = error_of(lambda: run(session, sql))
        assert type(error) is headrace.ResourcesExhaustedError
        assert "memory_limit" in error.hint
        assert "memory_limit" in str(error)
        assert run(session, "SELECT 1 AS one").num_rows == 1


def parquet(path: Path, rows: int = 10_000) -> Path:
    pq.write_table(pa.table({"x": range(rows)}), path, row_group_size=1000, compression="none")
    return path


def test_a_file_that_is_not_parquet_is_a_storage_error_at_registration(session, tmp_path: Path) -> None:
    """S10: no table is registered."""
    path = tmp_path / "junk.parquet"
    path.write_bytes(b"this is no parquet file at all")
    error = error_of(lambda: session.register_parquet("junk", path))
    assert type(error) is headrace.StorageError
    assert not session.table_exists("junk")


@pytest.mark.parametrize(
    ("register", "suffix", "text"),
    [
        ("register_csv", "csv", "a,b\n1,2\n3\n"),
        ("register_json", "json", '{"a": 1}\n{"a": \n'),
        ("register_arrow", "arrow", "this is no Arrow file at all"),
    ],
    ids=["csv", "json", "arrow"],
)
def test_a_malformed_file_is_a_storage_error_at_registration(session, tmp_path, register, suffix, text) -> None:
    """S10: an unreadable file is neither a bug of the engine nor a mistake in the query."""
    path = tmp_path / f"bad.{suffix}"
    path.write_text(text)
    error = error_of(lambda: getattr(session, register)("bad", path))
    assert type(error) is headrace.StorageError
    assert not session.table_exists("bad")


def test_a_path_without_a_file_is_a_storage_error_that_names_it(session, tmp_path: Path) -> None:
    """S10: the check runs before the engine is called, so the error has no cause."""
    missing = tmp_path / "missing.parquet"
    for register in (session.register_parquet, session.register_csv, session.register_json, session.register_arrow):
        with pytest.raises(headrace.StorageError, match=r"missing\.parquet"):
            register("missing", str(missing))
    assert not session.table_exists("missing")


def test_a_corrupt_page_is_a_storage_error_when_it_is_read(session, tmp_path: Path) -> None:
    """S10: the footer is valid, so the error appears only when the page is read."""
    path = parquet(tmp_path / "bitrot.parquet")
    content = bytearray(path.read_bytes())
    # The header of the first page follows the magic bytes.
    content[4:40] = b"\xff" * 36
    path.write_bytes(bytes(content))
    session.register_parquet("bitrot", path)
    error = error_of(lambda: run(session, "SELECT sum(x) FROM bitrot"))
    assert type(error) is headrace.StorageError


def test_a_file_removed_while_the_query_waits_to_be_read_is_a_storage_error(session, tmp_path: Path) -> None:
    """S10: the stream was built lazily, and the file is removed before the first batch is read."""
    path = parquet(tmp_path / "going.parquet")
    session.register_parquet("going", path)
    reader = session.sql("SELECT x FROM going").execute_stream()
    path.unlink()
    error = error_of(reader.read_all)
    assert type(error) is headrace.StorageError
    assert "going.parquet" in str(error)


def test_a_query_over_a_removed_file_raises_and_returns_no_empty_table(session, tmp_path: Path) -> None:
    """S10: the rows that were there at registration do not silently disappear."""
    path = parquet(tmp_path / "gone.parquet")
    session.register_parquet("gone", path)
    path.unlink()
    with pytest.raises(headrace.StorageError, match=r"gone\.parquet"):
        run(session, "SELECT x FROM gone")


def test_a_malformed_row_is_an_execution_error_that_quotes_it(session, tmp_path: Path) -> None:
    """S10: the types were inferred from the valid rows."""
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n1,2\n")
    session.register_csv("rows", path)
    path.write_text("a,b\none,2\n")
    error = error_of(lambda: run(session, "SELECT sum(a) FROM rows"))
    assert isinstance(error, headrace.ExecutionError)
    assert "'one'" in str(error)


@pytest.mark.parametrize(
    "config",
    [
        {"datafusion.no_such_setting": 1},
        {"datafusion.execution.batch_size": "abc"},
        {"datafusion.execution.batch_size": -1},
        {"datafusion.optimizer.enable_round_robin_repartition": "perhaps"},
    ],
    ids=str,
)
def test_an_engine_setting_that_the_engine_refuses_is_a_configuration_error(config, capfd) -> None:
    """S10: the message names the setting without the engine's internal words, and nothing panics on stderr."""
    error = error_of(lambda: headrace.SessionContext(config=config))
    assert type(error) is headrace.ConfigurationError
    name, value = next(iter(config.items()))
    assert name.rpartition(".")[2] in str(error) or repr(value) in str(error)
    assert "panicked" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        {"target_partitions": 0},
        {"batch_size": True},
        {"memory_limit": "lots"},
        {"memory_limit": 0},
        {"spill": "no/such/folder"},
        {"ordered": 1},
        {"low_latency": 1},
        {"config": {"batch_size": 1}},
        {"config": ["datafusion.execution.batch_size"]},
        {"config": {"datafusion.execution.batch_size": 0}},
    ],
    ids=str,
)
def test_an_invalid_setting_of_a_session_is_a_configuration_error(arguments) -> None:
    """S10: it is refused before an engine is made, and the message names the setting."""
    with pytest.raises(headrace.ConfigurationError) as caught:
        headrace.SessionContext(**arguments)
    assert next(iter(arguments)) in str(caught.value) or "engine setting" in str(caught.value)


@pytest.mark.parametrize(
    "statement", ["SET datafusion.no_such_setting = 1", "SET datafusion.execution.batch_size = 'abc'"]
)
def test_an_invalid_set_statement_is_an_error_that_names_the_mistake(session, statement: str) -> None:
    """S10: the class is that of a wrong query or of a wrong setting, depending on what must be corrected."""
    error = error_of(lambda: session.sql(statement))
    assert isinstance(error, (headrace.PlanError, headrace.ConfigurationError))
    assert "no_such_setting" in str(error) or "abc" in str(error)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT {PANIC} AS week",
        f"SELECT {PANIC_IN_A_ROW} AS week FROM few",
        f"SELECT {PANIC_IN_A_ROW} AS week FROM few ORDER BY 1",
        f"SELECT {PANIC_IN_A_ROW} AS week, count(*) FROM many GROUP BY 1",
    ],
    ids=["planning", "a projection", "a sort", "a separate task"],
)
def test_a_panic_inside_the_engine_is_an_engine_error_and_the_session_survives(session, sql: str) -> None:
    """S10: wherever it panics; the error asks only for a bug report."""
    session.register_arrow("many", pa.table({"x": range(50_000)}))
    error = error_of(lambda: run(session, sql))
    assert type(error) is headrace.EngineError


def test_a_panic_names_the_tables_and_columns_that_were_read(session) -> None:
    """S10: the message names the tables, and only those columns that the query reads."""

    class Narrow(headrace.TableProvider):
        def schema(self) -> pa.Schema:
            return FEW_ROWS.schema

        def scan(self) -> pa.Table:
            return FEW_ROWS

        def scan_with(self, request: headrace.ScanRequest) -> pa.Table:
            return FEW_ROWS.select(list(request.columns))

    session.register_table("pulled", Narrow())
    error = error_of(lambda: run(session, f"SELECT {PANIC_IN_A_ROW} AS week FROM pulled"))
    assert type(error) is headrace.EngineError
    assert "panicked while the query read table 'pulled' (x): " in str(error)
