"""One metric of a bench as horizontal bars, in SVG that follows the reader's light or dark theme.

Written by hand: a plotting library would bake one theme into the file, and its output changes with its version, so that
the check that the plots match the results would fail after upgrades.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from harness.results import CaseResult, Figure, Line
from harness.tables import number

_WIDTH, _FIGURES, _MARGIN = 760, 130, 16
_ROW, _BAR, _HEADER, _GAP = 20, 12, 24, 10
_LETTER, _LEAST_LABELS, _MOST_LABELS = 7.6, 120, 300
# Contenders can be many times slower than ours. The scale of ratios ends at this many times our best of each case, and
# longer bars are cut.
_CUT = 1.5

_STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .title { font-size: 14px }
  .title, .case, .ours { font-weight: 600 }
  .muted { fill: #59636e }
  .page { fill: #ffffff }
  .bar { fill: #b6bec7 }
  .bar.ours { fill: #1f6feb }
  .spread { stroke: #1f2328; stroke-width: 1.5 }
  .one { stroke: #59636e; stroke-dasharray: 4 3 }
  .cut { stroke: #ffffff; stroke-width: 3 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .muted { fill: #9198a1 }
    .page { fill: #0d1117 }
    .bar { fill: #4a525c }
    .bar.ours { fill: #4493f8 }
    .spread { stroke: #e6edf3 }
    .one { stroke: #9198a1 }
    .cut { stroke: #0d1117 }
  }
"""


@dataclass(frozen=True, slots=True)
class _Scale:
    """Where bars start, how long the longest is, and which value it has; values are ratios or in the unit."""

    left: float
    length: float
    end: float
    are_ratios: bool

    def of(self, value: float) -> float:
        return self.length * min(value / self.end, 1)


def plot(title: str, metric: str, cases: list[CaseResult]) -> str:
    """Draw a metric of some cases. A case's first metric is drawn as ratios to its base, the others in their units."""
    bases = [case.base if metric == next(iter(case.units)) else None for case in cases]
    letters = max(len(line.contender) for case in cases for line in case.lines)
    left = _MARGIN + min(max(_LETTER * letters + 8, _LEAST_LABELS), _MOST_LABELS)
    length = _WIDTH - left - _FIGURES - _MARGIN
    ratios = _Scale(left, length, _end_of_ratios([case for case, base in zip(cases, bases, strict=True) if base]), True)
    legend = "shorter is better; lines: quartiles" + ("; dashed: 1.0, the base" if any(bases) else "")
    top = _MARGIN + _ROW + _GAP
    body = [_text(_MARGIN, _MARGIN + 12, title, "title"), _text(_WIDTH - _MARGIN, _MARGIN + 12, legend, "muted", "end")]
    for case, base in zip(cases, bases, strict=True):
        body.append(_text(_MARGIN, top + 14, case.name, "case"))
        top += _HEADER
        if base:
            scale, x, bottom = ratios, left + ratios.of(1), top + _ROW * len(case.lines)
            body.append(_text(_WIDTH - _MARGIN, top - _HEADER + 14, f"1.0 is {base}", "muted", "end"))
            body.append(f'<line class="one" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}"/>')
        else:
            scale = _Scale(left, length, max(line.figures[metric].median or 0.0 for line in case.lines) or 1.0, False)
        for line in case.lines:
            body += _bar(line, line.figures[metric], case.units[metric], scale, top + _ROW / 2)
            top += _ROW
        top += _GAP
    size = f'viewBox="0 0 {_WIDTH} {top + _GAP}" width="{_WIDTH}" height="{top + _GAP}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n"
        f'<rect class="page" width="{_WIDTH}" height="{top + _GAP}" rx="6"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _bar(line: Line, figure: Figure, unit: str, scale: _Scale, y: float) -> Iterator[str]:
    ours = "ours" if line.ours else ""
    yield _text(scale.left - 8, y + 4, line.contender, ours, "end")
    value = figure.ratio if scale.are_ratios else figure.median
    if value is None or figure.median is None:
        yield _text(scale.left + 4, y + 4, "nothing arrived", "muted")
        return
    size = f'width="{scale.of(value):.1f}" height="{_BAR}"'
    yield f'<rect class="bar {ours}" x="{scale.left}" y="{y - _BAR / 2}" {size} rx="2"/>'
    if value > scale.end:
        x = scale.left + scale.length - 24
        yield f'<line class="cut" x1="{x}" y1="{y + 8}" x2="{x + 6}" y2="{y - 8}"/>'
    elif figure.samples > 1 and figure.median and figure.lower is not None and figure.upper is not None:
        first, last = (scale.left + scale.of(value * at / figure.median) for at in (figure.lower, figure.upper))
        yield f'<line class="spread" x1="{first:.1f}" y1="{y}" x2="{last:.1f}" y2="{y}"/>'
    measured = f"{number(figure.median)} {unit}".strip()
    label = f"{number(value)} ({measured})" if scale.are_ratios else measured
    yield _text(scale.left + scale.length + 10, y + 4, label, ours)


def _end_of_ratios(cases: list[CaseResult]) -> float:
    """The value at the right end of the scale of ratios."""
    ratios = [[(line.figures[next(iter(case.units))].ratio or 0.0, line.ours) for line in case.lines] for case in cases]
    longest = max((ratio for case in ratios for ratio, _ in case), default=1.0)
    of_ours = max((min((ratio for ratio, ours in case if ours), default=0.0) for case in ratios), default=0.0)
    return max(min(longest, max(_CUT * of_ours, 3.0)), 1.0)


def _text(x: float, y: float, text: str, style: str = "", anchor: str = "start") -> str:
    return f'<text class="{style}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'
