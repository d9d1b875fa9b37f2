"""The pipeline file: what it may say, and an error that points at the line for what it may not."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from headrace import ConfigurationError
from headrace.pipeline import Pipeline, load
from headrace.pipeline.config import Run, Source, Spark, Step, TableConfig
from headrace.pipeline.durations import seconds_of
from headrace.pipeline.spelling import PipelineSpelling
from headrace.pipeline.toml_lines import line_of
from headrace.spark import LanceSink
from headrace.tables.sink_settings import stream_settings

WHOLE = """\
name = " orders-v1 "
checkpoint = "notes"
trigger = "10 seconds"

[source]
format = "json"
path = "arriving"
schema = "id BIGINT"

[source.options]
maxFilesPerTrigger = 1
multiLine = true

[[step]]
name = "first"
sql = '''
SELECT *
sql = 'no key, this is inside of text'
FROM source
'''

[[step]]
sql = "SELECT id FROM first"

[table]
uri = "out/orders.lance"
mode = "upsert"
keys = ["id"]
create = true
compact_every_epochs = 50
retain_versions = 100

[table.storage]
region = "somewhere"
secret = "${SOME_SECRET}"

[spark]
master = "local[2]"

[spark.conf]
"spark.sql.shuffle.partitions" = 4

[run]
restart = "never"
max_restarts = 3
max_pause = "30 seconds"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.toml"
    path.write_text(WHOLE)
    return path


def read(file: Path, **environment: str) -> Pipeline:
    return load(file, {"SOME_SECRET": "hidden"} | environment)


def test_all_of_it_is_read(file: Path) -> None:
    """C10: paths are relative to the file, and secrets come from the environment and show in no text."""
    found = read(file)
    here = file.parent
    assert (found.name, found.trigger) == ("orders-v1", "10 seconds")
    assert found.checkpoint == str(here / "notes")
    assert (found.source.format, found.source.path) == ("json", str(here / "arriving"))
    assert found.source.options == {"maxFilesPerTrigger": 1, "multiLine": True}
    assert [step.name for step in found.step] == ["first", None]
    assert (found.table.uri, found.table.mode, found.table.keys) == (str(here / "out/orders.lance"), "upsert", ("id",))
    assert found.table.storage == {"region": "somewhere", "secret": "hidden"}
    assert (found.spark.master, found.spark.conf) == ("local[2]", {"spark.sql.shuffle.partitions": 4})
    assert (found.run.restart, found.run.max_restarts, found.run.max_pause) == ("never", 3, "30 seconds")
    assert "hidden" not in f"{found} {found.table!r}"


NAMESPACE = """\
name = "orders-v1"
source = { format = "rate" }
[table]
namespace = "dir"
table_id = "sales.orders"
mode = "upsert"
keys = ["id"]
create = true
merge_schema = true
on_checkpoint_reset = "accept"
on_table_replaced = "accept"
on_history_gap = "fail"
lookback_versions = 7
max_rows_per_file = 1000
max_bytes_per_file = 2000
data_storage_version = "2.1"
compact_every_epochs = 50
compact_above_fragments = 60
retain_versions = 100
storage = { region = "somewhere", allow_http = true, timeout = 5 }
[table.columns]
embedding = "vector(128)"
"small vector" = "vector(8, float16)"
[table.namespace_options]
root = "tables"
secret = "${SOME_SECRET}"
"""


