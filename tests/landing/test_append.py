"""Append mode through format("lance")."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
from streams import ARROW_SCHEMA, StreamInput, drain, replay, rows, stamps

import headrace.spark


def test_each_epoch_is_one_stamped_append(spark, tmp_path: Path) -> None:
    """L7, L12"""
    headrace.spark.register(spark)
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"id": []}, schema=ARROW_SCHEMA), uri)
    source = StreamInput(tmp_path / "in")
    source.add(1, 2, 3)
    source.add(4)
    source.add(5, 6)
    writer = source.stream(spark).writeStream.format("lance").option("streamingQueryId", " q ").option("path", uri)
    import time

    t = time.time()
    drain(writer, tmp_path / "ck")
    print(time.time() - t)
    for s in stamps(uri):
        print(s)
    assert rows(uri) == source.ids()
    replay(tmp_path / "ck")
    drain(writer, tmp_path / "ck")
    assert rows(uri) == source.ids()
    replay(tmp_path / "ck", 0)
    drain(writer, tmp_path / "ck")
    assert rows(uri) == source.ids()
    source.add(7)
    drain(writer, tmp_path / "ck")
    assert rows(uri) == source.ids()
    for s in stamps(uri):
        print(s)
    sink = headrace.spark.LanceSink(uri, query_id="q2", mode="append")
    drain(source.stream(spark).writeStream.foreachBatch(sink), tmp_path / "ck2")
    assert rows(uri) == sorted(source.ids() * 2)
    sink = headrace.spark.LanceSink(uri, query_id="q3", mode="upsert", keys=["id"])
    drain(source.stream(spark).writeStream.foreachBatch(sink), tmp_path / "ck3")
    sink = headrace.spark.LanceSink(uri, query_id="q4", mode="complete")
    drain(source.stream(spark).writeStream.foreachBatch(sink), tmp_path / "ck4")
    for s in stamps(uri):
        print(s)
    assert rows(uri) == [7]
    spark.range(3).write.format("lance").mode("append").save(uri)
    spark.range(3).write.format("lance").mode("overwrite").save(uri)
    assert rows(uri) == [0, 1, 2]
