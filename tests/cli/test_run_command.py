"""`headrace run` as a user meets it: killed, interrupted, restarted; on a terminal, in a pipe, for machines."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lance
import pytest

from support.command import command, environment, headrace, on_a_terminal, succeeds
from support.deadlines import PROGRAM_SECONDS, allow_long_test

pytestmark = pytest.mark.xdist_group("pipelines")

FILES, ROWS = 4, 50

PIPELINE = """
name = "orders"
checkpoint = "checkpoint"
[source]
format = "json"
path = "in"
schema = "id BIGINT"
options = { maxFilesPerTrigger = 1 }
[table]
uri = "orders.lance"
create = true
[spark]
master = "local[2]"
[spark.conf]
"spark.driver.memory" = "1g"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    for number in range(FILES):
        add_file(tmp_path, number)
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    return tmp_path


def add_file(folder: Path, number: int) -> None:
    lines = [json.dumps({"id": number * ROWS + row}) for row in range(ROWS)]
    (folder / "in" / f"{number}.json").write_text("\n".join(lines))


def require_all(folder: Path, files: int = FILES) -> None:
    found = lance.dataset(str(folder / "orders.lance")).to_table()["id"].to_pylist()
    assert sorted(found) == list(range(files * ROWS))
    said = succeeds("verify", "orders.lance", "--checkpoint", "checkpoint", folder=folder)
    assert said.startswith("ok")


