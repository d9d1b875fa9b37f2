"""The progress of a pipeline: a live table on a terminal, lines elsewhere, or JSON."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

import click

from headrace.cli.output import print_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from headrace.pipeline.config import Pipeline
    from headrace.pipeline.progress import Progress, Totals

_LAST_EPOCHS = 8
_BAR = 24
_COLORS = {"reading ahead": "blue", "planning": "cyan", "writing": "green", "committing": "yellow", "noting": "magenta"}


class Display(Protocol):
    """Shows the progress of a pipeline."""

    def page(self, url: str) -> None:
        """Show the address of the status page."""

    def begin(self, pipeline: Pipeline) -> None:
        """Show that Spark has started."""

    def epoch(self, progress: Progress, totals: Totals) -> None:
        """Show an epoch that is done."""

    def stopping(self) -> None:
        """Show that a stop was requested."""

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


class _Json:
    def page(self, url: str) -> None:
        print_json({"event": "ui", "url": url})

    def begin(self, pipeline: Pipeline) -> None:
        print_json({"event": "begin", "pipeline": pipeline.name, "table": pipeline.table.label})

    def epoch(self, progress: Progress, totals: Totals) -> None:
        lag = {"lag": progress.lag[0], "lag_unit": progress.lag[1]} if progress.lag else {"lag": None}
        print_json({"event": "epoch", **asdict(progress), **lag, "skipped_so_far": totals.skipped})

    def stopping(self) -> None:
        print_json({"event": "stopping"})

    def end(self, totals: Totals) -> None:
        print_json({"event": "end", **asdict(totals)})


class _Lines:
    def page(self, url: str) -> None:
        click.echo(f"Status page: {url}", err=True)

    def begin(self, pipeline: Pipeline) -> None:
        click.echo(f"{pipeline.name}: {pipeline.source.format} to {pipeline.table.label}")

    def epoch(self, progress: Progress, totals: Totals) -> None:
        click.echo(_line(progress))

    def stopping(self) -> None:
        click.echo("Stopping after this epoch. Press Ctrl-C again to stop immediately.")

    def end(self, totals: Totals) -> None:
        click.echo(summary(totals))


class _Live:
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

    def stopping(self) -> None:
        self._is_stopping = True
        self._note = "stopping after this epoch; press Ctrl-C again to stop immediately"
        self._draw(None)

    def end(self, totals: Totals) -> None:
        self._live.stop()
        click.echo(self._title)
        for progress in self._epochs:
            click.echo(_line(progress))
        click.echo(summary(totals))

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
                "skipped" if each.was_skipped else f"{each.rows_landed:,}",
                f"{each.rows_per_second:,.0f}",
                f"{each.seconds:.2f}",
                "" if each.version is None else str(each.version),
                f"{each.lag[0]:,} {each.lag[1]}" if each.lag else "",
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


def _line(progress: Progress) -> str:
    if progress.was_skipped:
        outcome = "skipped, had landed before"
    elif progress.version is None:
        outcome = "no rows"
    else:
        outcome = f"{progress.rows_landed:,} rows landed as version {progress.version}"
    lag = f", {progress.lag[0]:,} {progress.lag[1]} behind" if progress.lag and progress.lag[0] else ""
    return (
        f"epoch {progress.epoch}: {outcome} in {progress.seconds:.2f} s "
        f"({progress.rows_in:,} in, {progress.rows_per_second:,.0f}/s){lag}"
    )


def summary(totals: Totals) -> str:
    """Return the summary of a run, as one sentence."""
    if not (totals.epochs or totals.skipped or totals.empty):
        return "Nothing new."
    landed = f"Landed {totals.rows:,} rows in {totals.epochs:,} epochs"
    more = [f"skipped {totals.skipped:,} that had landed before"] if totals.skipped else []
    more += [f"{totals.empty:,} had no rows"] if totals.empty else []
    version = [f"the table is at version {totals.version}"] if totals.version is not None else []
    return "; ".join([landed, *more, *version]) + "."
