"""``make bench-report``: docs/benchmarks.md, its plots and the figures in the README, from the saved results only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from harness.plot import plot
from harness.readme import HEADLINES, Headline, insert
from harness.results import CaseResult, Result, load
from harness.tables import limit, markdown, number, rows, subject

ROOT = Path(__file__).parents[2]
PAGE, PLOTS, README = Path("docs/benchmarks.md"), Path("docs/benchmarks"), Path("README.md")
ORDER = ("push", "pull", "live", "stream", "awaited", "tpch", "source", "sink", "start")
MANY = 12

_ABOUT = """\
# Benchmarks

<!-- Written by `make bench-report` from the results in bench/results. -->

`make bench` measures everything on this page, in about {minutes} minutes, and saves the results in `bench/results`.
`make bench-report` writes the page from them. Run a bench alone with `.venv/bin/python bench/{first}.py`.

The contenders of a case run in turns, so that noise affects all of them alike, and must return the same answer. A table
shows the median of the rounds, the quartiles, and the ratio to the median of the case's base. Less is better, except
for what is processed per second. An aim is a limit that was set before the measurement. headrace's contenders are blue
in the plots and bold in the tables.

{where}"""


def files(root: Path = ROOT, headlines: Sequence[Headline] = HEADLINES) -> dict[Path, str]:
    """Return the files that the report consists of, by path.

    Raises:
        SystemExit: There are no results, or one that the README shows is missing.
    """
    results = _results(root / "bench" / "results")
    written = {
        root / PAGE: _page(results),
        root / README: insert((root / README).read_text(), {result.bench: result for result in results}, headlines),
    }
    for result in results:
        for metric, cases in _plotted(result).items():
            written[root / PLOTS / _plot_name(result, metric)] = plot(f"{result.bench}: {metric}", metric, cases)
    return written


def stale(written: Iterable[Path], root: Path = ROOT) -> set[Path]:
    """Return the plots that do not belong to the report, such as those of benches that were removed."""
    return set((root / PLOTS).glob("*.svg")) - set(written)


def main() -> None:
    """Write the report, and remove stale plots."""
    written = files()
    for path in stale(written):
        path.unlink()
    for path, content in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        print(path.relative_to(ROOT))


def _results(folder: Path) -> list[Result]:
    names = sorted(path.stem for path in folder.glob("*.json"))
    names.sort(key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))
    results = [result for name in names if (result := load(folder, name))]
    if not results:
        raise SystemExit(f"{folder} has no results: run make bench first.")
    if quick := [result.bench for result in results if result.quick]:
        raise SystemExit(f"{folder} has results of quick runs, which measure nothing: {', '.join(quick)}")
    return results


def _plotted(result: Result) -> dict[str, list[CaseResult]]:
    """The cases that are plotted, by metric: of a bench with many cases, those with aims."""
    with_aims = [case for case in result.cases if case.aims]
    metrics: dict[str, list[CaseResult]] = {}
    for case in with_aims if with_aims and len(result.cases) > MANY else result.cases:
        for metric in case.units:
            metrics.setdefault(metric, []).append(case)
    return metrics


def _plot_name(result: Result, metric: str) -> str:
    return f"{result.bench}-{re.sub(r'[^a-z0-9]+', '-', metric.lower()).strip('-')}.svg"


def _page(results: list[Result]) -> str:
    first = results[0]
    minutes = max(1, round(sum(result.seconds for result in results) / 60))
    parts = [
        _ABOUT.format(minutes=minutes, first=first.bench, where=_where(first)),
        *_aims(results),
        *(part for result in results for part in _section(result, first)),
    ]
    return "\n\n".join(parts) + "\n"


def _where(result: Result) -> str:
    on, libraries = result.machine, ", ".join(f"{name} {version}" for name, version in result.versions.items())
    return f"Machine: {on.cpu}, {on.cores} cores, {on.memory_gb} GB, {on.system}.\nVersions: {libraries}."


def _aims(results: list[Result]) -> Iterator[str]:
    judged = [(result, case, aim) for result in results for case in result.cases for aim in case.aims]
    if not judged:
        return
    met = sum(aim.met for _, _, aim in judged)
    yield f"## Aims\n\n{met} of {len(judged)} are met."
    table = [["bench", "case", "what", "aim: at most", "measured", ""]]
    for result, case, aim in judged:
        unit = f" {case.units[aim.metric]}" if aim.to is None else ""
        link = f"[{result.bench}](#{result.bench})"
        met_or_not = "met" if aim.met else "**missed**"
        what = subject(aim, case.units)
        table.append([link, case.name, what, f"{limit(aim)}{unit}", f"{number(aim.value)}{unit}", met_or_not])
    yield markdown(table, names=3)


def _section(result: Result, first: Result) -> Iterator[str]:
    yield f"## {result.bench}\n\n{result.about}"
    on = result.machine
    busy = f" The machine was busy: the load before was {on.load:g}." if on.load > on.cores / 2 else ""
    differs = f"\n{_where(result)}" if _where(result) != _where(first) else ""
    yield f"Measured on {result.date} in {result.seconds:.0f} s.{busy}{differs}"
    for metric in _plotted(result):
        yield f"![{result.bench}: {metric}]({PLOTS.name}/{_plot_name(result, metric)})"
    if notes := [f"- {case.name}: {case.note}" for case in result.cases if case.note]:
        yield "\n".join(notes)
    yield "<details>\n<summary>All figures</summary>"
    for case in result.cases:
        header, *lines = rows(case)
        bold = [
            [f"**{cells[0]}**", *cells[1:]] if line.ours else cells
            for cells, line in zip(lines, case.lines, strict=True)
        ]
        yield f"**{case.name}**\n\n{markdown([header, *bold])}"
    yield "</details>"


if __name__ == "__main__":
    main()
