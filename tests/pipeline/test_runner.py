"""A pipeline on the move: every mode, steps, progress, stopping at an epoch's end, and what goes wrong in words."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import lance_namespace
import pyarrow as pa
import pytest

from headrace import (
    ConfigurationError,
    ExecutionError,
    PlanError,
    SchemaMismatchError,
    TableNotFoundError,
    TableReplacedError,
)
from headrace.cli.status_page import Counter
from headrace.pipeline import file_lag, load
from headrace.pipeline.file_lag import FileLag
from headrace.pipeline.progress import Progress, Totals
from headrace.pipeline.runner import Job, Stop
from headrace.tables.lance_store import LanceStore
from headrace.tables.location import Location
from headrace.tables.manage import checkpoint as checkpoints
from headrace.tables.manage.verify import verify
from support.deadlines import PROGRAM_SECONDS
from support.hearing import Hearing
from support.lance_tables import LanceTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ACCEPTING = r'on_table_replaced = "accept" in \[table\]'

# Four files, an epoch each, of two rows each.
FILES = [[(0, "a"), (1, "b")], [(2, "a"), (3, "b")], [(0, "c"), (4, "c")], [(5, "a"), (6, "a")]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    for number, rows in enumerate(FILES):
        lines = [json.dumps({"id": id, "kind": kind}) for id, kind in rows]
        file = tmp_path / "in" / f"{number}.json"
        file.write_text("\n".join(lines))
        os.utime(file, (1_000_000 + number, 1_000_000 + number))  # Spark takes the oldest first.
    return tmp_path


@pytest.fixture
def job(spark: SparkSession, folder: Path) -> Iterator[Callable[..., Job]]:
    """Makes a job of a file; views it leaves in the shared session are dropped."""

    def make(more: str = "", table: str = "create = true", stop: Stop | None = None, **changed: Any) -> Job:
        source = changed.get("source", '{ format = "json", path = "in", schema = "id BIGINT, kind STRING", '
                             "options = { maxFilesPerTrigger = 1 } }")  # fmt: skip
        file = folder / "pipeline.toml"
        trigger = f'trigger = "{changed["trigger"]}"\n' if "trigger" in changed else ""
        file.write_text(f'name = "job"\n{trigger}source = {source}\n{more}\n[table]\nuri = "out.lance"\n{table}\n')
        return Job(load(file), spark, follow=changed.get("follow", False), stop=stop)

    yield make
    for view in ("source", "first", "timed", "step1", "step2"):
        spark.catalog.dropTempView(view)


def rows(folder: Path) -> list[dict[str, Any]]:
    found = lance.dataset(str(folder / "out.lance")).to_table().to_pylist()
    return sorted(found, key=lambda row: [str(value) for value in row.values()])


def require_exact(folder: Path) -> None:
    notes = checkpoints.read(str(folder / ".headrace/checkpoints/job"))
    (account,) = verify(LanceStore(Location(str(folder / "out.lance"))), checkpoint=notes)
    assert account.problems == ()


def test_rows_go_through_the_steps_into_the_table(job: Callable[..., Job], folder: Path) -> None:
    """C15: each epoch is reported with its rows and times, and a second run finds nothing new."""
    steps = (
        '[[step]]\nname = "first"\nsql = "SELECT id * 10 AS id, kind FROM source"\n'
        "[[step]]\nsql = \"SELECT id, upper(kind) AS kind FROM first WHERE kind <> 'b'\"\n"
    )
    told: list[tuple[Progress, Totals]] = []
    totals = job(steps).run(Hearing(lambda progress, so_far: told.append((progress, so_far))))
    assert [row["id"] for row in rows(folder)] == [0, 0, 20, 40, 50, 60]
    assert {row["kind"] for row in rows(folder)} == {"A", "C"}
    assert [progress.epoch for progress, _ in told] == [0, 1, 2, 3]
    assert [progress.rows_landed for progress, _ in told] == [1, 1, 2, 2]
    # Spark's JSON reader applies the second step's filter itself, and does not count what it leaves out.
    assert [progress.rows_in for progress, _ in told] == [1, 1, 2, 2]
    assert [progress.version for progress, _ in told] == [3, 4, 5, 6]
    for progress, _ in told:
        assert set(progress.phases) == {"reading ahead", "planning", "writing", "committing", "noting"}
        assert 0 < sum(progress.phases.values()) <= progress.seconds * 1.5
        assert progress.phases["writing"] > progress.phases["committing"] > 0
    assert (totals.epochs, totals.rows, totals.skipped, totals.version) == (4, 6, 0, 6)
    assert job(steps).run() == Totals()
    require_exact(folder)


def test_a_table_that_is_gone_or_to_be_fed_in_another_mode_stops_the_pipeline(
    job: Callable[..., Job], folder: Path
) -> None:
    """C15, L40, L41: nothing is created or changed; the file can accept the loss."""
    job().run()
    shutil.rmtree(folder / "out.lance")
    (folder / "in" / "4.json").write_text('{"id": 7, "kind": "d"}')
    with pytest.raises(TableReplacedError, match=rf"epoch 4 .*does not have epochs 0-3.*{ACCEPTING}"):
        job().run()
    assert not (folder / "out.lance").exists()
    job(table='create = true\non_table_replaced = "accept"').run()
    assert [row["id"] for row in rows(folder)] == [7]
    require_exact(folder)
    (folder / "in" / "5.json").write_text('{"id": 8, "kind": "d"}')
    with pytest.raises(ConfigurationError, match=r"in mode upsert.*in mode append.*a new name\..*headrace forget"):
        job(table='mode = "upsert"\nkeys = ["id"]').run()
    job(table='mode = "update"').run()
    assert [row["id"] for row in rows(folder)] == [7, 8]


def test_rows_land_in_a_table_of_a_namespace_in_small_files(spark: SparkSession, folder: Path) -> None:
    """C22, L35: the file has every setting of the sink; the root of the namespace is relative to the file."""
    file = folder / "pipeline.toml"
    file.write_text(
        'name = "job"\n[source]\nformat = "json"\npath = "in"\nschema = "id BIGINT, kind STRING"\n'
        '[table]\nnamespace = "dir"\nnamespace_options = { root = "tables" }\ntable_id = "orders"\n'
        'create = true\nmax_rows_per_file = 1\ndata_storage_version = "2.1"\n'
    )
    plan = load(file)
    Job(plan, spark, follow=False).run()
    spark.catalog.dropTempView("source")
    namespace = lance_namespace.connect("dir", {"root": str(folder / "tables")})
    found = lance.dataset(namespace_client=namespace, table_id=["orders"])
    assert found.count_rows() == len(found.get_fragments()) == 8
    assert found.data_storage_version == "2.1"
    assert Counter(plan).count() == (len(found.versions()), 8)


def test_a_pipeline_creates_a_table_with_vectors(job: Callable[..., Job], folder: Path) -> None:
    """C22, L42: it runs again when the table exists; a list of another length fails before the commit, by column."""
    for file in (folder / "in").iterdir():
        file.unlink()
    (folder / "in" / "0.json").write_text('{"id": 0, "embedding": [1.5, 2]}\n{"id": 1}')
    source = '{ format = "json", path = "in", schema = "id BIGINT, embedding ARRAY<DOUBLE>" }'
    table = 'create = true\n[table.columns]\nembedding = "vector(2)"'
    job(source=source, table=table).run()
    assert rows(folder) == [{"id": 0, "embedding": [1.5, 2.0]}, {"id": 1, "embedding": None}]
    assert lance.dataset(str(folder / "out.lance")).schema.field("embedding").type == pa.list_(pa.float32(), 2)
    (folder / "in" / "1.json").write_text('{"id": 2, "embedding": [1, 2, 3]}')
    before = lance.dataset(str(folder / "out.lance")).version
    with pytest.raises(SchemaMismatchError, match=r"'embedding' holds a list of 3 values; the table's vectors have 2"):
        job(source=source, table=table).run()
    assert lance.dataset(str(folder / "out.lance")).version == before
    (folder / "in" / "1.json").write_text('{"id": 2, "embedding": [1, 2]}')
    job(source=source, table=table).run()
    assert len(rows(folder)) == 3


TEMPLATE = (files("headrace.pipeline") / "templates/pipeline.toml").read_text()
WATERMARK = re.findall(r"^# (SELECT .*\n# FROM .* WATERMARK .*\n# GROUP BY .*)", TEMPLATE, re.MULTILINE)


@pytest.mark.parametrize(
    ("mode", "landed"),
    [
        pytest.param('mode = "append"', {0: 1, 5: 1, 30: 1}, id="append"),
        pytest.param(
            'mode = "upsert"\nkeys = ["start"]',
            {0: 1, 5: 1, 30: 1, 40: 1, 45: 1},
            id="upsert",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_watermark_is_written_in_sql(
    job: Callable[..., Job], folder: Path, mode: str, landed: dict[int, int]
) -> None:
    """C22, L37: as in the file that init writes; it drops what is too late, and closes windows."""
    sql = WATERMARK[0].replace("# ", "").replace("numbered", "timed")
    # Minutes of the hour, an epoch each. Spark drops rows that are older than the watermark of the epoch before.
    for number, minutes in enumerate(([1, 7], [40], [33], [2, 47])):
        lines = [json.dumps({"id": minute, "kind": f"2026-01-01 00:{minute:02}:00"}) for minute in minutes]
        (folder / "in" / f"{number}.json").write_text("\n".join(lines))
        os.utime(folder / "in" / f"{number}.json", (1_000_000 + number, 1_000_000 + number))
    step = '[[step]]\nname = "timed"\nsql = "SELECT id, to_timestamp(kind) AS at FROM source"\n'
    job(f'{step}[[step]]\nsql = """{sql}"""\n', f"create = true\n{mode}").run()
    assert {row["start"].minute: row["numbers"] for row in rows(folder)} == landed
    require_exact(folder)


def test_a_lance_source_tells_how_far_behind_the_pipeline_is(job: Callable[..., Job], folder: Path) -> None:
    """C15, R4: in versions of the table it reads."""
    for number in range(3):
        LanceTable(folder / "from.lance").write(pa.table({"id": [number]}), "append" if number else "create")
    source = '{ format = "lance", path = "from.lance", options = { startingVersion = 1, maxFilesPerTrigger = 1 } }'
    told: list[Progress] = []
    job(source=source).run(Hearing(lambda progress, _: told.append(progress)))
    assert [progress.lag for progress in told] == [{"versions": 2}, {"versions": 1}, {"versions": 0}]
    assert [row["id"] for row in rows(folder)] == [0, 1, 2]


@pytest.mark.parametrize("step", ["", '[[step]]\nsql = "SELECT * FROM source UNION ALL SELECT * FROM source"\n'])
def test_a_source_of_files_reports_how_many_are_unread(
    job: Callable[..., Job], folder: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C15, C26: after each epoch, and in a second run too."""
    # On a busy machine a count may take longer than it may otherwise.
    monkeypatch.setitem(FileLag.__init__.__kwdefaults__, "patience", PROGRAM_SECONDS)
    monkeypatch.setattr(file_lag, "_MAX_CREDIT_SECONDS", PROGRAM_SECONDS)
    sizes = [os.path.getsize(folder / "in" / f"{number}.json") for number in range(4)]
    told: list[Progress] = []
    job(step).run(Hearing(lambda progress, _: told.append(progress)))
    assert [progress.lag for progress in told] == [
        {"files": 3, "bytes": sum(sizes[1:])},
        {"files": 2, "bytes": sum(sizes[2:])},
        {"files": 1, "bytes": sizes[3]},
        {"files": 0, "bytes": 0},
    ]
    for number in (4, 5):
        shutil.copy(folder / "in" / "0.json", folder / "in" / f"{number} again.json")
    told.clear()
    job(step).run(Hearing(lambda progress, _: told.append(progress)))
    assert [progress.lag for progress in told] == [{"files": 1, "bytes": sizes[0]}, {"files": 0, "bytes": 0}]


