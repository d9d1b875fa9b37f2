"""A case as rows of text: for the terminal, with aligned columns, and for Markdown."""

from __future__ import annotations

from harness.results import CaseResult, Figure, Judgement, Line

Rows = list[list[str]]
NOTHING = "-"


def number(value: float | None) -> str:
    """Return three digits, or all before the point."""
    if value is None:
        return NOTHING
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def rows(case: CaseResult) -> Rows:
    """Return a header, and a row per contender: medians with quartiles, the rate, and the ratio to the base."""
    header = ["contender"]
    for name, unit in case.units.items():
        header.append(f"{name}, {unit}" if unit else name)
        if _has_spread(case, name):
            header.append("quartiles")
    header += [case.rate_unit] if case.rate_unit else []
    header += [f": {case.base}"] if case.base else []
    return [header, *(_row(case, line) for line in case.lines)]


def subject(aim: Judgement, units: dict[str, str]) -> str:
    """Name what an aim is about: a metric of a contender, or its ratio to that of another one."""
    what = aim.of if aim.metric == next(iter(units)) else f"{aim.metric} of {aim.of}"
    return f"{what} : {aim.to}" if aim.to else what


def limit(aim: Judgement) -> str:
    """Return the limit of an aim as it was set."""
    return f"{round(aim.at_most, 2):g}"


def verdict(aim: Judgement, units: dict[str, str]) -> str:
    """Say what was measured, what the aim is, and whether it is met."""
    unit = f" {units[aim.metric]}" if aim.to is None else ""
    measured = f"{number(aim.value)}{unit}"
    return f"{subject(aim, units)} {measured}, aim {limit(aim)}{unit}: {'met' if aim.met else 'missed'}"


def text(table: Rows) -> str:
    """Return a text table: names to the left, figures to the right."""
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    ruled = [table[0], ["-" * width for width in widths], *table[1:]]
    lines = (
        "  ".join(cell.rjust(width) if i else cell.ljust(width) for i, (cell, width) in enumerate(cells))
        for cells in (zip(row, widths, strict=True) for row in ruled)
    )
    return "\n".join(line.rstrip() for line in lines)


def markdown(table: Rows, *, names: int = 1) -> str:
    """Return a Markdown table: the first columns, of names, to the left, and the figures to the right."""
    ruled = [table[0], ["---"] * names + ["---:"] * (len(table[0]) - names), *table[1:]]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in ruled)


def _row(case: CaseResult, line: Line) -> list[str]:
    cells = [line.contender]
    for name in case.units:
        figure = line.figures[name]
        cells.append(number(figure.median))
        if _has_spread(case, name):
            cells.append(_quartiles(figure))
    cells += [number(line.rate)] if case.rate_unit else []
    cells += [number(line.figures[next(iter(case.units))].ratio)] if case.base else []
    return cells


def _has_spread(case: CaseResult, metric: str) -> bool:
    return any(line.figures[metric].samples > 1 for line in case.lines)


def _quartiles(figure: Figure) -> str:
    return NOTHING if figure.samples < 2 else f"{number(figure.lower)} to {number(figure.upper)}"
