"""Rows as a text table for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from headrace._counts import counted

_WIDEST = 40


class Box:
    """A text table with a border, drawn line by line.

    Args:
        schema: The columns.
        sample: Batches that determine the widths of the columns; wider values are truncated.
    """

    def __init__(self, schema: pa.Schema, sample: Sequence[pa.RecordBatch]) -> None:
        self._header = list(schema.names)
        self._right = [
            pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
            for kind in schema.types
        ]
        self._widths = [len(name) for name in self._header]
        for batch in sample:
            for number, cells in enumerate(_cells(batch)):
                self._widths[number] = max(self._widths[number], *map(len, cells), 0)

    def head(self) -> str:
        """Return the lines above the rows."""
        names = self._line(self._header, is_number=False)
        return f"{self._rule('┌', '┬', '┐')}\n{names}\n{self._rule('├', '┼', '┤')}"

    def lines(self, batch: pa.RecordBatch) -> Iterator[str]:
        """Yield one line per row of a batch."""
        for row in zip(*_cells(batch), strict=True):
            yield self._line(row, is_number=True)

    def foot(self) -> str:
        """Return the line below the rows."""
        return self._rule("└", "┴", "┘")

    def _line(self, cells: Sequence[str], *, is_number: bool) -> str:
        padded = (
            _cut(cell, width).rjust(width) if is_number and is_right else _cut(cell, width).ljust(width)
            for cell, width, is_right in zip(cells, self._widths, self._right, strict=True)
        )
        return "│ " + " │ ".join(padded) + " │"

    def _rule(self, left: str, middle: str, end: str) -> str:
        return left + middle.join("─" * (width + 2) for width in self._widths) + end


def render_table(table: pa.Table, more: bool) -> str:
    """Return ``table`` as text; ``more`` says whether further rows were left out."""
    batches = table.to_batches()
    box = Box(table.schema, batches)
    rows = [line for batch in batches for line in box.lines(batch)]
    count = counted(table.num_rows, "row")
    footer = f"first {count}; there are more" if more else count
    return "\n".join([box.head(), *rows, box.foot(), footer])


def _cells(batch: pa.RecordBatch) -> list[list[str]]:
    return [[_text(value) for value in column.to_pylist()] for column in batch.columns]


def _text(value: object) -> str:
    text = "NULL" if value is None else str(value).replace("\n", "\\n").replace("\t", "\\t")
    return _cut(text, _WIDEST)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"
