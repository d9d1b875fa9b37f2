"""The commands about a table: its history, whether it is right, and its compaction."""

from __future__ import annotations

import json
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from headrace.cli.table_options import _where_to_look
from headrace.tables.commit.ledger import QueryRun, Task
from headrace.tables.commit.payload import AppendPayload
from headrace.tables.location import Location
from headrace.tables.settings import Rules, SinkSettings
from headrace.tables.sink import EpochSink
from headrace.tables.write.data_files import write_rows
from support.command import headrace, succeeds
from support.lance_tables import LanceTable, create_table

SCHEMA = pa.schema([("id", pa.int64())])


def land(uri: str, epoch: int, *, run: str = "a-run-of-it", rows: int = 2) -> None:
    location = Location(uri)
    batch = pa.record_batch([range(rows)], schema=SCHEMA)
    sink = EpochSink(SinkSettings(location, Rules("orders")))
    sink.land(
        epoch, QueryRun(run, "spark's id"), AppendPayload([write_rows([batch] if rows else [], location, Task(0))])
    )


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Epochs 0 to 3, of which 1 is empty, and a restart that sent 2 again."""
    uri = str(tmp_path / "table.lance")
    create_table(uri, SCHEMA)
    for epoch, run, rows in ((0, "first", 2), (1, "first", 0), (2, "first", 3), (2, "second", 3), (3, "second", 1)):
        land(uri, epoch, run=run, rows=rows)
    return uri


def checkpoint(folder: Path, done: int) -> str:
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
        for epoch in range(done + 1):
            (folder / name / str(epoch)).write_text("v1")
    (folder / "metadata").write_text(json.dumps({"id": "spark's id"}))
    return str(folder)


def test_history_shows_what_each_version_did(table: str) -> None:
    """C5: newest first, with the epochs that passed without a version."""
    lines = succeeds("history", table).splitlines()
    assert lines[0].split() == ["version", "time", "(UTC)", "what", "query", "epoch", "rows", "files", "run"]
    words = [line.split()[3:] for line in lines[1:]]
    assert [line.split()[0] for line in lines[1:]] == ["6", "5", "4", "3", "2", "1"]
    assert words[0] == ["landed", "orders", "3", "1", "1", "second"]
    assert words[1] == ["fenced", "orders", "2", "second", "skipped", "2"]
    assert words[2] == ["landed", "orders", "2", "3", "1", "first", "empty", "1"]
    assert words[5] == ["created"]


def test_history_can_be_cut_and_read_by_machines(table: str) -> None:
    """C5: by number, by query, as JSON."""
    said = succeeds("history", table, "--last", "2")
    assert said.splitlines()[-1] == "Showing the newest 2; --all shows all kept versions."
    assert len(said.splitlines()) == 4
    assert len(succeeds("history", table, "--all").splitlines()) == 7
    assert len(succeeds("history", table, "--query", "orders").splitlines()) == 6
    assert len(succeeds("history", table, "--query", "nobody").splitlines()) == 1
    found = [json.loads(line) for line in succeeds("history", table, "--json").splitlines()]
    assert (found[0]["version"], found[0]["query"], found[0]["epoch"], found[0]["rows"]) == (6, "orders", 3, 1)
    assert (found[1]["skipped"], found[2]["empty"]) == ("2", "1")


def test_verify_says_that_all_is_well(table: str, tmp_path: Path) -> None:
    """C6: with the checkpoint and without."""
    expected = "orders: epochs 0-3: 3 landed once, 1 empty, 6 rows"
    assert succeeds("verify", table).split(maxsplit=1) == ["ok", f"{expected}\n"]
    assert expected in succeeds("verify", table, "--checkpoint", checkpoint(tmp_path / "c", 3))
    found = json.loads(succeeds("verify", table, "--json"))
    assert found == {
        "query": "orders", "checked": "0-3", "unchecked": "", "without": "", "landed": 3, "empty": "1", "rows": 6,
        "problems": [],
    }  # fmt: skip


def test_verify_exits_with_1_and_what_it_found(table: str, tmp_path: Path) -> None:
    """C6: an epoch that Spark takes for done and that is not there; one that is there twice."""
    done = headrace("verify", table, "--checkpoint", checkpoint(tmp_path / "c", 5))
    assert done.returncode == 1
    assert "No version has rows of epochs 4-5" in done.stdout
    stamp = {"lance.streaming.queryId": "orders", "lance.streaming.epochId": "2"}
    LanceTable(table).write(pa.table([[9]], schema=SCHEMA), transaction_properties=stamp)
    done = headrace("verify", table)
    assert done.returncode == 1
    assert "Epoch 2 landed 2 times, in versions 4 and 7." in done.stdout
    done = headrace("verify", table, "--query", "nobody")
    assert (done.returncode, "'orders'" in done.stderr) == (1, True)


def test_verify_says_which_epochs_it_could_not_check(table: str) -> None:
    """C6: their versions were removed: some of a query's, then all of them."""
    lance.dataset(table).cleanup_old_versions(retain_versions=2)
    lines = succeeds("verify", table).splitlines()
    assert lines[0].split(maxsplit=1) == ["ok", "orders: epoch 3: landed once, 1 row"]
    assert lines[1].strip().startswith("Not checked: epochs 0-2; their versions were removed by a cleanup")
    found = json.loads(succeeds("verify", table, "--json"))
    assert (found["checked"], found["unchecked"], found["problems"]) == ("3", "0-2", [])
    LanceTable(table).write(pa.table([[9]], schema=SCHEMA))
    lance.dataset(table).cleanup_old_versions(retain_versions=1)
    for lines in (succeeds("verify", table).splitlines(), succeeds("verify", table, "--query", "orders").splitlines()):
        assert lines[0].split(maxsplit=1) == ["ok", "orders: no epoch can be checked"]
        assert lines[1].strip().startswith("Not checked: epochs 0-3; ")


