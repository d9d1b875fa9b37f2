"""The progress of a pipeline: a live table on a terminal, lines elsewhere, or JSON."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from headrace._counts import counted
from headrace.cli.amounts import lag_text
from headrace.cli.output import print_json
from headrace.pipeline.listener import Listener

if TYPE_CHECKING:
    from rich.console import RenderableType

    from headrace.pipeline.config import Pipeline
    from headrace.pipeline.failures import Failure
    from headrace.pipeline.progress import Progress, Totals

_NULL_ROWS_HINT = (
    'Spark reads a malformed line as such a row. The section "Rows that Spark changes silently" of docs/command.md '
    "says how to stop at it, keep it or drop it."
)
_LAST_EPOCHS = 8
_BAR = 24
_COLORS = {"reading ahead": "blue", "planning": "cyan", "writing": "green", "committing": "yellow", "noting": "magenta"}


class Display(Listener):
    """Shows the progress of a pipeline."""

    def page(self, url: str) -> None:
        """Show the address of the status page."""

    def begin(self, pipeline: Pipeline) -> None:
        """Show that Spark has started."""

    def end(self, totals: Totals) -> None:
        """Show the summary of the run."""


@contextmanager
def display(*, is_json: bool) -> Iterator[Display]:
    """Yield the display for standard output: JSON if asked for, a live table on a terminal, else lines."""
    if is_json:
        yield _Json()
    elif sys.stdout.isatty():
        with _Live() as live:
            yield live
    else:
        yield _Lines()


class _Json(Display):
    def page(self, url: str) -> None:
        print_json({"event": "ui", "url": url})

    def begin(self, pipeline: Pipeline) -> None:
        print_json({"event": "begin", "pipeline": pipeline.name, "table": pipeline.table.label})

    def epoch(self, progress: Progress, totals: Totals) -> None:
        first = next(iter(progress.lag.items()), None)
        lag = {"lag": first[1], "lag_unit": first[0]} if first else {"lag": None}
        more = {**lag, "lags": progress.lag, "skipped_so_far": totals.skipped}
        print_json({"event": "epoch", "time": _now(), **asdict(progress), **more})

    def failed(self, failure: Failure, pause: float | None) -> None:
        print_json(
            {
                "event": "failed",
                "time": _now(),
                "kind": failure.kind,
                "message": str(failure.error),
                "restart_in": None if pause is None else round(pause, 3),
            }
        )

    def restarted(self, failure: Failure) -> None:
        print_json({"event": "restarted", "time": _now(), "kind": failure.kind})

    def stopping(self) -> None:
        print_json({"event": "stopping"})

    def end(self, totals: Totals) -> None:
        print_json({"event": "end", **asdict(totals)})


class _Lines(Display):
    def page(self, url: str) -> None:
        click.echo(f"Status page: {url}", err=True)

    def begin(self, pipeline: Pipeline) -> None:
        click.echo(f"{pipeline.name}: {pipeline.source.format} to {pipeline.table.label}")

    def epoch(self, progress: Progress, totals: Totals) -> None:
        click.echo(f"{_now()} {_line(progress)}")

    def failed(self, failure: Failure, pause: float | None) -> None:
        if pause is not None:
            click.echo(f"{_now()} {_down(failure, pause)}", err=True)

    def restarted(self, failure: Failure) -> None:
        click.echo(f"{_now()} Started the query again.", err=True)

    def stopping(self) -> None:
        click.echo("Stopping after this epoch. Press Ctrl-C again to stop immediately.")

    def end(self, totals: Totals) -> None:
        click.echo(_ending(totals))


class _Live(Display):
    """A table of the last epochs, redrawn after each one."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(file=sys.stdout)
        self._live = Live(console=self._console, refresh_per_second=8, transient=True)
        self._epochs: deque[Progress] = deque(maxlen=_LAST_EPOCHS)
        self._title = ""
        self._note = "starting Spark"
        self._page = ""
        self._is_stopping = False

    def __enter__(self) -> _Live:
        self._live.__enter__()
        self._draw(None)
        return self

    def __exit__(self, *raised: Any) -> None:
        self._live.__exit__(*raised)

    def page(self, url: str) -> None:
        self._page = f"Status page: {url}"
        self._draw(None)

    def begin(self, pipeline: Pipeline) -> None:
        self._title = f"{pipeline.name}: {pipeline.source.format} to {pipeline.table.label}"
        self._note = "waiting for rows"
        self._draw(None)

    def epoch(self, progress: Progress, totals: Totals) -> None:
        self._epochs.append(progress)
        if not self._is_stopping:
            self._note = "Ctrl-C stops after the current epoch"
        self._draw(totals)

    def failed(self, failure: Failure, pause: float | None) -> None:
        self._note = "" if pause is None else _down(failure, pause)
        self._draw(None)

    def restarted(self, failure: Failure) -> None:
        self._note = "started the query again; Ctrl-C stops after the current epoch"
        self._draw(None)

    def stopping(self) -> None:
        self._is_stopping = True
        self._note = "stopping after this epoch; press Ctrl-C again to stop immediately"
        self._draw(None)

    def end(self, totals: Totals) -> None:
        self._live.stop()
        click.echo(self._title)
        for progress in self._epochs:
            click.echo(_line(progress))
        click.echo(_ending(totals))

    def _draw(self, totals: Totals | None) -> None:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in ("epoch", "rows in", "landed", "rows/s", "seconds", "version", "lag"):
            table.add_column(name, justify="right")
        table.add_column("time by phase")
        for each in self._epochs:
            table.add_row(
                str(each.epoch),
                f"{each.rows_in:,}",
                "skipped" if each.was_skipped else f"{each.rows_landed:,}{_nulls(each.null_rows, ' ({} null)')}",
                f"{each.rows_per_second:,.0f}",
                f"{each.seconds:.2f}",
                "" if each.version is None else str(each.version),
                lag_text(each.lag),
                _bar(each),
            )
        parts: list[RenderableType] = [Text(self._title, style="bold")] if self._title else []
        if self._page:
            parts.append(Text(self._page, style="dim"))
        if self._epochs:
            legend = Text()
            for name, color in _COLORS.items():
                legend.append("■ ", style=color).append(f"{name}  ", style="dim")
            parts += [table, legend]
        if totals is not None:
            parts.append(Text(summary(totals)))
        parts.append(Text(self._note, style="dim"))
        self._live.update(Group(*parts), refresh=True)