def test_an_epoch_without_rows_and_one_that_had_landed_are_reported(job: Callable[..., Job], folder: Path) -> None:
    """C15, L8, L13: as such."""
    step = "[[step]]\nsql = \"SELECT * FROM source WHERE kind <> 'c'\"\n"
    totals = job(step).run()
    assert (totals.epochs, totals.empty, totals.rows) == (3, 1, 6)
    notes = folder / ".headrace/checkpoints/job/commits"
    (notes / "3").unlink()
    (notes / ".3.crc").unlink()
    told: list[Progress] = []
    totals = job(step).run(Hearing(lambda progress, _: told.append(progress)))
    assert [(progress.epoch, progress.was_skipped, progress.version) for progress in told] == [(3, True, None)]
    assert [(progress.rows_in, progress.rows_landed) for progress in told] == [(2, 0)]
    assert (totals.epochs, totals.skipped) == (0, 1)
    assert len(rows(folder)) == 6
    require_exact(folder)


@pytest.mark.parametrize(
    ("table", "step", "expected"),
    [
        (
            'mode = "upsert"\nkeys = ["id"]\ncreate = true',
            "",
            [(0, "c"), (1, "b"), (2, "a"), (3, "b"), (4, "c"), (5, "a"), (6, "a")],
        ),
        (
            'mode = "complete"\ncreate = true',
            '[[step]]\nsql = "SELECT count(*) AS id, kind FROM source GROUP BY kind"\n',
            [(2, "b"), (2, "c"), (4, "a")],
        ),
    ],
    ids=["upsert", "complete"],
)
def test_every_mode_does_what_it_says(
    job: Callable[..., Job], folder: Path, table: str, step: str, expected: list[tuple[int, str]]
) -> None:
    """C15, L9, L11."""
    told: list[Progress] = []
    job(step, table).run(Hearing(lambda progress, _: told.append(progress)))
    assert sorted((row["id"], row["kind"]) for row in rows(folder)) == expected
    assert [progress.rows_in for progress in told] == [2, 2, 2, 2]
    require_exact(folder)