def test_a_pipeline_file_has_every_setting_of_the_sink(tmp_path: Path) -> None:
    """C22: under the names of LanceSink's arguments, except create and storage; the root is relative to the file."""
    file = tmp_path / "pipeline.toml"
    file.write_text(NAMESPACE)
    found = read(file)
    same = {
        "namespace": "dir",
        "namespace_options": {"root": str(tmp_path / "tables"), "secret": "hidden"},
        "table_id": "sales.orders",
        "query_id": "orders-v1",
        "create_table": True,
        "merge_schema": True,
        "column_types": {"embedding": "vector(128)", "small vector": "vector(8, float16)"},
        "on_checkpoint_reset": "accept",
        "on_table_replaced": "accept",
        "on_history_gap": "fail",
        "lookback_versions": 7,
        "max_rows_per_file": 1000,
        "max_bytes_per_file": 2000,
        "data_storage_version": "2.1",
        "compact_every_epochs": 50,
        "compact_above_fragments": 60,
        "retain_versions": 100,
        "storage_options": {"region": "somewhere", "allow_http": "true", "timeout": "5"},
    }
    assert found.sink_settings() == stream_settings(same, PipelineSpelling())
    every = set(inspect.signature(LanceSink).parameters) - {"uri", "mode", "keys"}
    assert same.keys() == every
    assert (found.table.uri, found.table.label) == (None, "dir namespace table sales.orders")
    assert found.table.location.lance_arguments()["table_id"] == ["sales", "orders"]
    assert "hidden" not in f"{found} {found.table!r} {found.table.location}"


def test_a_table_id_can_be_a_list_and_a_root_an_address(tmp_path: Path) -> None:
    """C22"""
    file = tmp_path / "pipeline.toml"
    text = NAMESPACE.replace('"sales.orders"', '["sales.eu", "orders"]')
    file.write_text(text.replace('"tables"', '"s3://lake/tables"'))
    location = read(file).table.location
    assert location.table_id == ("sales.eu", "orders")
    assert location.namespace_options["root"] == "s3://lake/tables"


def test_reading_a_file_loads_neither_spark_nor_lance(file: Path) -> None:
    """C10: a wrong file is an error at once."""
    program = f"import sys, headrace.pipeline as p, pathlib; p.load(pathlib.Path({str(file)!r})); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"SOME_SECRET": "hidden"},
    )
    assert {"lance", "pyspark", "datafusion", "pyarrow"} & set(done.stdout.split()) == set()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1 second", 1), ("90 seconds", 90), ("1.5 minutes", 90), ("2 hours", 7200), ("1 Day", 86400), ("3minutes", 180)],
)
def test_durations_are_a_number_and_a_unit(text: str, seconds: float) -> None:
    """C10"""
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "soon", "-1 second", "0 seconds", "1 fortnight", "1 minute 2 seconds"])
def test_anything_else_is_no_duration(text: str) -> None:
    """C10"""
    assert seconds_of(text) is None


