"""Task messages: they round trip, and nothing in a hostile one is trusted."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import LandingError
from headrace.tables.commit.ledger import QueryRun
from headrace.tables.commit.message import MAX_BYTES, TaskMessage, one_per_partition
from headrace.tables.location import Location
from headrace.tables.store import Column
from headrace.tables.write import upsert

COUNTS = st.integers(0, 2**40)
NAMES = st.from_regex(r"[0-9A-Za-z_-]{1,60}\.lance", fullmatch=True)
FRAGMENTS = st.fixed_dictionaries(
    {
        "id": COUNTS,
        "physical_rows": COUNTS,
        "files": st.lists(st.fixed_dictionaries({"path": NAMES, "fields": st.lists(COUNTS)}), min_size=1, max_size=2),
    }
)
COLUMNS = st.dictionaries(COUNTS, st.builds(Column, st.text(), st.text(), st.booleans()), max_size=4)


@settings(max_examples=50)
@given(
    COUNTS,
    st.lists(FRAGMENTS, max_size=3),
    COLUMNS,
    st.none() | st.builds(QueryRun, st.text(), st.text()),
    st.none() | COUNTS,
)
def test_a_message_survives_the_way_through_text(
    partition: int, fragments: list[Any], columns: dict[int, Column], run: QueryRun | None, epoch: int | None
) -> None:
    """L29: what a task reports is what the driver commits."""
    rows = sum(fragment["physical_rows"] for fragment in fragments)
    sent = TaskMessage(partition, rows, tuple(fragments), columns, run, epoch, rows // 2)
    assert TaskMessage.from_json(sent.to_json()) == sent


def good() -> dict[str, Any]:
    fragment = {"id": 0, "physical_rows": 2, "files": [{"path": "0a1b.lance", "fields": [0]}]}
    sent = TaskMessage(3, 2, (fragment,), {0: Column("id", "int64", True)}, QueryRun("run", "checkpoint"), 7)
    value: dict[str, Any] = json.loads(sent.to_json())
    return value


def spoiled(where: str, value: object) -> str:
    """The good message with something else at a place; a place that is not there is added."""
    message = good()
    *path, last = [int(part) if part.isdigit() else part for part in where.split(".")]
    target: Any = message
    for part in path:
        target = target[part]
    target[last] = value
    return json.dumps(message)


PATHS: list[object] = [
    "../../etc/passwd.lance",
    "/etc/passwd.lance",
    "a/b.lance",
    "a\\b.lance",
    "..lance",
    ".lance",
    "a.lance\n",
    "a.lance/../b.lance",
    "a.manifest",
    "a%2fb.lance",
    "é.lance",
    "a b.lance",
    "s3://bucket/a.lance",
    "x" * 200 + ".lance",
    "",
    None,
    5,
    ["a.lance"],
]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_is_a_data_files_name_and_nothing_else(path: object) -> None:
    """L30: no message can point outside of the table's data folder."""
    with pytest.raises(LandingError):
        TaskMessage.from_json(spoiled("fragments.0.files.0.path", path))


SPOILED = [
    ("version", 3),
    ("version", "1"),
    ("version", None),
    ("partition", -1),
    ("partition", True),
    ("partition", "3"),
    ("partition", 1.0),
    ("rows", 3),
    ("rows", 1),
    ("rows", -2),
    ("rows", None),
    ("rows", 2.0),
    ("fragments", None),
    ("fragments", 5),
    ("fragments", []),
    ("fragments", ["text"]),
    ("fragments", {"a": 1}),
    ("fragments.0.physical_rows", "2"),
    ("fragments.0.physical_rows", -2),
    ("fragments.0.physical_rows", 10**6),
    ("fragments.0.deletion_file", {"id": 1}),
    ("fragments.0.files", []),
    ("fragments.0.files", None),
    ("fragments.0.files", "a.lance"),
    ("fragments.0.files", [5]),
    ("fragments.0.files.0.base_id", 0),
    ("fragments.0.files.0.base_id", 3),
    ("columns", None),
    ("columns", [1]),
    ("columns", {"x": ["a", "b", True]}),
    ("columns", {"0": ["a"]}),
    ("columns", {"0": 5}),
    ("run", 5),
    ("run", ["a", "b", "c"]),
    ("epoch", -1),
    ("epoch", "7"),
    ("null_rows", -1),
    ("null_rows", 3),
    ("null_rows", None),
    ("null_rows", True),
]


