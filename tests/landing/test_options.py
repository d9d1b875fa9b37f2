"""Options: what is missing, unknown or wrong is refused by name, before anything is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pytest

from headrace import ConfigurationError, InvalidArgumentError
from headrace.spark import LanceSink
from headrace.tables.sink_settings import stream_settings
from headrace.tables.spelling import PythonSpelling
from support.lance_tables import LanceTable
from support.streams import ARROW_SCHEMA, StreamInput, drain, rows, stamps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter

LOOKBACK = "lance.streaming.dedupe.lookback.versions"


def stream(source: StreamInput, spark: SparkSession, **options: str) -> DataStreamWriter:
    return source.stream(spark).writeStream.format("lance").options(**options)


def refusal(writer: DataStreamWriter, checkpoint: Path) -> str:
    """What the user reads when the query has ended."""
    from pyspark.errors import StreamingQueryException

    with pytest.raises(StreamingQueryException) as caught:
        drain(writer, checkpoint)
    return str(caught.value)


@pytest.mark.parametrize("given", [{}, {"streamingQueryId": " \t "}], ids=["missing", "blank"])
def test_a_stream_without_a_query_id_is_refused_before_anything_is_written(
    source: StreamInput, spark: SparkSession, uri: str, tmp_path: Path, given: dict[str, str]
) -> None:
    """L1: missing and blank alike; the message names the option and shows how to set it."""
    said = refusal(stream(source, spark, path=uri, **given), tmp_path / "checkpoint")
    assert "ConfigurationError: streamingQueryId is missing or blank" in said
    assert '.option("streamingQueryId", "orders-v1")' in said
    assert len(stamps(uri)) == 1
    assert not list(Path(uri, "data").glob("*"))


@pytest.mark.parametrize("query_id", ["", "  ", "\n"])
def test_a_sink_without_a_query_id_is_not_made(query_id: str) -> None:
    """L1: foreachBatch's sink refuses at once."""
    with pytest.raises(ConfigurationError, match=r"query_id is missing or blank.*as in query_id=.orders-v1."):
        LanceSink("/tmp/nowhere.lance", query_id=query_id)


def test_the_longest_query_id_has_1024_characters() -> None:
    """L1: it travels in every transaction."""
    LanceSink("/tmp/nowhere.lance", query_id="q" * 1024)
    with pytest.raises(ConfigurationError, match="query_id has 1025 characters; 1024 are allowed"):
        LanceSink("/tmp/nowhere.lance", query_id="q" * 1025)


def test_a_query_id_is_trimmed_once_and_stamped_as_it_is(spark: SparkSession, uri: str) -> None:
    """L1: case, inner white space and signs stay."""
    LanceSink(uri, query_id="  Orders V1/é:\t2 \n", mode="append")(spark.range(1), 0)
    assert stamps(uri)[-1].properties["lance.streaming.queryId"] == "Orders V1/é:\t2"


@pytest.mark.parametrize("lookback", ["0", "-1", "10001", "abc", "1.5", "--5", "1e3", "٣", "1_000"])
def test_an_option_that_is_no_lookback_is_refused_by_name(lookback: str) -> None:
    """L2: with the range that is allowed, and the default."""
    from headrace.spark.options import streaming

    with pytest.raises(ConfigurationError) as caught:
        streaming({"path": "/t", "streamingQueryId": "q", LOOKBACK: lookback})
    assert f"{LOOKBACK} is {lookback!r}; it must be a whole number from 1 to 10000." in str(caught.value)
    assert "the default is 100" in str(caught.value)


@pytest.mark.parametrize("lookback", [0, -1, 10001, "abc", "5", 1.5, True])
def test_an_argument_that_is_no_lookback_is_refused_by_name(lookback: object) -> None:
    """L2: by the name it has in Python."""
    with pytest.raises(ConfigurationError) as caught:
        LanceSink("/tmp/nowhere.lance", query_id="q", lookback_versions=lookback)  # type: ignore[arg-type]
    assert f"lookback_versions is {lookback!r}; it must be a whole number from 1 to 10000." in str(caught.value)
    assert "the default is 100" in str(caught.value)


def test_the_smallest_and_the_largest_lookback_are_accepted(spark: SparkSession, uri: str) -> None:
    """L2: 1 and 10000 land; so does none, which is 100."""
    from headrace.spark.options import streaming

    for epoch, lookback in enumerate((1, 10_000, None)):
        LanceSink(uri, query_id=f"q{epoch}", lookback_versions=lookback)(spark.range(1), epoch)
    assert rows(uri) == [0, 0, 0]
    assert streaming({"path": uri, "streamingQueryId": "q"}).rules.lookback == 100
    assert streaming({"path": uri, "streamingQueryId": "q", LOOKBACK.upper(): " 7 "}).rules.lookback == 7


def test_a_stream_with_a_wrong_lookback_is_refused_by_name(
    source: StreamInput, spark: SparkSession, uri: str, tmp_path: Path
) -> None:
    """L2: Spark hands option names over in lower case; the message spells it as the user knows it."""
    said = refusal(
        stream(source, spark, path=uri, streamingQueryId="q", **{LOOKBACK: "10001"}), tmp_path / "checkpoint"
    )
    assert f"{LOOKBACK} is '10001'; it must be a whole number from 1 to 10000" in said
    assert len(stamps(uri)) == 1