def test_verify_of_a_table_without_streams(tmp_path: Path) -> None:
    """C6: is not wrong."""
    uri = str(tmp_path / "table.lance")
    create_table(uri, SCHEMA)
    assert "Nothing to check" in succeeds("verify", uri)


def test_compact_puts_files_together(table: str) -> None:
    """C7: and says so; the ledger stays right."""
    assert succeeds("compact", table) == "Removed 2 fragments.\n"
    assert succeeds("compact", table, "--full") == "Nothing to compact.\n"
    assert "ok" in succeeds("verify", table)


def test_cleanup_removes_old_versions_but_none_that_a_query_needs(table: str) -> None:
    """C7, L23: it prints what it would do, names the query it refuses for, and forgets one only on request."""
    assert headrace("cleanup", table).returncode == 2
    assert headrace("cleanup", table, "--older-than", "soon").returncode == 2
    assert succeeds("cleanup", table, "--older-than", "1d") == "Nothing to remove.\n"
    assert succeeds("cleanup", table, "--keep", "1", "--dry-run") == "Would remove 5 versions, 1 to 5.\n"
    assert succeeds("cleanup", table, "--keep", "5").startswith("Removed version 1; ")
    LanceTable(table).write(pa.table([[9]], schema=SCHEMA))
    done = headrace("cleanup", table, "--keep", "1")
    assert (done.returncode, "epoch 3 of query 'orders'" in done.stderr) == (2, True)
    assert headrace("forget", table, "orders", given="n\n").returncode == 130
    assert succeeds("forget", table, "orders", "--yes") == "Forgot query orders in version 8.\n"
    assert succeeds("cleanup", table, "--keep", "1").startswith("Removed 6 versions, 2 to 7; ")
    assert lance.dataset(table).count_rows() == 7
    land(table, 0, run="third")
    assert lance.dataset(table).count_rows() == 9


COMMANDS = [["history"], ["verify"], ["compact"], ["cleanup", "--keep", "1"], ["forget", "--yes"]]


@pytest.mark.parametrize("command", COMMANDS, ids=[each[0] for each in COMMANDS])
def test_a_table_that_is_not_there_is_named_with_those_that_are(tmp_path: Path, command: list[str]) -> None:
    """C2: similar names first; a folder that is no table is not one of them."""
    for name in ("sales", "orders"):
        create_table(tmp_path / f"{name}.lance", SCHEMA)
    (tmp_path / "ordres.lance").mkdir()
    name, *more = command
    query = ["q"] if name == "forget" else []
    done = headrace(name, "order.lance", *query, *more, folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "headrace: There is no Lance table at order.lance.",
        "Hint: check the path; found orders.lance, sales.lance.",
    ]


@pytest.mark.parametrize(
    ("table", "hint"),
    [
        ("made/t.lance", "check the path."),
        ("made", "check the path; made is a folder without versions."),
        ("nowhere/t.lance", "check the path; there is no folder nowhere."),
        ("memory://t.lance", "check the address and the storage options."),
        ("t/0", "check the path; found t/0.lance, t/1.lance, t/2.lance, t/3.lance, t/4.lance and 1 more."),
        ("t", "check the path; found t/0.lance, t/1.lance, t/2.lance, t/3.lance, t/4.lance and 1 more."),
    ],
)
def test_the_hint_for_a_table_that_is_not_there_says_what_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, hint: str
) -> None:
    """C2: and proposes no option that the command does not have."""
    monkeypatch.chdir(tmp_path)
    Path("made").mkdir()
    for number in range(6):
        Path(f"t/{number}.lance/_versions").mkdir(parents=True)
    assert _where_to_look(table) == hint