def test_little_is_needed(tmp_path: Path) -> None:
    """C10: a checkpoint has its place beside the file, and addresses stay as they are."""
    file = tmp_path / "small.toml"
    file.write_text('name = "a/b c"\n[source]\nformat = "rate"\n[table]\nuri = "s3://lake/t.lance"\n')
    found = load(file)
    assert found.checkpoint == str(tmp_path / ".headrace/checkpoints/a_b_c")
    assert (found.table.uri, found.table.mode, found.step) == ("s3://lake/t.lance", "append", ())
    assert (found.source.path, found.spark.master) == (None, "local[*]")


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ('format = "json"', 'formt = "json"', 6, "source.formt is not known. Hint: did you mean format?"),
        ('format = "json"', "", 5, "source needs format."),
        ('format = "json"', 'format = ""', 6, "source.format must not be empty."),
        ('path = "arriving"', "path = 3", 7, "source.path must be text, not a whole number."),
        ("maxFilesPerTrigger = 1", "maxFilesPerTrigger = [1]", 11, "source.options.maxFilesPerTrigger must be text, a"),
        ('name = "first"', 'name = "source"', 15, "step[0].name is 'source', which is already used."),
        ('name = "first"', 'name = "a b"', 15, "step[0].name is 'a b'; it may contain only letters"),
        ('sql = "SELECT id FROM first"', "", 22, "step[1] needs sql."),
        ('sql = "SELECT id FROM first"', 'sql = " "', 23, "step[1].sql must not be empty."),
        (
            'mode = "upsert"',
            'mode = "upsrt"',
            27,
            "table.mode is 'upsrt'; it must be one of append, complete, update, upsert.",
        ),
        (
            "create = true",
            'on_table_replaced = "no"',
            29,
            "table.on_table_replaced is 'no'; it must be fail or accept.",
        ),
        ('mode = "upsert"', 'mode = "append"', 28, "table.keys is only allowed with mode upsert."),
        ('keys = ["id"]', "", 27, "table.mode is upsert, which needs keys."),
        ("create = true", 'create = "yes"', 29, "table.create must be true or false, not text."),
        ("retain_versions = 100", "retain_versions = 0", 31, "table.retain_versions is 0; it must be a whole number"),
        ("compact_every_epochs = 50", "", 31, "table.retain_versions is part of compaction, and compaction is off."),
        ("create = true", "max_rows_per_file = 0", 29, "table.max_rows_per_file is 0; it must be a whole number"),
        ("create = true", 'on_history_gap = "no"', 29, "table.on_history_gap is 'no'; it must be warn or fail."),
        ("create = true", "lookback_versions = 0", 29, "table.lookback_versions is 0; it must be a whole number from"),
        ("create = true", "table_id = 3", 29, "table.table_id must be text or a list, not a whole number."),
        ("create = true", 'namespace = "dir"', 29, "table.namespace and table.table_id go together, and only"),
        ("create = true", 'table_id = "t"', 29, "table.namespace and table.table_id go together, and only table.tab"),
        ('uri = "out/orders.lance"', "", 25, "The table's address is missing: there is no table.uri. Hint: in [tab"),
        (
            "create = true",
            'namespace = "dir"\ntable_id = "orders"',
            26,
            "The table's address is given twice: as a table.uri, and in a namespace. Hint: in [table], set uri",
        ),
        ("create = true", 'create = true\ncolumns = { v = "vector(0)" }', 30, "table.columns.v is 'vector(0)'; it mu"),
        ("[table.storage]", '[table.columns]\n\nv = "x"\n[table.storage]', 35, "table.columns.v is 'x'; it must be ve"),
        ("[table.storage]", "[table.columns]\nv = 2\n[table.storage]", 34, "table.columns.v is 2; it must be vector(S"),
        ("create = true", 'columns = { v = "vector(2)" }', 29, "table.columns is for columns that are created, and th"),
        ("create = true", "namespace_options = { root = [1] }", 29, "table.namespace_options.root must be text, a"),
        (
            'restart = "never"',
            'restart = "always"',
            44,
            "run.restart is 'always'; it must be one of on-failure, never.",
        ),
        ("max_restarts = 3", "max_restarts = -1", 45, "run.max_restarts is -1; it must be at least 0."),
        (
            '"30 seconds"',
            '"soon"',
            46,
            "run.max_pause is 'soon', which is no duration. Hint: write it as \"30 seconds\".",
        ),
        ("${SOME_SECRET}", "${NOBODY_SET_IT}", 35, "table.storage.secret needs the environment variable NOBODY_SET_IT"),
        ('name = " orders-v1 "', "", None, "name is missing."),
        (
            'name = " orders-v1 "',
            'name = " "',
            1,
            "name is missing or blank: it is the key by which headrace recognises epochs that have landed. Hint: "
            'choose a name that no other query on this table has, as in name = "orders-v1".',
        ),
        ("[spark]", "[sparc]", 37, "sparc is not known. Hint: did you mean spark?"),
        ("[spark]", "[unheard.of]", 37, "unheard is not known. Hint: the known keys are name, source, table"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(file: Path, old: str, new: str, line: int | None, said: str) -> None:
    """C10: before anything is done."""
    assert old in WHOLE
    file.write_text(WHOLE.replace(old, new, 1))
    with pytest.raises(ConfigurationError) as caught:
        read(file)
    place = f"{file}:{line}: " if line else f"{file}: "
    assert str(caught.value).startswith(f"{place}{said}")


def test_what_is_no_file_or_no_toml_is_an_error(tmp_path: Path) -> None:
    """C10: with the way to a file, or the line."""
    with pytest.raises(ConfigurationError, match=r"nowhere.toml cannot be read.*headrace init"):
        load(tmp_path / "nowhere.toml")
    (tmp_path / "broken.toml").write_text("name = \n")
    with pytest.raises(ConfigurationError, match=r"broken.toml is not valid TOML: .*line 1"):
        load(tmp_path / "broken.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match=r"bytes.toml cannot be read"):
        load(tmp_path / "bytes.toml")


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("a", 1),
        ("b.c", 2),
        ("t", 3),
        ("t.d e", 4),
        ("t.sub.x", 6),
        ("list[0].y", 8),
        ("list[1].y", 10),
        ("list[1].z", 9),
        ("t.nowhere", 3),
        ("nowhere", None),
    ],
)
def test_a_key_is_found(key: str, line: int | None) -> None:
    """C10: dotted, quoted, in tables and in lists of them; what is not there is where it would be."""
    text = 'a = 1\nb . c = 2\n[t] # note\n"d e" = 3\n[ t.sub ]\nx = 4\n[[list]]\ny = 1\n[[list]]\ny = 2\n'
    assert line_of(text, key) == line


