"""What headrace depends on in Spark: the properties of tasks, when writers are made, logs and progress.

Nothing of headrace runs here: the source and the sink are the smallest that Spark takes. A test that fails after an
upgrade names what moved, and where headrace has to follow.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadMaxFiles, SupportsTriggerAvailableNow

from support.streams import StreamInput, drain, replay

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

FORMAT = "engine_rules"
EPOCHS = 2
ROWS = 2

# As spark/task asks for them.
PROPERTIES = ("spark.jobGroup.id", "sql.streaming.queryId", "streaming.sql.batchId")


def make_source() -> type[DataSource]:
    """A source that has two versions of two rows each, and a sink that notes who called it, when and from where.

    Made in a function: Spark's workers cannot import this file, so all of it has to travel to them by value.
    """
    names, epochs, rows = PROPERTIES, EPOCHS, ROWS

    def note(folder: str, **facts: Any) -> None:
        with open(f"{folder}/calls.jsonl", "a") as file:
            file.write(json.dumps(facts | {"process": os.getpid()}) + "\n")

    @dataclass
    class Report(WriterCommitMessage):
        text: str

    class Writer(DataSourceStreamArrowWriter):
        def __init__(self, folder: str) -> None:
            self.folder = folder
            self.remembered: list[int] = []

        def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
            from pyspark import TaskContext

            context = TaskContext.get()
            count = sum(batch.num_rows for batch in iterator)
            local = {name: context.getLocalProperty(name) for name in names}
            return Report(json.dumps({"partition": context.partitionId(), "rows": count, "properties": local}))

        def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
            self.remembered.append(batchId)
            reports = [json.loads(message.text) for message in messages]
            note(self.folder, call="commit", epoch=batchId, reports=reports, remembered=self.remembered)

        def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
            note(self.folder, call="abort", epoch=batchId, messages=len(messages))

    class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
        def __init__(self, folder: str) -> None:
            self.folder = folder

        def initialOffset(self) -> dict[str, int]:  # noqa: N802
            note(self.folder, call="initialOffset")
            return {"version": 0}

        def getDefaultReadLimit(self) -> ReadMaxFiles:  # noqa: N802
            return ReadMaxFiles(1)

        def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: N802
            note(self.folder, call="latestOffset", limit=type(limit).__name__)
            return {"version": min(start["version"] + 1, epochs)}

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
            note(self.folder, call="prepareForTriggerAvailableNow")

        def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
            return {"version": epochs}

        def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
            return [InputPartition(version) for version in range(start["version"], end["version"])]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            yield pa.record_batch([pa.array([partition.value] * rows, pa.int64())], names=["id"])

    class Reader(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            return []

        def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
            yield (f"{type(partition).__name__}",)

    class FilteringReader(Reader):
        def pushFilters(self, filters: list[Any]) -> Iterator[Any]:  # noqa: N802
            return iter(filters)

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return "engine_rules"

        def schema(self) -> str:
            return "id BIGINT" if "stream" in self.options else "what STRING"

        def reader(self, schema: Any) -> DataSourceReader:
            return FilteringReader() if "filters" in self.options else Reader()

        def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
            return StreamReader(self.options["folder"])

        def streamWriter(self, schema: Any, overwrite: bool) -> Writer:  # noqa: N802
            note(self.options["folder"], call="streamWriter", options=dict(self.options), overwrite=overwrite)
            return Writer(self.options["folder"])

    return Source


class Recorder:
    """For ``foreachBatch``: notes the properties of the driver's thread and of the tasks in each epoch."""

    def __init__(self) -> None:
        self.epochs: list[int] = []
        self.on_driver: list[dict[str, str]] = []
        self.in_tasks: list[dict[str, str]] = []

    def __call__(self, df: DataFrame, epoch: int) -> None:
        names = PROPERTIES

        def report(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from pyspark import TaskContext

            for _ in batches:
                pass
            local = json.dumps({name: TaskContext.get().getLocalProperty(name) for name in names})
            yield pa.record_batch([pa.array([local])], names=["properties"])

        context = df.sparkSession.sparkContext
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
            rows = df.mapInArrow(report, "properties string").collect()
        self.epochs.append(epoch)
        self.on_driver.append({name: context.getLocalProperty(name) for name in names})
        self.in_tasks += [json.loads(row.properties) for row in rows]


@dataclass(frozen=True)
class Landed:
    """A stream from the source into the sink that has ended.

    Attributes:
        calls: The calls to both, in order.
        progress: Spark's progress report of each epoch.
        checkpoint: Its checkpoint.
        ids: Its query id and run id, as Spark's handle has them.
    """

    calls: list[dict[str, Any]]
    progress: list[Any]
    checkpoint: Path
    ids: tuple[str, str]

    def called(self, name: str) -> list[dict[str, Any]]:
        return [call for call in self.calls if call["call"] == name]


@dataclass(frozen=True)
class Batches:
    """A stream through ``foreachBatch`` that has ended, was made to forget its last epoch, and was run again.

    Attributes:
        first: What was seen in the first run.
        second: What was seen in the second.
        runs: Query id and run id of each.
    """

    first: Recorder
    second: Recorder
    runs: list[tuple[str, str]]


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    folder.mkdir(exist_ok=True)
    return spark.readStream.format(FORMAT).option("stream", "yes").option("folder", str(folder)).load()


@pytest.fixture(scope="module")
def known(spark: SparkSession) -> SparkSession:
    """A session that knows the source."""
    spark.dataSource.register(make_source())
    return spark


@pytest.fixture(scope="module")
def landed(known: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Landed:
    folder = tmp_path_factory.mktemp("landed")
    writer = stream(known, folder).writeStream.format(FORMAT).option("folder", str(folder)).option("MixedCase", "1")
    query = drain(writer, folder / "checkpoint")
    calls = [json.loads(line) for line in (folder / "calls.jsonl").read_text().splitlines()]
    return Landed(calls, list(query.recentProgress), folder / "checkpoint", (str(query.id), str(query.runId)))


@pytest.fixture(scope="module")
def batches(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Batches:
    folder = tmp_path_factory.mktemp("batches")
    rows = StreamInput(folder / "input")
    for epoch in range(EPOCHS):
        rows.add(epoch)

    def run(recorder: Recorder) -> tuple[str, str]:
        query = drain(rows.stream(spark).writeStream.foreachBatch(recorder), folder / "checkpoint")
        return str(query.id), str(query.runId)

    first, second = Recorder(), Recorder()
    runs = [run(first)]
    replay(folder / "checkpoint")
    runs.append(run(second))
    return Batches(first, second, runs)


def test_a_reader_that_takes_filters_is_refused_unless_pushdown_is_on(known: SparkSession) -> None:
    """R7: so filters are an option of headrace's that chooses the reader's class; see reader in spark/datasource."""
    assert known.conf.get("spark.sql.python.filterPushdown.enabled") == "false", "the default has changed"
    with pytest.raises(AnalysisException, match="filterPushdown"):
        known.read.format(FORMAT).option("filters", "yes").load().where("what = 'x'").collect()


def test_a_reader_without_partitions_is_handed_one_that_spark_made_up(known: SparkSession) -> None:
    """R7: LanceBatchReader.read in spark/reader gives no rows for a partition that is not its own."""
    found = [row.what for row in known.read.format(FORMAT).load().collect()]
    assert found == ["InputPartition"], (
        f"Spark hands over {found} where there are no partitions; see LanceBatchReader.read"
    )


def test_update_mode_is_refused_for_data_sources_of_python(known: SparkSession, tmp_path: Path) -> None:
    """L10: that is why mode `update` is LanceSink's; if Spark takes it now, spark/writer has to know the mode."""
    frame = stream(known, tmp_path / "source").groupBy("id").count()
    writer = frame.writeStream.format(FORMAT).outputMode("update").option("folder", str(tmp_path))
    with pytest.raises(StreamingQueryException, match="does not support Update mode"):
        drain(writer, tmp_path / "checkpoint")


def expected_properties(ids: tuple[str, str], epoch: int) -> dict[str, str]:
    query_id, run_id = ids
    return dict(zip(PROPERTIES, (run_id, query_id, str(epoch)), strict=True))


def test_tasks_of_a_data_source_have_properties_for_run_query_and_epoch(landed: Landed) -> None:
    """L26, L29, F4: they say which run a commit is for; spark/task reads them, spark/writer compares."""
    for commit in landed.called("commit"):
        for report in commit["reports"]:
            assert report["properties"] == expected_properties(landed.ids, commit["epoch"]), (
                f"Spark sets other values of {PROPERTIES}: without them headrace fences no run. See spark/task."
            )


def test_a_writer_is_made_before_the_tasks_of_an_epoch_and_again_before_its_commit(landed: Landed) -> None:
    """L13, L26: nothing that a writer remembers reaches its commit; the messages carry it (spark/writer)."""
    order = [call["call"] for call in landed.calls if call["call"] in ("streamWriter", "commit", "abort")]
    assert order == ["streamWriter", "streamWriter", "commit"] * EPOCHS, (
        "Spark makes writers at other moments than spark/writer and spark/datasource say"
    )
    commits = landed.called("commit")
    assert [commit["epoch"] for commit in commits] == list(range(EPOCHS))
    assert [commit["remembered"] for commit in commits] == [[epoch] for epoch in range(EPOCHS)], (
        "a writer now lives from commit to commit; see spark/writer"
    )


def test_one_process_serves_all_commits_of_a_query(landed: Landed) -> None:
    """L16: what tables/sink remembers of a run makes a commit read one version; it is lost if processes change."""
    processes = {commit["process"] for commit in landed.called("commit")}
    assert len(processes) == 1, "commits come from several processes: correct, but each looks the stamp up again"
    assert os.getpid() not in processes, "commits run in the driver's own process; see spark/writer"


def test_each_partition_of_an_epoch_reports_once_to_its_commit(landed: Landed) -> None:
    """L29, F3: tables/commit/message refuses two reports of one partition, and spark/writer an epoch without one."""
    for commit in landed.called("commit"):
        partitions = [report["partition"] for report in commit["reports"]]
        assert partitions == list(range(len(partitions))), "see one_per_partition in tables/commit/message"
        assert sum(report["rows"] for report in commit["reports"]) == ROWS


def test_option_names_arrive_in_a_form_that_does_not_depend_on_their_case(landed: Landed) -> None:
    """L6: a query without checkpointLocation is refused, which spark/options can tell because Spark hands it on."""
    options = landed.called("streamWriter")[0]["options"]
    assert {"mixedcase", "checkpointlocation"} <= options.keys(), (
        f"Spark hands over the options {sorted(options)}; see spark/options"
    )


def test_an_available_now_run_is_announced_and_each_epoch_asked_for_under_the_source_s_own_limit(
    landed: Landed,
) -> None:
    """R4: spark/reader notes the newest version when it is announced, and tells limits from no limit by class."""
    names = [call["call"] for call in landed.calls]
    assert names.index("prepareForTriggerAvailableNow") < names.index("latestOffset"), (
        "the run's end is not announced before the first offset is asked for; see LanceStreamReader in spark/reader"
    )
    limits = {call["limit"] for call in landed.called("latestOffset")}
    assert limits == {ReadMaxFiles.__name__}, f"the source's limit comes back as {limits}; see latestOffset there"


def test_the_checkpoint_has_the_query_s_id_and_one_file_per_epoch_in_both_logs(landed: Landed) -> None:
    """C6: `headrace verify` holds the table against these files; tables/manage/checkpoint reads them."""
    where = "see tables/manage/checkpoint"
    assert json.loads((landed.checkpoint / "metadata").read_text())["id"] == landed.ids[0], f"metadata moved; {where}"
    for log in ("offsets", "commits"):
        named = [path.name for path in (landed.checkpoint / log).iterdir()]
        numbers = sorted(int(name) for name in named if name.isdecimal())
        assert numbers == list(range(EPOCHS)), f"the files in {log}/ are {named}; {where}"
        others = {name for name in named if not name.isdecimal()}
        assert all(name.startswith(".") for name in others), f"{log}/ has {others} too; {where}"


def test_progress_has_the_fields_that_a_run_reports(landed: Landed) -> None:
    """C15, R4: rows, time by phase and how far behind the query is; pipeline/progress reads them by name."""
    where = "see pipeline/progress"
    ran = [json.loads(progress.json) for progress in landed.progress]
    ran = [progress for progress in ran if progress["numInputRows"]]
    assert [progress["batchId"] for progress in ran] == list(range(EPOCHS)), f"batchId; {where}"
    for progress in ran:
        phases = set(progress["durationMs"])
        assert {"triggerExecution", "latestOffset", "getBatch", "queryPlanning", "walCommit"} <= phases, (
            f"Spark's phases are {sorted(phases)}; {where}, _PHASES"
        )
        assert "addBatch" in phases, f"an epoch that ran is not distinguished from an idle trigger; {where}, _RUNS"
        assert phases & {"commitOffsets", "commitBatch"}, f"noting an epoch as done is called otherwise; {where}"
        (source,) = progress["sources"]
        assert source["numInputRows"] == ROWS, f"numInputRows; {where}"
        end, latest = (offset_of(source[name]) for name in ("endOffset", "latestOffset"))
        assert end == {"version": progress["batchId"] + 1}, f"endOffset is {end}; {where}, _lag"
        assert latest == {"version": EPOCHS}, f"reportLatestOffset does not reach latestOffset: {latest}; {where}, _lag"


def test_an_idle_trigger_is_reported_under_the_next_epoch_s_number_and_adds_no_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    """C15: which distinguishes it from an epoch; at once when a run starts with nothing to do, then by an interval."""
    source = StreamInput(tmp_path / "input")
    source.add(1, 2)
    writer = source.stream(spark).writeStream.format("noop")
    drain(writer, tmp_path / "checkpoint")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(processingTime="1 second").start()
    try:
        deadline = time.monotonic() + 60
        while not query.recentProgress and time.monotonic() < deadline:
            time.sleep(0.05)
        idle = json.loads(query.recentProgress[0].json)
    finally:
        query.stop()
    where = "see pipeline/progress, _RUNS"
    assert (idle["batchId"], idle["numInputRows"]) == (1, 0), f"idle triggers are numbered otherwise; {where}"
    assert "triggerExecution" in idle["durationMs"], where
    assert "addBatch" not in idle["durationMs"], f"an idle trigger looks like an epoch; {where}"


def offset_of(text: Any) -> Any:
    return json.loads(text) if isinstance(text, str) else text


def test_tasks_under_foreach_batch_and_the_driver_s_thread_have_the_same_properties(batches: Batches) -> None:
    """L26, F4: LanceSink takes the run from the driver's thread (spark/foreach_batch), its tasks from theirs."""
    expected = [expected_properties(batches.runs[0], epoch) for epoch in range(EPOCHS)]
    assert batches.first.on_driver == expected, "the thread of foreachBatch; see _run in spark/foreach_batch"
    assert batches.first.in_tasks == expected, "tasks of mapInArrow; see current_task in spark/task"


def test_a_restart_keeps_the_query_id_and_the_epoch_s_number_and_changes_the_run_id(batches: Batches) -> None:
    """L12, L13, L18: a replay is known by its number, a rival by its run, a new checkpoint by its query id."""
    (query_id, run_id), (query_id_again, run_id_again) = batches.runs
    assert query_id_again == query_id, "Spark's query id is no longer its checkpoint's; see tables/commit/ledger"
    assert run_id_again != run_id, "two starts have the same run id: the fence of commit/protocol keeps nobody out"
    assert batches.second.epochs == [EPOCHS - 1], (
        "an epoch without a note in commits/ is not run again under its number"
    )
    assert batches.second.on_driver == [expected_properties(batches.runs[1], EPOCHS - 1)]