def test_a_job_that_is_asked_to_stop_ends_with_its_epoch(job: Callable[..., Job], folder: Path) -> None:
    """C16: what has begun lands, nothing more begins, and the next run continues from there."""
    stop = Stop()
    totals = job(stop=stop).run(Hearing(lambda *_: stop.ask() if not stop.is_asked else None))
    assert 1 <= totals.epochs < len(FILES)
    assert len(rows(folder)) == totals.rows
    job().run()
    assert len(rows(folder)) == 8
    require_exact(folder)


def test_a_job_that_follows_runs_until_it_is_asked_to_stop(job: Callable[..., Job], folder: Path) -> None:
    """C16: while it waits for rows it stops at once."""
    stop = Stop()
    heard: list[int] = []

    def hear(progress: Progress, _: Totals) -> None:
        heard.append(progress.epoch)
        if progress.epoch == 3:
            lines = json.dumps({"id": 99, "kind": "late"})
            (folder / "in" / "late.json").write_text(lines)
        if progress.epoch == 4:
            stop.ask()

    job(stop=stop, follow=True).run(Hearing(hear))
    assert heard == [0, 1, 2, 3, 4]
    assert 99 in [row["id"] for row in rows(folder)]


def test_an_epoch_after_an_idle_period_has_its_own_figures(
    job: Callable[..., Job], folder: Path, spark: SparkSession
) -> None:
    """C15: Spark's events of idle triggers, which have the number of the next epoch, are not taken for it."""
    stop, told = Stop(), []

    def hear(progress: Progress, _: Totals) -> None:
        told.append(progress)
        if progress.epoch == 3:
            # No file comes before Spark has reported an idle trigger.
            [query] = spark.streams.active
            await_idle_event(query, epoch=4)
            lines = [json.dumps({"id": number, "kind": "late"}) for number in range(10)]
            (folder / "in" / "late.json").write_text("\n".join(lines))
        if progress.epoch == 4:
            stop.ask()

    name = "spark.sql.streaming.noDataProgressEventInterval"
    before = spark.conf.get(name)
    spark.conf.set(name, "100")
    try:
        job(stop=stop, follow=True, trigger="100 milliseconds").run(Hearing(hear))
    finally:
        spark.conf.set(name, before)
    assert [progress.rows_in for progress in told] == [2, 2, 2, 2, 10]
    assert [progress.rows_landed for progress in told] == [2, 2, 2, 2, 10]
    for progress in told:
        assert progress.seconds >= progress.phases["writing"] + progress.phases["committing"] > 0
        assert progress.rows_per_second == pytest.approx(progress.rows_in / progress.seconds)


