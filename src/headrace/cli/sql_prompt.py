"""The prompt of `headrace sql`, with history and completion. Ctrl-C cancels a query and keeps the session."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from headrace.cli.main import print_headrace_error
from headrace.cli.sql_sources import plan
from headrace.cli.sql_statements import is_complete, split
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.cli.sql_output import Printer
    from headrace.session.context import SessionContext

_QUIT = ("\\q", "exit", "quit")
_HELP = ("\\?", "help")
_TABLES = ("\\d",)
_SEMICOLON = "A statement ends with a semicolon; Ctrl-C clears it, help explains more."
_EXPLANATION = """\
A statement may take several lines and ends with a semicolon.
  SELECT * FROM name;             a table of --table, or one that CREATE TABLE or CREATE VIEW made here
  SELECT * FROM 'file.parquet';   a file or folder: .lance, .parquet, .csv, .json
  \\d                              list the tables and their columns
  help                            print this
  quit, exit, \\q or Ctrl-D        leave
Ctrl-C stops a query, or clears what was typed. Tab completes names; the arrow keys go through earlier statements.
"""
_WORD = re.compile(r"[\w.]+")
_COLUMNS = (
    "select table_name, column_name, data_type from information_schema.columns where table_schema = 'public' order by 1"
)
_KEYWORDS = """
all and as asc avg between by case cast count create cross date_trunc desc describe distinct drop else end except exists
explain extract from full group having in inner intersect interval is join left like limit max min not null offset on or
order outer over partition right row_number select sum table then union using values view when where with
"""


def run_prompt(session: SessionContext, show: Printer, storage: dict[str, str]) -> None:
    """Read statements and print their results, until the user quits."""
    click.echo("End statements with a semicolon. help explains the prompt, quit or Ctrl-D leaves it.")
    prompt: PromptSession[str] = PromptSession(
        "headrace> ",
        history=FileHistory(str(_history_file())),
        completer=_Words(session),
        complete_while_typing=False,
        multiline=True,
        key_bindings=_keys(),
        prompt_continuation="     ...> ",
        editing_mode=EditingMode.VI if "vi" in os.environ.get("EDITOR", "") else EditingMode.EMACS,
    )
    while True:
        try:
            text = prompt.prompt().strip()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        word = _word(text)
        if word in _QUIT:
            return
        if word in _HELP:
            click.echo(_EXPLANATION, nl=False)
            continue
        for statement in [_COLUMNS] if word in _TABLES else split(text):
            if not _answer(session, statement, show, storage):
                break


def _word(text: str) -> str:
    """Return what may be a word of the prompt itself; these need no semicolon."""
    return text.strip().rstrip(";").rstrip().lower()


def _answer(session: SessionContext, statement: str, show: Printer, storage: dict[str, str]) -> bool:
    try:
        with plan(session, statement, storage).execute_stream() as reader:
            show(reader)
    except HeadraceError as error:
        print_headrace_error(error)
        return False
    except KeyboardInterrupt:
        click.echo("Cancelled.", err=True)
        return False
    return True


def _keys() -> KeyBindings:
    """Return the binding of Enter: it accepts a whole statement, and continues another one on a new line."""
    keys = KeyBindings()
    has_explained = False

    @Condition
    def is_whole() -> bool:
        from prompt_toolkit.application import get_app

        text = get_app().current_buffer.text.strip()
        return text.startswith("\\") or _word(text) in (*_QUIT, *_HELP) or is_complete(text)

    @keys.add("enter", filter=is_whole)
    def _accept(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("enter", filter=~is_whole)
    def _continue(event: KeyPressEvent) -> None:
        nonlocal has_explained
        event.current_buffer.insert_text("\n")
        if not has_explained:
            has_explained = True
            run_in_terminal(lambda: click.echo(_SEMICOLON))

    return keys


class _Words(Completer):
    """Completes keywords, tables and columns."""

    def __init__(self, session: SessionContext) -> None:
        self._session = session

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        word = document.get_word_before_cursor(pattern=_WORD)
        if word:
            for name in sorted({*_KEYWORDS.split(), *self._names()}):
                if name.lower().startswith(word.lower()):
                    yield Completion(name, start_position=-len(word))

    def _names(self) -> set[str]:
        columns = self._session.sql(_COLUMNS).collect().read_all()
        return {*columns["table_name"].to_pylist(), *columns["column_name"].to_pylist()}


def _history_file() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    folder = Path(state).expanduser() / "headrace"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "sql_history"
    file.touch(mode=0o600)
    return file
