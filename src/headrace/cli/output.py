"""Output of the commands on a table: JSON lines, or aligned columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click


def print_json(value: Mapping[str, Any]) -> None:
    """Print one object on one line."""
    click.echo(json.dumps(value, default=str))


def print_columns(header: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[str] = ()) -> None:
    """Print rows in aligned columns; None is left blank."""
    cells = [["" if value is None else str(value) for value in row] for row in rows]
    widths = [max(len(line[number]) for line in [list(header), *cells]) for number in range(len(header))]
    for number, line in enumerate([list(header), *cells]):
        padded = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for name, cell, width in zip(header, line, widths, strict=True)
        ]
        click.secho("  ".join(padded).rstrip(), bold=number == 0)