def await_idle_event(query: StreamingQuery, *, epoch: int) -> None:
    """Wait until Spark has reported a trigger without an epoch."""
    deadline = time.monotonic() + 60
    while not any(each["batchId"] == epoch for each in query.recentProgress):
        assert time.monotonic() < deadline, "Spark reports no idle trigger"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("changed", "kind", "said"),
    [
        ({"more": '[[step]]\nsql = "SELEC 1"\n'}, PlanError, "Step 1 cannot be planned"),
        ({"more": '[[step]]\nname = "first"\nsql = "SELECT nope FROM source"\n'}, PlanError, r"Step 1 \(first\).*nope"),
        ({"more": '[[step]]\nsql = "SELECT 1 AS id"\n'}, ConfigurationError, "Step 1 does not read the stream"),
        ({"source": '{ format = "nonsense" }'}, PlanError, "The source 'nonsense' cannot be used"),
        ({"source": '{ format = "json", path = "in" }'}, PlanError, "The source 'json' cannot be used: .*[Ss]chema"),
        ({"source": '{ format = "rate", schema = "id NOPE" }'}, PlanError, "The source 'rate' cannot be used: .*NOPE"),
        ({"trigger": "now and then", "follow": True}, PlanError, "cannot be planned: .*now and then"),
        ({"table": ""}, TableNotFoundError, r"There is no Lance table .*or set create = true in \[table\]\."),
    ],
)
def test_what_cannot_be_run_is_said_in_a_sentence(
    job: Callable[..., Job], changed: dict[str, str], kind: type[Exception], said: str
) -> None:
    """C15: of our own kind, with what Spark said in its first line."""
    with pytest.raises(kind, match=said):
        job(**changed).run()


def test_what_fails_on_the_way_is_the_error_it_was(job: Callable[..., Job], folder: Path) -> None:
    """C15: rows that do not fit, and a step that fails on a row."""
    job().run()
    (folder / "in" / "more.json").write_text(json.dumps({"id": 7, "kind": "x"}))
    with pytest.raises(SchemaMismatchError, match=r"new_column.*set merge_schema = true in \[table\]"):
        job('[[step]]\nsql = "SELECT id, kind, 1 AS new_column FROM source"\n').run()
    with pytest.raises(ExecutionError, match=r"The query failed: .*no such luck"):
        job("[[step]]\nsql = \"SELECT id, raise_error('no such luck') AS kind FROM source\"\n").run()
    assert len(rows(folder)) == 8