# Keys that exclude others: those of other sources, of a table in a namespace, and of upserts.
OTHERWISE = {"format", "path", "schema", "options", "namespace", "namespace_options", "table_id", "keys"}


def uncommented(text: str, *, otherwise: set[str] = OTHERWISE) -> str:
    """The file with every key that is commented out, and with the SQL in it."""
    lines, is_sql = [], False
    for line in text.splitlines():
        code = line.removeprefix("# ")
        key = re.match(r'\[|"?([\w.]+)"? = ', code)
        if code != line and (is_sql or (key and key[1] not in otherwise)):
            is_sql = is_sql != (code.count('"""') == 1)
            line = code
        lines.append(line)
    return "\n".join(lines)


def test_the_file_that_init_writes_is_one(tmp_path: Path) -> None:
    """C11: and so are the lines in it that are commented out."""
    from headrace.cli.main import main

    assert main(["init", str(tmp_path / "new")]) == 0
    file = tmp_path / "new" / "pipeline.toml"
    assert load(file, {}).name == "numbers-v1"
    assert main(["init", str(tmp_path / "new")]) == 2
    text = uncommented(file.read_text())
    file.write_text(text)
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    found = load(file, dict(os.environ) | keys)
    assert (found.table.retain_versions, found.table.on_table_replaced) == (100, "accept")
    assert found.table.columns == {"embedding": "vector(128)"}
    assert (len(found.step), found.run.max_restarts) == (2, 20)
    namespaced = uncommented(text, otherwise=OTHERWISE - {"namespace", "namespace_options", "table_id"})
    file.write_text(namespaced.replace('uri = "numbers.lance"', ""))
    assert load(file, dict(os.environ) | keys).table.label == "dir namespace table sales.numbers"


SECTIONS = {"": Pipeline, "source": Source, "step": Step, "table": TableConfig, "spark": Spark, "run": Run}


@pytest.mark.parametrize("section", SECTIONS)
def test_every_key_is_in_the_file_that_init_writes_and_on_the_page(section: str) -> None:
    """C11"""
    text = (files("headrace.pipeline") / "templates/pipeline.toml").read_text()
    page = (Path(__file__).parents[2] / "docs/command.md").read_text()
    for name in SECTIONS[section].__struct_fields__:
        key = f"{section}.{name}" if section else name
        assert re.search(rf"^(# )?(\[\[?{re.escape(key)}\]|{name} = )", text, re.MULTILINE), key
        assert f"| `{key}` |" in page or f"| `{key}.*` |" in page or name in SECTIONS, key
