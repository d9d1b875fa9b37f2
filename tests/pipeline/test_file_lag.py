"""The lag of a source of files: what Spark would still read, by its own log, at a bounded cost."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from headrace.pipeline import source_log
from headrace.pipeline.config import Pipeline, Source, TableConfig
from headrace.pipeline.file_lag import FileLag
from headrace.pipeline.source_files import SourceFiles, local_path
from headrace.pipeline.source_log import SourceLog
from support.deadlines import PROGRAM_SECONDS
from support.statuses import Clock

PATIENCE = PROGRAM_SECONDS
DAY = 86_400


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The source ``in`` with files of 0, 1, 2, ... bytes, one a second, and the checkpoint ``notes``."""
    for number in range(12):
        add(tmp_path / "in", f"{number}.json", number)
    return tmp_path


def add(folder: Path, name: str, number: int = 1) -> str:
    """Write a file of that many bytes, which is that many seconds younger than the oldest."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("." * number)
    os.utime(file, (30 * DAY + number, 30 * DAY + number))
    return str(file)


def note(folder: Path, batch: int, *paths: str, compact: bool = False) -> None:
    """Write a file of the source's log, as Spark does; ``compact`` repeats what the earlier ones have."""
    log = folder / "notes" / "sources" / "0"
    log.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []
    if compact:
        earlier = sorted((file for file in log.iterdir() if file.name.isdigit()), key=lambda file: int(file.name))
        lines = [line for file in earlier for line in file.read_text().splitlines()[1:]]
    for path in paths:
        milliseconds = int(os.path.getmtime(path) * 1000) if os.path.exists(path) else 0
        value = {"path": f"file://{quote(path)}", "timestamp": milliseconds, "batchId": batch}
        lines.append(json.dumps(value, separators=(",", ":")))
    (log / (f"{batch}.compact" if compact else f"{batch}")).write_text("\n".join(["v1", *lines]))
    (log / f".{batch}.crc").write_text("not a log")


def pipeline(folder: Path, *, path: str = "in", **more: Any) -> Pipeline:
    source = Source(format=more.pop("format", "json"), path=str(folder / path), options=more)
    return Pipeline(
        name="orders", source=source, table=TableConfig(uri="orders.lance"), checkpoint=f"file:{folder / 'notes'}"
    )


def counted(folder: Path, batch: int, **more: Any) -> Mapping[str, int]:
    return FileLag(pipeline(folder, **more), patience=PATIENCE).newest(batch)


def test_files_that_were_not_read_are_counted_with_their_bytes(folder: Path) -> None:
    """C26: by batch, through a compaction of the log, with files that come and files that go."""
    files = [str(folder / "in" / f"{number}.json") for number in range(12)]
    lag = FileLag(pipeline(folder), patience=PATIENCE)
    for batch in range(3):
        note(folder, batch, files[batch])
    assert lag.newest(0) == {"files": 11, "bytes": 66}
    assert lag.newest(2) == {"files": 9, "bytes": 63}
    note(folder, 3, *files[3:6], compact=True)
    note(folder, 4, files[6])
    assert lag.newest(4) == {"files": 5, "bytes": 7 + 8 + 9 + 10 + 11}
    os.unlink(files[0])  # as `cleanSource` does
    os.unlink(files[11])
    add(folder / "in", "12.json", 100)
    assert lag.newest(4) == {"files": 5, "bytes": 7 + 8 + 9 + 10 + 100}
    note(folder, 5, *files[7:11], str(folder / "in" / "12.json"))
    assert lag.newest(5) == {"files": 0, "bytes": 0}


def test_a_later_run_begins_with_the_compacted_log(folder: Path) -> None:
    """C26: Spark removes what was compacted; a compaction after the reported batch is not needed yet."""
    files = [str(folder / "in" / f"{number}.json") for number in range(12)]
    note(folder, 0, files[0])
    note(folder, 1, *files[1:4], compact=True)
    note(folder, 2, files[4])
    os.unlink(folder / "notes/sources/0/0")
    assert counted(folder, 2)["files"] == 7
    note(folder, 3, files[5], compact=True)
    assert counted(folder, 2)["files"] == 7