def test_a_pinned_version_and_a_stray_write_mode_change_nothing(
    source: StreamInput, spark: SparkSession, uri: str, tmp_path: Path
) -> None:
    """L3, L4: every epoch is based on the newest version, and an append stays one."""
    LanceTable(uri).write(ARROW_SCHEMA.empty_table().from_pydict({"id": [100]}, ARROW_SCHEMA))
    source.add(3)
    options = {"version": "1", "write_mode": "overwrite", "path": uri, "streamingQueryId": "q"}
    drain(stream(source, spark, **options), tmp_path / "checkpoint")
    assert rows(uri) == [1, 2, 3, 100]
    assert [stamp.operation for stamp in stamps(uri)][2:] == ["Project", "Append", "Append"]


def test_a_missing_table_is_an_error_and_stays_missing(
    source: StreamInput, spark: SparkSession, tmp_path: Path
) -> None:
    """L5: in both ways; the message names the address and the option that would make it."""
    from headrace import TableNotFoundError

    uri = tmp_path / "nowhere.lance"
    said = refusal(stream(source, spark, path=str(uri), streamingQueryId="q"), tmp_path / "checkpoint")
    assert f"TableNotFoundError: There is no Lance table at {uri}." in said
    assert "createTable=true" in said
    with pytest.raises(TableNotFoundError, match=r"There is no Lance table .*set create_table=True"):
        LanceSink(str(uri), query_id="q")(spark.range(1), 0)
    assert not uri.exists()


def test_a_missing_table_is_made_on_request(source: StreamInput, spark: SparkSession, tmp_path: Path) -> None:
    """L5: of the rows' schema, and only once: the second epoch finds it."""
    uri = str(tmp_path / "new.lance")
    source.add(3)
    drain(stream(source, spark, path=uri, streamingQueryId="q", createTable="true"), tmp_path / "checkpoint")
    assert rows(uri) == [1, 2, 3]
    assert lance.dataset(uri).schema.equals(ARROW_SCHEMA)
    made = str(tmp_path / "made.lance")
    LanceSink(made, query_id="q", create_table=True)(spark.range(2), 0)
    assert rows(made) == [0, 1]


@pytest.fixture
def spark_table(spark: SparkSession) -> Iterator[str]:
    """The name of a table in Spark's own catalog, which Spark makes before it asks the sink."""
    name = "tests_of_options"
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_a_stream_without_a_path_is_refused(
    source: StreamInput, spark: SparkSession, tmp_path: Path, spark_table: str
) -> None:
    """L6: start() bare and toTable(), which hands none over."""
    writer = stream(source, spark, streamingQueryId="q")
    said = refusal(writer, tmp_path / "checkpoint")
    assert "ConfigurationError: The table's address is missing: there is no path." in said
    from pyspark.errors import StreamingQueryException

    writer = stream(source, spark, streamingQueryId="q", checkpointLocation=str(tmp_path / "checkpoint2"))
    with pytest.raises(StreamingQueryException, match=r"there is no path.*toTable\(\) and INSERT INTO do not"):
        writer.trigger(availableNow=True).toTable(spark_table).awaitTermination(60)


def test_insert_into_is_refused(spark: SparkSession, spark_table: str) -> None:
    """L6: it hands no path over either."""
    from pyspark.errors import AnalysisException

    spark.sql(f"CREATE TABLE {spark_table} (id BIGINT) USING lance")
    with pytest.raises(AnalysisException, match="there is no path"):
        spark.sql(f"INSERT INTO {spark_table} VALUES (1)")


