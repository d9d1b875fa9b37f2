"""The report: made from saved results only, and the one in the repository is made from those in the repository."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from harness.readme import BEGIN, END, Headline
from harness.report import MANY, PAGE, PLOTS, README, ROOT, files, stale
from harness.results import CaseResult, Figure, Judgement, Line, Machine, Result, save

MACHINE = Machine("A CPU", 2, 16, "Linux", 0.5)
HEADLINE = Headline("a sum", "some", "few rows", "time", "ours", {"base": "the base", "slow": "a slow way"})
RESULT = Result(
    "some",
    "Sums of rows.\n\nThe base has less to do.",
    "2026-11-19",
    90.0,
    False,
    MACHINE,
    {"python": "3.11.7"},
    [
        CaseResult(
            "few rows",
            "base",
            {"time": "ms", "peak memory": "MB"},
            "rows/s",
            [
                Line("ours", True, {"time": Figure(5, 3.0, 2.0, 4.5, 1.5), "peak memory": Figure(1, 7, 7, 7, 0.7)}, 10),
                Line("base", False, {"time": Figure(5, 2.0, 2.0, 2.0, 1.0), "peak memory": Figure(1, 10, 10, 10, 1)}),
                Line("<slow> & co", False, {"time": Figure(1, 99.0, 99.0, 99.0, 49.5), "peak memory": Figure(0)}),
                Line("slow", False, {"time": Figure(0), "peak memory": Figure(0)}),
            ],
            [Judgement("ours", "base", "time", 1.2, 1.5, False), Judgement("ours", None, "peak memory", 8, 7, True)],
            "Adding takes all of the time.",
        )
    ],
)


def reported(folder: Path, *results: Result, headline: Headline = HEADLINE) -> dict[str, str]:
    """The files of a report, by path in its repository."""
    for result in results:
        save(result, folder / "bench" / "results")
    (folder / README).write_text(f"Before.\n{BEGIN}\nstale\n{END}\nAfter.\n")
    return {path.relative_to(folder).as_posix(): text for path, text in files(folder, [headline]).items()}


def test_the_report_in_the_repository_is_made_from_the_results_in_it() -> None:
    written = files()
    differing = [str(path.relative_to(ROOT)) for path, text in written.items() if _read(path) != text]
    assert differing == [], "run `make bench-report`"
    assert stale(written) == set(), "run `make bench-report`"


def test_the_page_shows_figures_aims_and_the_note_of_a_missed_one(tmp_path: Path) -> None:
    page = reported(tmp_path, RESULT)[PAGE.as_posix()]
    assert "in about 2 minutes" in page
    assert "Machine: A CPU, 2 cores, 16 GB, Linux.\nVersions: python 3.11.7." in page
    assert "1 of 2 are met." in page
    assert "| [some](#some) | few rows | ours : base | 1.2 | 1.50 | **missed** |" in page
    assert "| [some](#some) | few rows | peak memory of ours | 8 MB | 7.00 MB | met |" in page
    assert "## some\n\nSums of rows.\n\nThe base has less to do." in page
    assert "| **ours** | 3.00 | 2.00 to 4.50 | 7.00 | 10.0 | 1.50 |" in page
    assert "- few rows: Adding takes all of the time." in page


def test_the_page_names_the_machine_of_a_result_from_another_one(tmp_path: Path) -> None:
    other = msgspec.structs.replace(RESULT, bench="tpch", machine=msgspec.structs.replace(MACHINE, cpu="Another CPU"))
    page = reported(tmp_path, RESULT, other)[PAGE.as_posix()]
    order = ["Machine: Another CPU", "## tpch", "## some", "Machine: A CPU"]
    assert [page.index(text) for text in order] == sorted(page.index(text) for text in order)


def test_the_page_says_whether_the_machine_was_busy(tmp_path: Path) -> None:
    assert "busy" not in reported(tmp_path, RESULT)[PAGE.as_posix()]
    busy = msgspec.structs.replace(RESULT, machine=msgspec.structs.replace(MACHINE, load=3.25))
    assert "The machine was busy: the load before was 3.25." in reported(tmp_path, busy)[PAGE.as_posix()]


def test_of_many_cases_those_with_aims_are_plotted(tmp_path: Path) -> None:
    case = RESULT.cases[0]
    others = [msgspec.structs.replace(case, name=f"case {number}", aims=[]) for number in range(MANY)]
    few, many = (
        ElementTree.fromstring(reported(tmp_path, result)[f"{PLOTS}/some-time.svg"])
        for result in (
            msgspec.structs.replace(RESULT, cases=[case, *others[1:]]),
            msgspec.structs.replace(RESULT, cases=[case, *others]),
        )
    )
    assert {"few rows", "case 1"} <= set(_texts(few))
    assert "few rows" in _texts(many)
    assert "case 1" not in _texts(many)


def test_a_plot_is_well_formed_and_has_a_bar_for_everything_measured(tmp_path: Path) -> None:
    written = reported(tmp_path, RESULT)
    assert {Path(name).name for name in written if name.endswith(".svg")} == {"some-time.svg", "some-peak-memory.svg"}
    times, peaks = (ElementTree.fromstring(written[f"{PLOTS}/some-{name}.svg"]) for name in ("time", "peak-memory"))
    lengths = _bars(times)
    assert lengths["ours"] == pytest.approx(1.5 * lengths["base"], rel=0.01)
    assert lengths["<slow> & co"] == pytest.approx(3 * lengths["base"], rel=0.01)  # cut, and marked as such
    assert "slow" not in lengths
    assert "nothing arrived" in _texts(times)
    assert len(times.findall("{*}line[@class='cut']")) == 1
    assert [float(line.get("x1", 0)) for line in times.findall("{*}line[@class='one']")] == [
        pytest.approx(_start(times) + lengths["base"], abs=0.2)
    ]
    lengths = _bars(peaks)
    assert lengths["ours"] == pytest.approx(0.7 * lengths["base"], rel=0.01)
    assert "7.00 MB" in _texts(peaks)


def test_whiskers_reach_from_the_lower_to_the_upper_quartile(tmp_path: Path) -> None:
    times = ElementTree.fromstring(reported(tmp_path, RESULT)[f"{PLOTS}/some-time.svg"])
    unit = _bars(times)["base"]  # a ratio of 1.0
    spread = times.find("{*}line[@class='spread']")
    assert spread is not None
    ends = [float(spread.get(x, 0)) - _start(times) for x in ("x1", "x2")]
    assert ends == pytest.approx([1.0 * unit, 2.25 * unit], rel=0.01)


def test_the_readme_keeps_all_but_its_figures(tmp_path: Path) -> None:
    readme = reported(tmp_path, RESULT)[README.as_posix()]
    assert readme.startswith(f"Before.\n{BEGIN}\n")
    assert readme.endswith(f"{END}\nAfter.\n")
    assert "| a sum | 3.00 ms | the base: 2.00 ms; a slow way: nothing arrived |" in readme
    assert "Measured on 2026-11-19: A CPU, 2 cores." in readme
    assert "stale" not in readme


@pytest.mark.parametrize(
    "headline",
    [
        replace(HEADLINE, bench="other"),
        replace(HEADLINE, case="many rows"),
        replace(HEADLINE, metric="latency"),
        replace(HEADLINE, of="theirs"),
        replace(HEADLINE, others={"another": "another way"}),
    ],
    ids=["bench", "case", "metric", "contender", "other contender"],
)
def test_a_headline_without_figures_is_refused(headline: Headline, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="has no figures for"):
        reported(tmp_path, RESULT, headline=headline)


def test_results_that_measure_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="quick runs, which measure nothing: some"):
        reported(tmp_path, msgspec.structs.replace(RESULT, quick=True))


def test_a_report_without_results_or_marks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="run make bench first"):
        reported(tmp_path)
    reported(tmp_path, RESULT)
    (tmp_path / README).write_text("No marks.\n")
    with pytest.raises(SystemExit, match="The README has no"):
        files(tmp_path, [HEADLINE])


def test_a_plot_that_no_result_has_is_stale(tmp_path: Path) -> None:
    written = reported(tmp_path, RESULT)
    for name in (*written, f"{PLOTS}/removed-time.svg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert stale([tmp_path / name for name in written], tmp_path) == {tmp_path / PLOTS / "removed-time.svg"}


def _read(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


def _texts(plot: ElementTree.Element) -> list[str | None]:
    return [text.text for text in plot.findall("{*}text")]


def _start(plot: ElementTree.Element) -> float:
    return min(float(bar.get("x", 0)) for bar in plot.findall("{*}rect") if "bar" in bar.get("class", ""))


def _bars(plot: ElementTree.Element) -> dict[str, float]:
    """The length of each contender's bar: its label is the text before it."""
    lengths, label = {}, ""
    for element in plot:
        if element.tag.endswith("text"):
            label = element.text or ""
        elif "bar" in element.get("class", ""):
            lengths[label] = float(element.get("width", 0))
    return lengths
