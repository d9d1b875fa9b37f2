"""Hints name settings as the user writes them: as Spark's options, as arguments in Python, or as keys of a file."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from drivers import Driver
from worlds import LanceWorld

from headrace import (
    CheckpointResetError,
    ConfigurationError,
    FencedError,
    HeadraceError,
    HistoryGapError,
    LandingError,
    SchemaMismatchError,
    TableNotFoundError,
    TableReplacedError,
)
from headrace.pipeline.spelling import PipelineSpelling
from headrace.spark.options import SPARK
from headrace.tables.commit import ledger, message
from headrace.tables.commit.message import TaskMessage
from headrace.tables.location import Location
from headrace.tables.settings import Rules, SinkSettings, Vector
from headrace.tables.sink import EpochSink
from headrace.tables.sink_settings import batch_settings, stream_settings
from headrace.tables.spelling import PythonSpelling, Spelling, Words
from headrace.tables.write.data_files import Task, write_rows, write_staged

WRITTEN: dict[Spelling, Words] = {
    SPARK: Words(
        "streamingQueryId",
        "createTable=true",
        "mergeSchema=true",
        "lance.streaming.onCheckpointReset=accept",
        "lance.streaming.onTableReplaced=accept",
        "lance.streaming.onHistoryGap=warn",
        "maxRowsPerFile or maxBytesPerFile",
        "columnTypes",
    ),
    PythonSpelling(): Words(
        "query_id",
        "create_table=True",
        "merge_schema=True",
        'on_checkpoint_reset="accept"',
        'on_table_replaced="accept"',
        'on_history_gap="warn"',
        "max_rows_per_file or max_bytes_per_file",
        "column_types",
    ),
    PipelineSpelling(): Words(
        "name",
        "create = true in [table]",
        "merge_schema = true in [table]",
        'on_checkpoint_reset = "accept" in [table]',
        'on_table_replaced = "accept" in [table]',
        'on_history_gap = "warn" in [table]',
        "table.max_rows_per_file or table.max_bytes_per_file",
        "table.columns",
    ),
}
spellings = pytest.mark.parametrize("spelling", WRITTEN, ids=lambda spelling: type(spelling).__name__)

WIDER = pa.record_batch({"id": pa.array([1], pa.int64()), "new": pa.array([1], pa.int64())})


@spellings
def test_settings_carry_the_words_of_the_user(spelling: Spelling) -> None:
    """L43: they are values like the others: equal, hashable, and the same in another process."""
    settings = stream_settings({"uri": "/t", "query_id": "q"}, spelling)
    assert settings.rules.words == batch_settings({"uri": "/t"}, spelling).rules.words == WRITTEN[spelling]
    again = pickle.loads(pickle.dumps(settings))
    assert (again, hash(again)) == (settings, hash(settings))


def test_without_a_user_the_words_are_sparks() -> None:
    """L43"""
    assert Rules("q").words == WRITTEN[SPARK]


def _world(folder: Path) -> LanceWorld:
    return LanceWorld(str(folder / "table.lance"))


def _missing_table(folder: Path, words: Words) -> None:
    EpochSink(SinkSettings(Location(str(folder / "no.lance")), Rules("q", words=words))).prepare(WIDER.schema)


def _new_column(folder: Path, words: Words) -> None:
    EpochSink(SinkSettings(_world(folder).location, Rules("q", words=words))).prepare(WIDER.schema)


def _new_column_in_a_task(folder: Path, words: Words) -> None:
    write_rows([WIDER], _world(folder).location, Task(0), words=words)


def _new_column_in_a_staging_task(folder: Path, words: Words) -> None:
    write_staged([WIDER], _world(folder).location, Location(str(folder / "staged")), Task(0), ("id",), words=words)


def _another_type(folder: Path, words: Words) -> None:
    settings = SinkSettings(_world(folder).location, Rules("q", words=words), column_types=(("id", Vector(2)),))
    rows = pa.schema([("id", pa.list_(pa.float32()))])
    EpochSink(settings).prepare(rows)


def _large_message(folder: Path, words: Words) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message, "MAX_BYTES", 10)
        TaskMessage(0).to_json(words)


def _landed(folder: Path, words: Words) -> Driver:
    driver = Driver(_world(folder), rules={"words": words})
    driver.land(0)
    return driver


def _reset(folder: Path, words: Words) -> None:
    _landed(folder, words).restarted("run-b", checkpoint="another").land(0)


def _given_up(folder: Path, words: Words) -> None:
    driver = _landed(folder, words)
    driver.restarted("run-b", checkpoint="another", rules=driver.rules | {"accepts_reset": True}).land(0)
    driver.restarted("run-c").land(1)


def _fenced(folder: Path, words: Words) -> None:
    driver = _landed(folder, words)
    driver.restarted("run-b").land(1)
    driver.land(2)


def _another_mode(folder: Path, words: Words) -> None:
    _landed(folder, words).restarted("run-b", mode="upsert").land(1)


def _recreated(folder: Path, words: Words) -> None:
    driver = _landed(folder, words)
    driver.world.recreate()
    driver.restarted("run-b").land(1)


def _overwritten(folder: Path, words: Words) -> None:
    driver = _landed(folder, words)
    driver.world.overwrite([7])
    driver.restarted("run-b").land(1)


def _overwritten_while_running(folder: Path, words: Words) -> None:
    driver = _landed(folder, words)
    driver.world.overwrite([7])
    driver.land(1)


def _recreated_while_running(folder: Path, words: Words) -> None:
    driver = _landed(folder, words)
    driver.world.recreate()
    driver.land(1)


def _gap(folder: Path, words: Words) -> None:
    driver = _landed(folder, words)
    for _ in range(3):
        driver.world.configure()
    driver.world.clean()
    driver.restarted("run-b", rules=driver.rules | {"on_history_gap": "fail"}).land(1)


def _odd_stamp(folder: Path, words: Words) -> None:
    ledger.stamp_of({ledger.QUERY_ID: "q", ledger.EPOCH_ID: "x"}, "q", words)


Fails = Callable[[Path, Words], None]
HINTS: list[tuple[Fails, type[HeadraceError], str]] = [
    (_missing_table, TableNotFoundError, "or set {create_table}."),
    (_new_column, SchemaMismatchError, "or set {merge_schema} to add it"),
    (_new_column_in_a_task, SchemaMismatchError, "or set {merge_schema} to add it"),
    (_new_column_in_a_staging_task, SchemaMismatchError, "or set {merge_schema} to add it"),
    (_another_type, SchemaMismatchError, "correct {column_types}, or leave"),
    (_large_message, LandingError, "raise {file_limits}, or"),
    (_reset, CheckpointResetError, "choose a new {query_id}, or set {accept_reset} to land"),
    (_given_up, CheckpointResetError, "or choose a new {query_id}."),
    (_fenced, FencedError, "give each its own {query_id}."),
    (_another_mode, ConfigurationError, "or choose a new {query_id}."),
    (_recreated, TableReplacedError, "a new {query_id}, which lands everything the source still has; or set"),
    (_recreated, TableReplacedError, "set {accept_replaced}: the query"),
    (_overwritten, TableReplacedError, "set {accept_replaced}: the query"),
    (_overwritten_while_running, TableReplacedError, "with {accept_replaced}: it"),
    (_recreated_while_running, TableReplacedError, "with {accept_replaced}: it"),
    (_gap, HistoryGapError, "restart once with {warn_about_gap}."),
    (_odd_stamp, LandingError, "choose a new {query_id}."),
]


@spellings
@pytest.mark.parametrize(("fails", "kind", "hint"), HINTS)
def test_a_hint_names_the_setting_as_the_user_writes_it(
    spelling: Spelling, fails: Fails, kind: type[HeadraceError], hint: str, tmp_path: Path
) -> None:
    """L43: and in no other way."""
    words = Words.of(spelling)
    with pytest.raises(kind) as caught:
        fails(tmp_path, words)
    said = caught.value.hint or ""
    assert hint.format(**{name: getattr(words, name) for name in Words.__dataclass_fields__}) in said
    for other in WRITTEN.values():
        if other != words:
            # "name" is the file's query_id, and a word.
            settings = [getattr(other, field) for field in Words.__dataclass_fields__ if field != "query_id"]
            assert not any(setting in said for setting in settings)