def test_a_stream_without_a_checkpoint_is_refused(source: StreamInput, spark: SparkSession, uri: str) -> None:
    """L6: by Spark itself, at start()."""
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match="checkpointLocation must be specified"):
        stream(source, spark, path=uri, streamingQueryId="q").trigger(availableNow=True).start()
    assert len(stamps(uri)) == 1


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("streamingQueryIdd", "streamingQueryId"),
        ("streaming_query_id", "streamingQueryId"),
        ("lance.streaming.lookback", LOOKBACK),
        ("lance.streaming.onHistoryGaps", "lance.streaming.onHistoryGap"),
        ("createTables", "createTable"),
        ("merge_schema", "mergeSchema"),
        ("compactEvery", "compactEveryEpochs"),
        ("headrace.maxRowsPerFile", "maxRowsPerFile"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_name(wrong: str, meant: str) -> None:
    """L2: a misspelt option must not be the same as none."""
    from headrace.spark.options import streaming

    with pytest.raises(ConfigurationError) as caught:
        streaming({"path": "/t", "streamingQueryId": "q", wrong: "1"})
    assert f"There is no option {wrong!r}. Hint: did you mean {meant!r}?" in str(caught.value)


def test_options_of_spark_and_of_others_are_let_through() -> None:
    """L6: what is not ours is not our business."""
    from headrace.spark.options import streaming

    streaming(
        {"path": "/t", "STREAMINGQUERYID": "q", "checkpointLocation": "/c", "queryName": "x", "maxFilesPerTrigger": "1"}
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"create_table": "maybe"}, "create_table is 'maybe'; it must be True or False"),
        ({"merge_schema": 1}, "merge_schema is 1; it must be True or False"),
        ({"on_history_gap": "ignore"}, "on_history_gap is 'ignore'; it must be warn or fail"),
        ({"on_checkpoint_reset": "yes"}, "on_checkpoint_reset is 'yes'; it must be fail or accept"),
        ({"on_table_replaced": True}, "on_table_replaced is True; it must be fail or accept"),
        ({"data_storage_version": "9.9"}, "data_storage_version is '9.9'; it must be stable, 2.0"),
        ({"max_rows_per_file": 0}, "max_rows_per_file is 0; it must be a whole number from 1"),
        ({"retain_versions": 3, "compact_every_epochs": 1}, "retain_versions is 3; it must be a whole number from 10"),
        ({"retain_versions": 10}, "retain_versions is part of compaction, and compaction is off"),
        ({"namespace": "dir"}, "namespace and table_id go together, and only namespace is given"),
        ({"table_id": "a.b"}, "namespace and table_id go together, and only table_id is given"),
        ({"table_id": ["a", ""]}, "table_id is ['a', '']; it must be text such as 'sales.orders', or its parts"),
        ({"namespace": "dir", "table_id": "a"}, "given twice: as a uri, and in a namespace"),
        ({"storage_options": {"secret": 7}}, "storage_options can be a mapping of text to text"),
    ],
)
def test_a_wrong_argument_is_refused_by_its_name_in_python(given: dict[str, Any], said: str) -> None:
    """L2, L6: with what is allowed."""
    with pytest.raises(ConfigurationError) as caught:
        LanceSink("/tmp/nowhere.lance", query_id="q", **given)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"createTable": "maybe"}, "createTable is 'maybe'; it must be true or false"),
        (
            {"lance.streaming.onHistoryGap": "ignore"},
            "lance.streaming.onHistoryGap is 'ignore'; it must be warn or fail",
        ),
        (
            {"lance.streaming.onCheckpointReset": "yes"},
            "lance.streaming.onCheckpointReset is 'yes'; it must be fail or",
        ),
        ({"lance.streaming.onTableReplaced": "yes"}, "lance.streaming.onTableReplaced is 'yes'; it must be fail or"),
        ({"dataStorageVersion": "9.9"}, "dataStorageVersion is '9.9'; it must be stable, 2.0"),
        ({"maxRowsPerFile": "0"}, "maxRowsPerFile is '0'; it must be a whole number from 1"),
        ({"retainVersions": "10"}, "retainVersions is part of compaction, and compaction is off"),
        ({"namespace": "dir"}, "namespace and tableId go together, and only namespace is given"),
        ({"tableId": "a.b"}, "namespace and tableId go together, and only tableId is given"),
        ({"namespace": "dir", "tableId": "a"}, "given twice: as a path, and in a namespace"),
    ],
)
def test_a_wrong_option_is_refused_by_its_name_in_spark(given: dict[str, str], said: str) -> None:
    """L2, L6: with what is allowed."""
    from headrace.spark.options import streaming

    with pytest.raises(ConfigurationError) as caught:
        streaming({"path": "/tmp/nowhere.lance", "streamingQueryId": "q", **given})
    assert said in str(caught.value)


def test_a_sink_takes_a_path_and_the_parts_of_a_table_id() -> None:
    """L6, L35: a part may have a dot in it."""
    assert "/tmp/nowhere.lance" in repr(LanceSink(Path("/tmp/nowhere.lance"), query_id="q"))
    given = {"query_id": "q", "namespace": "dir", "table_id": ["sales.eu", "orders"]}
    assert stream_settings(given, PythonSpelling()).location.table_id == ("sales.eu", "orders")


def test_the_mode_and_the_keys_of_a_sink_go_together() -> None:
    """L10, L11: keys are for upserts, and an upsert has some."""
    for wrong in ({"mode": "upsert"}, {"mode": "append", "keys": ["id"]}, {"mode": "upsert", "keys": [""]}):
        with pytest.raises(InvalidArgumentError, match="mode upsert needs keys, and no other mode takes any"):
            LanceSink("/t", query_id="q", **wrong)  # type: ignore[arg-type]
    with pytest.raises(
        InvalidArgumentError, match="mode is 'merge'; it must be one of append, complete, update, upsert"
    ):
        LanceSink("/t", query_id="q", mode="merge")


def test_update_mode_of_a_stream_is_refused_by_spark(
    source: StreamInput, spark: SparkSession, uri: str, tmp_path: Path
) -> None:
    """L10: no Python data source can have it; nothing is landed."""
    writer = stream(source, spark, path=uri, streamingQueryId="q").outputMode("update")
    assert "lance does not support Update mode" in refusal(writer, tmp_path / "checkpoint")
    assert len(stamps(uri)) == 1
