"""The command as a whole: help at once, errors in a sentence, exit codes, colours."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from headrace.cli.commands import _COMMANDS
from support.command import command, environment, headrace, on_a_terminal, succeeds

HEAVY = ("pyarrow", "lance", "datafusion", "pyspark", "pandas", "numpy", "rich", "prompt_toolkit", "msgspec", "uvicorn")
MOST_SECONDS = 0.3

# Prints how long the help takes from the start of the interpreter's own work, and what was loaded for it.
MEASURED = """
import io, json, sys, time
start = time.perf_counter()
from headrace.cli.main import main
out, sys.stdout = sys.stdout, io.StringIO()
code = main(sys.argv[1:])
seconds = time.perf_counter() - start
print(json.dumps([code, seconds, sorted(sys.modules)]), file=out)
"""


@pytest.mark.parametrize("name", [None, *_COMMANDS])
def test_help_comes_at_once_and_loads_no_engine(name: str | None) -> None:
    """C1: measured in fresh interpreters, best of three, so that a busy machine does not fail it."""
    arguments = [name, "--help"] if name else ["--help"]
    runs = [
        json.loads(subprocess.run([sys.executable, "-c", MEASURED, *arguments], check=True, capture_output=True).stdout)
        for _ in range(3)
    ]
    assert [code for code, _, _ in runs] == [0, 0, 0]
    assert set(HEAVY) & set(runs[0][2]) == set()
    assert min(seconds for _, seconds, _ in runs) < MOST_SECONDS


@pytest.mark.parametrize(
    ("arguments", "unused"),
    [
        (("sql", "-c", "select 1"), {"lance", "pyspark", "pandas", "rich", "prompt_toolkit", "headrace.tables"}),
        (("sql", "-c", "select * from 'numbers.lance'"), {"pyspark", "pandas", "rich", "headrace.tables"}),
        (("history", "numbers.lance"), {"datafusion", "pyspark", "pandas", "rich", "headrace.session"}),
        (("verify", "numbers.lance"), {"datafusion", "pyspark", "pandas", "rich", "headrace.session"}),
    ],
)
def test_a_command_loads_only_what_it_uses(tmp_path: Path, arguments: tuple[str, ...], unused: set[str]) -> None:
    """Loading Lance takes as long as a short query, and pandas, which pyarrow would load, as long again."""
    lance.write_dataset(pa.table({"n": [1]}), tmp_path / "numbers.lance")
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *arguments], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    code, _, loaded = json.loads(done.stdout)
    assert code == 0
    assert unused & set(loaded) == set()


def test_every_command_says_what_it_does() -> None:
    """C1: in the list, and at more length in its own help."""
    said = succeeds("--help")
    for name, (_, what) in _COMMANDS.items():
        assert f"  {name} " in said
        assert what in said
        assert succeeds(name, "-h").startswith(f"Usage: headrace {name}")
    assert succeeds("--version").startswith("headrace 0.")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["hystory"], 2, "No such command 'hystory'. Did you mean 'history'?"),
        (["rnu"], 2, "No such command 'rnu'. Did you mean 'run'?"),
        (["zzz"], 2, "No such command 'zzz'.\nHint: see headrace --help."),
        (["run", "--folow"], 2, "No such option '--folow'. (Did you mean one of: '--follow', '--log'?)"),
        (["history"], 2, "Missing argument 'TABLE'"),
        (["history", "t", "--last", "0"], 2, "0 is not in the range"),
        (["history", "nowhere.lance"], 1, "There is no Lance table at nowhere.lance."),
        (["history", "t", "--storage", "secret"], 2, "KEY=VALUE"),
        (["sql", "--table", "secret", "-c", "select 1"], 2, "NAME=URI"),
        (["init", "/dev/null/folder"], 1, "/dev/null/folder: Not a directory."),
        (
            ["run", "nowhere.toml"],
            2,
            "nowhere.toml cannot be read: No such file or directory.\nHint: check the path, or w",
        ),
        (["sql", "-c", "select nope"], 1, "nope"),
    ],
)
def test_what_goes_wrong_is_a_sentence_and_a_code(tmp_path: Path, arguments: list[str], code: int, said: str) -> None:
    """C2: on standard error, and no traceback."""
    done = headrace(*arguments, folder=tmp_path)
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith("headrace: ")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr
    assert done.stdout == ""


def test_debug_shows_where_an_error_came_from(tmp_path: Path) -> None:
    """C2: in any place on the command line."""
    for arguments in (["--debug", "history", "nowhere.lance"], ["history", "nowhere.lance", "--debug"]):
        done = headrace(*arguments, folder=tmp_path)
        assert done.returncode == 1
        assert "Traceback" in done.stderr
        assert "TableNotFoundError" in done.stderr


def test_colours_are_for_terminals_that_want_them() -> None:
    """C3: none in a pipe, none with NO_COLOR."""
    assert "\x1b[" in on_a_terminal("nonsense")[0]
    assert "\x1b[" not in on_a_terminal("nonsense", NO_COLOR="1")[0]
    assert "\x1b[" not in headrace("nonsense").stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_words_are_completed(shell: str) -> None:
    """C4: the script for a shell calls the command, which then offers its words."""
    assert "_HEADRACE_COMPLETE" in succeeds("completion", shell)
    offered = headrace(_HEADRACE_COMPLETE="bash_complete", COMP_WORDS="headrace his", COMP_CWORD="1")
    assert "history" in offered.stdout


def test_a_reader_that_leaves_is_no_error_of_ours() -> None:
    """C2: as `head` does."""
    first = command("sql", "--format", "json", "-c", "select value from generate_series(1, 10000000)")
    with subprocess.Popen(first, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