@pytest.mark.parametrize(("where", "value"), SPOILED)
def test_a_message_that_is_wrong_anywhere_is_refused(where: str, value: object) -> None:
    """L29: by our own error, before anything is committed."""
    with pytest.raises(LandingError):
        TaskMessage.from_json(spoiled(where, value))


@pytest.mark.parametrize(
    "where", ["version", "partition", "rows", "fragments", "columns", "run", "epoch", "null_rows", "fragments.0.files"]
)
def test_a_message_without_a_part_is_refused(where: str) -> None:
    """L29"""
    message = good()
    if where == "fragments.0.files":
        del message["fragments"][0]["files"]
    else:
        del message[where]
    with pytest.raises(LandingError):
        TaskMessage.from_json(json.dumps(message))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("[" * 100_000, id="deep"),
        pytest.param("\x00", id="zero"),
        *("null", "5", "[]", "{}", '"text"', "{", "NaN"),
    ],
)
def test_what_is_no_message_at_all_is_refused(text: str) -> None:
    """L29"""
    with pytest.raises(LandingError):
        TaskMessage.from_json(text)


def test_a_message_of_another_release_is_refused() -> None:
    """L29: the executors' and the driver's must be the same."""
    with pytest.raises(LandingError, match=r"version 3 and this driver reads versions 1 and 2.*same release"):
        TaskMessage.from_json(spoiled("version", 3))


def test_a_message_of_the_version_before_is_read() -> None:
    """C25, L29: it does not count null rows, and is otherwise the same."""
    old = good()
    old["version"] = 1
    del old["null_rows"]
    found = TaskMessage.from_json(json.dumps(old))
    assert found == TaskMessage.from_json(json.dumps(good()))
    assert found.null_rows == 0


def test_a_message_is_only_so_large() -> None:
    """L29: read before it is parsed, and refused where it is made, with what to do about it."""
    fragment = {"physical_rows": 1, "files": [{"path": "a.lance"}]}
    fit = (MAX_BYTES - 1000) // (len(json.dumps(fragment, separators=(",", ":"))) + 1)
    assert len(TaskMessage(0, fit, (fragment,) * fit).to_json()) <= MAX_BYTES
    with pytest.raises(LandingError, match="maxRowsPerFile"):
        TaskMessage(0, fit, (fragment,) * (fit + 50)).to_json()
    with pytest.raises(LandingError, match=f"{MAX_BYTES} are allowed"):
        TaskMessage.from_json("[" * (MAX_BYTES + 1))


def test_a_partition_or_a_file_may_be_named_once() -> None:
    """L29: the losers of speculation must not land."""

    def made(partition: int, *paths: str) -> TaskMessage:
        return TaskMessage(partition, 0, tuple({"physical_rows": 0, "files": [{"path": path}]} for path in paths))

    one_per_partition([])
    one_per_partition([made(0, "a.lance", "b.lance"), made(1), made(2, "c.lance")])
    for wrong in ([made(0), made(0)], [made(0, "a.lance"), made(1, "a.lance")], [made(0, "a.lance", "a.lance")]):
        with pytest.raises(LandingError, match="2 times"):
            one_per_partition(wrong)


def test_a_partition_that_reports_twice_is_not_merged_either() -> None:
    """L29: rows staged for a merge come as messages too."""
    twice = [TaskMessage(0), TaskMessage(0)]
    with pytest.raises(LandingError, match="partition 0 2 times"):
        upsert.staged_rows(twice, pa.schema([("id", pa.int64())]), Location("staging"), Location("table"), ["id"])
