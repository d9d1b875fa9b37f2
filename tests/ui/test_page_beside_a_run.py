"""The status page as the command uses it: the board gets every event that the display gets."""

from __future__ import annotations

import json
import logging
import socket
import threading
import urllib.request
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.cli.display import display
from headrace.cli.status_page import Counter, count_table, with_status_page
from headrace.pipeline import Pipeline, load
from headrace.pipeline.config import TableConfig
from headrace.pipeline.progress import Totals
from support.command import headrace
from support.lance_tables import LanceTable
from support.statuses import Clock, progress

FILE = """
name = "numbers"
[source]
format = "rate"
[table]
uri = "{uri}"
create = true
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "numbers.toml"
    path.write_text(FILE.format(uri=tmp_path / "numbers.lance"))
    return path


@pytest.fixture
def plan(file: Path) -> Pipeline:
    return load(file)


def append(plan: Pipeline) -> None:
    LanceTable(plan.table.uri).write(pa.table({"n": [1, 2, 3]}))


def status(url: str) -> dict[str, object]:
    with urllib.request.urlopen(f"{url}api/status", timeout=10) as answer:
        found: dict[str, object] = json.load(answer)
    return found


def test_the_page_gets_the_events_that_the_display_gets(plan: Pipeline, capsys: pytest.CaptureFixture[str]) -> None:
    """C8: its address is an event like the others, and every line is JSON."""
    append(plan)
    totals = Totals()
    states = []
    with display(is_json=True) as plain, with_status_page(plain, plan, 0) as shown:
        url = json.loads(capsys.readouterr().out)["url"]
        states.append(status(url)["state"])
        shown.begin(plan)
        states.append(status(url)["state"])
        totals.add(progress(5))
        shown.epoch(progress(5), totals)
        told = status(url)
        shown.stopping()
        states.append(status(url)["state"])
        shown.end(totals)
        states.append(status(url)["state"])
    assert states == ["starting", "running", "stopping", "ended"]
    (epoch,) = told["epochs"]  # type: ignore[misc]
    assert (epoch["epoch"], epoch["versions"], epoch["fragments"]) == (5, 1, 1)
    assert told["totals"]["rows"] == 800  # type: ignore[index]
    events = [json.loads(line)["event"] for line in capsys.readouterr().out.splitlines()]
    assert events == ["begin", "epoch", "stopping", "end"]


@pytest.mark.parametrize("is_json", [True, False])
def test_a_table_of_a_namespace_has_a_name_everywhere(
    file: Path, is_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """C22: on the page and in what a run prints."""
    file.write_text(file.read_text().replace("uri = ", 'namespace = "dir"\ntable_id = "sales.orders"\n# '))
    plan = load(file)
    with display(is_json=is_json) as plain, with_status_page(plain, plan, 0) as shown:
        said = capsys.readouterr()
        url = json.loads(said.out)["url"] if is_json else said.err.split()[-1]
        shown.begin(plan)
        assert status(url)["table"] == "dir namespace table sales.orders"
    assert "dir namespace table sales.orders" in capsys.readouterr().out


def test_the_address_is_said_on_standard_error(plan: Pipeline, capsys: pytest.CaptureFixture[str]) -> None:
    """C8: once, and not among what a run prints."""
    with display(is_json=False) as plain, with_status_page(plain, plan, 0):
        pass
    said = capsys.readouterr()
    assert said.err.startswith("Status page: http://127.0.0.1:")
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_without_the_option_there_is_no_page(plan: Pipeline) -> None:
    """C8: the display is the one there was."""
    with display(is_json=True) as plain, with_status_page(plain, plan, None) as shown:
        assert shown is plain


def test_a_run_that_fails_says_so_on_its_page_and_in_its_own_words(
    plan: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    """C8: the error propagates unchanged, once an open browser has seen it."""
    seen: list[dict[str, object]] = []

    def run() -> None:
        with display(is_json=True) as plain, with_status_page(plain, plan, 0) as shown:
            url = json.loads(capsys.readouterr().out)["url"]
            shown.begin(plan)
            assert status(url)["state"] == "running"
            threading.Timer(0.3, lambda: seen.append(status(url))).start()
            raise RuntimeError("the bucket is gone")

    with pytest.raises(RuntimeError, match="the bucket is gone"):
        run()
    assert [(told["state"], told["message"]) for told in seen] == [("failed", "the bucket is gone")]


def test_a_table_is_counted_at_most_once_a_second(plan: Pipeline) -> None:
    """C8: versions and fragments, as they are then."""
    clock = Clock(0.0)
    counter = Counter(plan, clock=clock)
    append(plan)
    assert counter.count() == (1, 1)
    append(plan)
    clock.now = 0.9
    assert counter.count() == (None, None)
    clock.now = 1.0
    assert counter.count() == (2, 2)


def test_a_table_that_is_slow_to_count_is_counted_less_often(plan: Pipeline) -> None:
    """C8: for no more than a tenth of the time."""
    clock = Clock(0.0)
    append(plan)

    def slow(table: TableConfig) -> tuple[int, int]:
        clock.now += 2.0
        return count_table(table)

    counter = Counter(plan, count=slow, clock=clock)
    assert counter.count() == (1, 1)
    clock.now = 21.9
    assert counter.count() == (None, None)
    clock.now = 22.0
    assert counter.count() == (1, 1)


def test_a_table_that_cannot_be_counted_is_logged_once_and_the_run_continues(
    plan: Pipeline, caplog: pytest.LogCaptureFixture
) -> None:
    """C8: there is none before the first epoch, for one."""
    clock = Clock(0.0)
    counter = Counter(plan, clock=clock)
    assert counter.count() == (None, None)
    clock.now = 5.0
    assert counter.count() == (None, None)
    assert [record.levelno for record in caplog.records if record.name == "headrace.ui"] == [logging.WARNING]
    append(plan)
    clock.now = 10.0
    assert counter.count() == (1, 1)


def test_a_port_that_is_taken_ends_the_command_before_spark_starts(file: Path) -> None:
    """C8: a mistake on the command line, reported in one sentence."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = headrace("run", str(file), "--json", "--ui", str(port))
    assert done.returncode == 2, done.stderr
    assert f"port {port} of 127.0.0.1" in done.stderr
    assert done.stdout == ""


def test_what_is_no_port_is_refused_by_the_command(file: Path) -> None:
    """C8: with the range there is."""
    done = headrace("run", str(file), "--ui", "70000")
    assert done.returncode == 2
    assert "70000 is not in the range 0<=x<=65535" in done.stderr