def test_each_entry_of_the_log_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C26: the cost does not grow with what was read before; long logs are read in blocks."""
    monkeypatch.setattr(source_log, "_BLOCK_BYTES", 50)
    seen: list[int] = []
    decode = source_log._decoder.decode

    class Decoder:
        def decode(self, line: bytes) -> Any:
            seen.append(decode(line).batchId)
            return decode(line)

    monkeypatch.setattr(source_log, "_decoder", Decoder())
    log = SourceLog(folder / "notes" / "sources" / "0")
    for batch in range(10):
        note(folder, batch, str(folder / "in" / f"{batch}.json"), compact=batch == 9)
        log.read(batch)
    # Reading the compacted log backwards ends at the first entry that is known.
    assert seen == [*range(10), 8]
    assert all(log.has(str(folder / "in" / f"{number}.json")) for number in range(10))
    assert not log.has(str(folder / "in" / "10.json"))


def test_files_that_are_too_old_are_neither_counted_nor_remembered(folder: Path) -> None:
    """C26: by `maxFileAge`, as Spark ignores them."""
    files = [str(folder / "in" / f"{number}.json") for number in range(12)]
    note(folder, 0, files[9])
    assert counted(folder, 0, maxFileAge="3s")["files"] == 5
    assert counted(folder, 0, maxFileAge="3000")["files"] == 5
    assert counted(folder, 0, maxFileAge="3s", latestFirst=True)["files"] == 5
    assert counted(folder, 0, maxFileAge="3s", latestFirst=True, maxFilesPerTrigger=1)["files"] == 11
    assert counted(folder, 0)["files"] == 11
    assert counted(folder, 0, maxFileAge="a while") == {}
    ancient = add(folder / "in", "ancient.json")
    os.utime(ancient, (20 * DAY, 20 * DAY))
    assert counted(folder, 0)["files"] == 11
    log = SourceLog(folder / "notes" / "sources" / "0", max_age=3)
    for batch in range(12):
        note(folder, batch, files[batch])
        log.read(batch)
        assert all(log.has(file) for file in files[max(0, batch - 3) : batch + 1])
    assert not any(log.has(file) for file in files[:4])


def test_any_name_is_found_in_the_log(folder: Path) -> None:
    """C26: it has addresses, and the folder has names; a link to nothing is no file."""
    odd = add(folder / "in", "a b%20é#+.json")
    os.symlink(folder / "nowhere", folder / "in" / "link.json")
    note(folder, 0, str(folder / "in" / "0.json"))
    assert counted(folder, 0)["files"] == 12
    note(folder, 1, odd)
    assert counted(folder, 1)["files"] == 11


def test_a_file_is_known_by_its_name_if_spark_knows_it_so(folder: Path) -> None:
    """C26: with `fileNameOnly`."""
    add(folder / "in" / "deeper", "0.json")
    note(folder, 0, str(folder / "in" / "0.json"))
    assert counted(folder, 0, recursiveFileLookup=True)["files"] == 12
    assert counted(folder, 0, recursiveFileLookup="true", fileNameOnly="true")["files"] == 11


NAMES = [
    "a b.json",
    "é%20+.json",
    "b.txt",
    "_hidden.json",
    ".hidden.json",
    "copied.json._COPYING_",
    "_metadata",
    "sub/n.json",
    "_sub/n.json",
    "sub/deep/n.json",
]
ALL = {"a b.json", "é%20+.json", "b.txt", "_metadata"}
# Each was compared with what Spark 4.3 logs.
LISTED = [
    ("", {}, ALL),
    ("", {"recursive": True}, ALL | {"sub/n.json", "sub/deep/n.json"}),
    ("", {"names": "*.json"}, {"a b.json", "é%20+.json"}),
    ("", {"names": "*.{txt,none}", "recursive": True}, {"b.txt"}),
    ("*", {}, ALL | {"sub/n.json", "_sub/n.json"}),
    ("**", {}, ALL | {"sub/n.json", "_sub/n.json"}),
    ("*", {"names": "[!a]*.json"}, {"é%20+.json", "sub/n.json", "_sub/n.json"}),
    ("*.json", {}, {"a b.json", "é%20+.json"}),
    ("[a-b]*.json", {}, {"a b.json"}),
    ("[^a]*.json", {}, {"é%20+.json"}),
    ("{a*,*b.json}", {}, {"a b.json"}),
    ("{sub,_sub}/*.json", {}, {"sub/n.json", "_sub/n.json"}),
    ("?.txt", {}, {"b.txt"}),
    ("\\?.txt", {}, set()),
    ("nowhere/*", {}, set()),
    ("b.txt/*", {}, set()),
    ("*/n.json", {}, {"sub/n.json", "_sub/n.json"}),
]


@pytest.mark.parametrize(("path", "options", "expected"), LISTED)
def test_files_are_listed_as_spark_lists_them(
    tmp_path: Path, path: str, options: Mapping[str, Any], expected: set[str]
) -> None:
    """C26: names that begin with _ or . are hidden, but not from a wildcard that matches their folder."""
    for name in NAMES:
        add(tmp_path, name)
    assert listed(tmp_path, path, **options) == expected


def listed(folder: Path, path: str = "", **options: Any) -> set[str]:
    files = SourceFiles(str(folder / path), **options)
    found = list(files)
    return {os.path.relpath(path, folder) for path, is_deeper in found if files.reads_deeper or not is_deeper}


@pytest.mark.parametrize(
    ("names", "path", "expected"),
    [
        (["a=1/1.json", "a=2/b/2.json", "a=2/_b/2.json", "a=3/.z.json"], "", {"a=1/1.json", "a=2/b/2.json"}),
        (["a=1/1.json", "a=2/b/2.json"], "*", {"a=1/1.json"}),
        (["x/a=1/1.json"], "", {"x/a=1/1.json"}),
        (["_a=1/1.json"], "", {"_a=1/1.json"}),
        (["a=1/_hidden.json", "z.json", "s/1.json"], "", {"z.json"}),
    ],
)
def test_files_in_partitions_are_listed_at_any_depth(
    tmp_path: Path, names: list[str], path: str, expected: set[str]
) -> None:
    """C26: a folder whose name has an equals sign and that has files makes them so."""
    for name in names:
        add(tmp_path, name)
    assert listed(tmp_path, path) == expected


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a//b/", "/a/b"),
        ("/a/../b c/*", "/b c/*"),
        ("s3://bucket/a", None),
        ("file://host/a", None),
        ("a/b", None),
    ],
)
def test_only_local_paths_are_listed(location: str, expected: str | None) -> None:
    """C26: what is in an object store is not known."""
    assert local_path(location) == expected


def test_a_lag_that_cannot_be_known_is_left_out(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """C26: rather than said to be 0; the log says why, once."""
    assert counted(folder, 0, format="rate") == {}
    assert caplog.records == []
    lag = FileLag(pipeline(folder), patience=PATIENCE)
    assert lag.newest(0) == {}
    assert lag.newest(0) == {}
    assert ["not known how many files" in record.message for record in caplog.records] == [True]
    note(folder, 0, str(folder / "in" / "0.json"))
    assert lag.newest(0)["files"] == 11
    assert counted(folder, 0, path="nowhere") == {}
    assert counted(folder, 0, path="{in") == {}
    assert counted(folder, 0, pathGlobFilter="[z-a]") == {}
    (folder / "in" / "_spark_metadata").mkdir()
    assert counted(folder, 0) == {}
    (folder / "notes" / "sources" / "0" / "1").write_text('v2\n{"file":"a"}')
    assert counted(folder, 1, path="i*") == {}


def test_counting_takes_at_most_a_tenth_of_the_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C26: after half a second that it may always take; an epoch for which nothing was counted has no lag."""
    note(folder, 0, str(folder / "in" / "0.json"))
    clock, read, seconds = Clock(0.0), SourceLog.read, 0.2

    def slowly(self: SourceLog, through: int) -> None:
        clock.now += seconds
        read(self, through)

    monkeypatch.setattr(SourceLog, "read", slowly)
    lag = FileLag(pipeline(folder), clock=clock, patience=PATIENCE)
    assert [bool(lag.newest(0)) for _ in range(5)] == [True, True, True, False, False]
    seconds, counts, begun = 3.0, 0, clock.now
    for _ in range(1000):
        clock.now += 0.1
        counts += bool(lag.newest(0))
    assert counts == pytest.approx((clock.now - begun) / 10 / seconds, abs=1)
    clock.now += 1000
    seconds = 0.3
    assert [bool(lag.newest(0)) for _ in range(4)] == [True, True, False, False]


def test_a_slow_count_does_not_hold_up_the_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C26: it is reported with a later epoch, once."""
    note(folder, 0, str(folder / "in" / "0.json"))
    may_read, read = threading.Event(), SourceLog.read

    def slowly(self: SourceLog, through: int) -> None:
        assert may_read.wait(PROGRAM_SECONDS)
        read(self, through)

    monkeypatch.setattr(SourceLog, "read", slowly)
    lag = FileLag(pipeline(folder), patience=0.01)
    assert lag.newest(0) == {}
    assert lag.newest(0) == {}
    may_read.set()
    assert lag._counting is not None
    lag._counting.join(PROGRAM_SECONDS)
    assert lag.newest(0)["files"] == 11
    assert lag._counting is None
