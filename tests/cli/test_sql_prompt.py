"""The prompt of `headrace sql`, driven through a terminal as a person would."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from support.command import command, environment
from support.lance_tables import create_table

PATIENCE = 30.0
CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")


class Terminal:
    """A command on a terminal: what it shows is read, keys are sent to it."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            command("sql", *arguments), cwd=folder, stdin=slave, stdout=slave, stderr=slave,
            env=environment(TERM="xterm", XDG_STATE_HOME=str(folder / "state"), PROMPT_TOOLKIT_NO_CPR="1"),
            start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self._shown = ""

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def hear(self, sign: str) -> str:
        """Reads until the sign is shown, and forgets what came until then."""
        deadline = time.monotonic() + PATIENCE
        while sign not in self._shown:
            ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"no {sign!r} in {self._shown!r}"
            try:
                some = os.read(self._master, 65536)
            except OSError:
                some = b""
            assert some, f"it ended without {sign!r}: {self._shown!r}"
            self._shown = CODES.sub("", self._shown + some.decode())
        before, _, self._shown = self._shown.partition(sign)
        return before

    def hear_answer(self, sign: str) -> None:
        """Reads until the sign and then a new prompt are shown: keys pressed before that are not the prompt's."""
        self.hear(sign)
        self.hear("headrace>")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    create_table(tmp_path / "t.lance", pa.table({"identifier": [1, 2, 3]}))
    terminal = Terminal(tmp_path, "--table", "things=t.lance")
    terminal.hear("headrace>")
    yield terminal
    terminal.close()


def test_statements_are_answered_and_errors_do_not_end_it(terminal: Terminal, tmp_path: Path) -> None:
    """C14: a statement may take several lines; Ctrl-D leaves; what was asked is kept for the next time."""
    terminal.press("select sum(identifier) as total\r")
    terminal.press("from things;\r")
    terminal.hear_answer("│     6 │")
    terminal.press("select nope;\r")
    terminal.hear_answer("No field named nope")
    terminal.press("\\d\r")
    terminal.hear("identifier")
    terminal.hear_answer("1 row")
    terminal.press("\x04")
    assert terminal.process.wait(PATIENCE) == 0
    history = tmp_path / "state/headrace/sql_history"
    assert "select nope;" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0


def test_the_prompt_explains_itself(terminal: Terminal) -> None:
    """C14: that a statement ends with a semicolon, once, and what else can be typed, with a semicolon or without."""
    terminal.press("select 1 as one\r")
    terminal.hear("A statement ends with a semicolon")
    terminal.hear("...>")
    terminal.press(", 2 as two\r")
    terminal.hear("...>")
    terminal.press(";\r")
    assert "A statement ends" not in terminal.hear("│   1 │   2 │")
    terminal.hear("headrace>")
    for asked in ("help\r", "HELP;\r"):
        terminal.press(asked)
        assert "SELECT * FROM 'file.parquet';" in terminal.hear("quit, exit")
        terminal.hear("headrace>")
    terminal.press("select sum(identifier) as total from 't.lance';\r")
    terminal.hear_answer("│     6 │")
    terminal.press("exit\r")
    assert terminal.process.wait(PATIENCE) == 0


def test_names_are_completed(terminal: Terminal) -> None:
    """C14: tables, their columns, and words of SQL."""
    terminal.press("select ident\t")
    terminal.hear("identifier")
    terminal.press(" from thin\t")
    terminal.hear("things")
    terminal.press(" order by 1 limit 1;\r")
    terminal.hear("│          1 │")


def test_ctrl_c_ends_a_query_and_not_the_session(terminal: Terminal) -> None:
    """C14: nor the line that is being typed, which it clears."""
    terminal.press("select count(*) from generate_series(1, 100000000000);\r")
    terminal.hear("100000000000);")
    # The query has begun when the line was accepted; a signal that comes before it is heard by the prompt.
    wait_until_busy(terminal.process.pid)
    terminal.interrupt()
    terminal.hear_answer("Cancelled.")
    terminal.press("select 40 + 2 as answer;\r")
    terminal.hear_answer("│     42 │")
    terminal.press("\\q\r")
    assert terminal.process.wait(PATIENCE) == 0


def wait_until_busy(pid: int) -> None:
    """Until the process has computed for a while, which only the query makes it do."""
    before, deadline = cpu_ticks(pid), time.monotonic() + PATIENCE
    while cpu_ticks(pid) < before + 50:
        assert time.monotonic() < deadline, "it never got busy"
        time.sleep(0.05)


def cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
