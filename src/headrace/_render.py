"""A table of rows for a terminal."""

from __future__ import annotations

import pyarrow as pa

_WIDEST = 40


def render_table(table: pa.Table, more: bool) -> str:
    """Draw ``table`` with a box around it; ``more`` says that rows were left out."""
    header = list(table.schema.names)
    columns = [[_text(value) for value in column.to_pylist()] for column in table.columns]
    widths = [max(len(name), *(len(cell) for cell in cells), 0) for name, cells in zip(header, columns, strict=True)]
    right = [pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t) for t in table.schema.types]

    def line(cells: list[str], numbers: bool) -> str:
        padded = (
            cell.rjust(width) if numbers and is_right else cell.ljust(width)
            for cell, width, is_right in zip(cells, widths, right, strict=True)
        )
        return "│ " + " │ ".join(padded) + " │"

    def rule(left: str, middle: str, end: str) -> str:
        return left + middle.join("─" * (width + 2) for width in widths) + end

    rows = [line([column[i] for column in columns], True) for i in range(table.num_rows)]
    count = f"{table.num_rows} row{'' if table.num_rows == 1 else 's'}"
    footer = f"first {count}; there are more" if more else count
    return "\n".join(
        [rule("┌", "┬", "┐"), line(header, False), rule("├", "┼", "┤"), *rows, rule("└", "┴", "┘"), footer]
    )


def _text(value: object) -> str:
    text = "NULL" if value is None else str(value).replace("\n", "\\n").replace("\t", "\\t")
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