@contextmanager
def running(folder: Path, *arguments: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    """Run the command in a separate process session, and kill all of it at the end."""
    allow_long_test()  # a start of Spark on a busy machine with cold caches takes half a minute
    process = subprocess.Popen(
        command("run", "pipeline.toml", *arguments),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment(**more),
    )
    guard = threading.Timer(PROGRAM_SECONDS, lambda: os.killpg(process.pid, signal.SIGKILL))
    guard.start()
    try:
        with process:
            yield process
    finally:
        guard.cancel()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def until(process: subprocess.Popen[str], sign: str) -> str:
    """Reads on until a line has the sign."""
    assert process.stdout is not None
    read = []
    for line in process.stdout:
        read.append(line)
        if sign in line:
            return line
    raise AssertionError(f"no {sign!r} in {''.join(read)}")


def rest(process: subprocess.Popen[str]) -> tuple[str, str, int]:
    output, errors = process.communicate(timeout=PROGRAM_SECONDS)
    return output, errors, process.returncode


def test_a_driver_that_is_killed_loses_and_doubles_nothing(folder: Path) -> None:
    """C17, F1, L13: the epoch that had landed is seen and skipped; then there is nothing new; then there is."""
    with running(folder, HEADRACE_CRASH_AT="after-commit:1") as process:
        output, _, code = rest(process)
    assert code == -signal.SIGKILL
    assert "epoch 0: 50 rows landed as version 3" in output
    done = headrace("run", "pipeline.toml", "--json", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["event"] for event in events] == ["begin", "epoch", "epoch", "epoch", "end"]
    assert [(event["epoch"], event["was_skipped"]) for event in events[1:-1]] == [(1, True), (2, False), (3, False)]
    assert (events[-1]["epochs"], events[-1]["skipped"], events[-1]["rows"]) == (2, 1, 100)
    require_all(folder)
    assert "Spark" in (folder / ".headrace/checkpoint.log").read_text()


def test_ctrl_c_stops_after_an_epoch(folder: Path) -> None:
    """C16, C17: exit code 130, since rows are left; the next run continues."""
    with running(folder) as process:
        until(process, "epoch 0")
        process.send_signal(signal.SIGINT)
        output, errors, code = rest(process)
    assert errors == ""
    assert "Stopping after this epoch" in output
    assert code == 130
    landed = lance.dataset(str(folder / "orders.lance")).count_rows()
    assert ROWS <= landed < FILES * ROWS
    assert "Landed" in succeeds("run", "pipeline.toml", folder=folder)
    require_all(folder)


@pytest.mark.slow
def test_a_second_ctrl_c_stops_at_once(folder: Path) -> None:
    """C16: the next run lands what the stopped epoch did not."""
    with running(folder, "--follow") as process:
        until(process, "epoch 0")
        process.send_signal(signal.SIGINT)
        until(process, "Stopping")
        process.send_signal(signal.SIGINT)
        _, errors, code = rest(process)
    assert (errors, code) == ("", 0)
    succeeds("run", "pipeline.toml", folder=folder)
    require_all(folder)


@pytest.mark.slow
def test_a_following_run_ends_cleanly_on_sigterm(folder: Path) -> None:
    """C16: as a service manager sends it; rows that arrived before it land."""
    with running(folder, "--follow", "--json") as process:
        until(process, f'"epoch": {FILES - 1}')
        add_file(folder, FILES)
        until(process, f'"epoch": {FILES}')
        process.send_signal(signal.SIGTERM)
        output, errors, code = rest(process)
    assert (errors, code) == ("", 0)
    assert [json.loads(line)["event"] for line in output.splitlines()] == ["stopping", "end"]
    require_all(folder, FILES + 1)


@pytest.mark.slow
@pytest.mark.parametrize("is_json", [False, True], ids=["lines", "json"])
def test_an_epoch_after_an_idle_period_is_shown_with_its_own_figures(folder: Path, is_json: bool) -> None:
    """C15, C8, C9: in what is printed, on the page and in /metrics, which agree."""
    text = (folder / "pipeline.toml").read_text()
    seldom = '"spark.sql.streaming.noDataProgressEventInterval" = "1000"'
    (folder / "pipeline.toml").write_text(f'trigger = "1 second"\n{text}{seldom}\n')
    sign = '"epoch": {}' if is_json else "epoch {}:"
    with running(folder, "--follow", "--ui", "0", *(["--json"] if is_json else [])) as process:
        assert process.stderr is not None
        url = json.loads(until(process, '"url"'))["url"] if is_json else process.stderr.readline().split()[-1]
        until(process, sign.format(FILES - 1))
        time.sleep(4)  # Spark reports idle triggers by its own clock.
        add_file(folder, FILES)
        line = until(process, sign.format(FILES))
        epoch = epochs_on_page(url, FILES + 1)[-1]
        metrics = fetched(f"{url}metrics").decode()
        process.send_signal(signal.SIGTERM)
        assert rest(process)[2] == 0
    assert (epoch["epoch"], epoch["rows_in"], epoch["rows_landed"]) == (FILES, ROWS, ROWS)
    assert epoch["seconds"] >= epoch["phases"]["writing"] + epoch["phases"]["committing"] > 0
    assert epoch["rows_per_second"] == pytest.approx(ROWS / epoch["seconds"])
    assert f'headrace_epoch_seconds{{pipeline="orders"}} {epoch["seconds"]}\n' in metrics
    assert f'headrace_rows_landed_total{{pipeline="orders"}} {float((FILES + 1) * ROWS)}\n' in metrics
    if is_json:
        printed = json.loads(line)
        same = ("epoch", "rows_in", "rows_landed", "rows_per_second", "seconds", "phases", "version")
        assert {name: printed[name] for name in same} == {name: epoch[name] for name in same}
    else:
        assert f" in {epoch['seconds']:.2f} s ({ROWS} in, {epoch['rows_per_second']:,.0f}/s)" in line


def fetched(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:
        found: bytes = answer.read()
    return found


def epochs_on_page(url: str, count: int) -> list[dict[str, Any]]:
    """Return the page's epochs, once it has that many: it is updated a moment after the terminal."""
    deadline = time.monotonic() + 30
    while True:
        epochs: list[dict[str, Any]] = json.loads(fetched(f"{url}api/status"))["epochs"]
        if len(epochs) >= count or time.monotonic() > deadline:
            return epochs
        time.sleep(0.05)


@pytest.mark.slow
def test_a_terminal_shows_a_live_table(folder: Path) -> None:
    """C18: it is redrawn in place, and plain lines are left at the end."""
    text, code = on_a_terminal("run", "pipeline.toml", folder=folder)
    assert code == 0
    assert "time by phase" in text
    assert "\x1b[" in text
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert re.search(r"Landed 200 rows in 4 epochs; the table is at version \d+\.\s*$", plain)


def test_a_run_without_java_fails_and_says_how_to_install_it(folder: Path) -> None:
    """C19: one sentence and a separate exit code, before anything is written."""
    done = headrace("run", "pipeline.toml", folder=folder, JAVA_HOME="/nowhere")
    assert done.returncode == 3
    assert "Spark needs Java" in done.stderr
    assert "apt install openjdk-17-jre-headless" in done.stderr
    assert not (folder / "orders.lance").exists()
    old = folder / "jdk" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    old.chmod(0o755)
    done = headrace("run", "pipeline.toml", folder=folder, JAVA_HOME=str(folder / "jdk"))
    assert (done.returncode, "is Java 8." in done.stderr) == (3, True)
    empty = folder / "empty"
    empty.mkdir()
    done = headrace("run", "pipeline.toml", folder=folder, JAVA_HOME="", PATH=str(empty))
    assert (done.returncode, "no Java was found" in done.stderr) == (3, True)


def test_a_file_that_is_wrong_starts_no_spark(folder: Path) -> None:
    """C10, C17: exit code 2, the line, and nothing written."""
    (folder / "pipeline.toml").write_text(PIPELINE.replace("create = true", "creat = true"))
    done = headrace("run", "pipeline.toml", folder=folder)
    assert done.returncode == 2
    assert "pipeline.toml:11: table.creat is not known." in done.stderr
    assert "did you mean create?" in done.stderr
    assert not (folder / ".headrace").exists()


def test_a_step_that_cannot_be_planned_is_named(folder: Path) -> None:
    """C15, C17: exit code 1, one sentence, and Spark's own words in the log."""
    (folder / "pipeline.toml").write_text(PIPELINE + '[[step]]\nsql = "SELECT nope FROM source"\n')
    done = headrace("run", "pipeline.toml", folder=folder)
    assert done.returncode == 1
    assert done.stderr.startswith("headrace: Step 1 cannot be planned:")
    assert "nope" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_the_demo_proves_the_promise() -> None:
    """C20: a real kill, a replay that is skipped, every order once, and an answer."""
    said = headrace("demo")
    assert (said.returncode, said.stderr) == (0, "")
    for sign in ("killed by signal 9", "skipped, had landed before", "6 landed once, 6,000 rows", "2000 │      2000"):
        assert sign in said.stdout