def _bar(progress: Progress) -> Any:
    from rich.text import Text

    whole = max(sum(progress.phases.values()), progress.seconds, 1e-9)
    bar = Text()
    for name, color in _COLORS.items():
        bar.append("█" * round(_BAR * progress.phases.get(name, 0) / whole), style=color)
    return bar


def _now() -> str:
    return datetime.now().astimezone().isoformat(" ", "seconds")


def _down(failure: Failure, pause: float) -> str:
    return f"The query failed ({failure.kind}) and starts again in {pause:.0f} s: {failure.error}"


def _nulls(count: int, text: str) -> str:
    """Return the text with the number of null rows; nothing if there is none."""
    return text.format(f"{count:,}") if count else ""


def _line(progress: Progress) -> str:
    if progress.was_skipped:
        outcome = "skipped, had landed before"
    elif progress.version is None:
        outcome = "no rows"
    else:
        nulls = _nulls(progress.null_rows, ", {} of them null in every column,")
        outcome = f"{counted(progress.rows_landed, 'row')} landed as version {progress.version}{nulls}"
    lag = f", {lag_text(progress.lag)} behind" if any(progress.lag.values()) else ""
    return (
        f"epoch {progress.epoch}: {outcome} in {progress.seconds:.2f} s "
        f"({progress.rows_in:,} in, {progress.rows_per_second:,.0f}/s){lag}"
    )


def summary(totals: Totals) -> str:
    """Return the summary of a run, as one sentence."""
    if not (totals.epochs or totals.skipped or totals.empty):
        return "Nothing new."
    nulls = _nulls(totals.null_rows, ", {} of them null in every column")
    landed = f"Landed {counted(totals.rows, 'row')} in {counted(totals.epochs, 'epoch')}{nulls}"
    more = [f"skipped {totals.skipped:,} that had landed before"] if totals.skipped else []
    more += [f"{totals.empty:,} had no rows"] if totals.empty else []
    version = [f"the table is at version {totals.version}"] if totals.version is not None else []
    return "; ".join([landed, *more, *version]) + "."


def _ending(totals: Totals) -> str:
    """Return the summary, with a hint if rows look like malformed lines of the source."""
    return f"{summary(totals)}\nHint: {_NULL_ROWS_HINT}" if totals.null_rows else summary(totals)
