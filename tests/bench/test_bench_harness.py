"""What the harness makes of samples: medians, quartiles, ratios and verdicts on aims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from harness import Aim, Case, Metric, Samples, Work
from harness.machine import machine, versions
from harness.results import Figure, Result, load, save
from harness.run import measure
from harness.tables import rows, verdict

PEAK = Metric("peak", "MB")


def replay(*milliseconds: float) -> Callable[[], Samples]:
    """A contender that takes the times in turn."""
    times = iter(milliseconds)
    return lambda: Samples({"time": [next(times)]})


def measured(*aims: Aim, ours: Sequence[float] = (2.0,), base: Sequence[float] = (4.0,)) -> list[tuple[object, bool]]:
    contenders = {"ours": replay(*ours), "base": replay(*base)}
    case = Case("a case", contenders, ours=["ours"], base="base", rounds=len(ours), warm_up=False, aims=aims)
    return [(aim.value, aim.met) for aim in measure(case).aims]


def test_samples_become_medians_quartiles_and_ratios_of_medians() -> None:
    contenders = {"ours": replay(9, 1, 2, 3, 4, 5), "base": replay(9, 6, 6, 6, 6, 6)}
    result = measure(Case("a case", contenders, ours=["ours"], base="base", rounds=5))
    assert [line.figures["time"] for line in result.lines] == [
        Figure(5, median=3.0, lower=2.0, upper=4.0, ratio=0.5),
        Figure(5, median=6.0, lower=6.0, upper=6.0, ratio=1.0),
    ]
    assert [line.ours for line in result.lines] == [True, False]


def test_contenders_run_in_turns_after_a_warm_up() -> None:
    ran: list[str] = []
    contenders = {name: lambda name=name: ran.append(name) for name in "ab"}
    result = measure(Case("a case", contenders, ours=["a"], rounds=2))
    assert "".join(ran) == "ab" + "abab"
    assert [line.figures["time"].samples for line in result.lines] == [2, 2]


def test_a_slow_contender_runs_in_every_fifth_round_without_a_warm_up() -> None:
    ran: list[str] = []
    contenders = {name: lambda name=name: ran.append(name) for name in "ab"}
    measure(Case("a case", contenders, ours=["a"], rounds=6, seldom=["b"]))
    assert "".join(ran) == "a" + "ab" + "aaaa" + "ab"


def test_a_quick_run_has_one_round_and_no_warm_up() -> None:
    ran: list[str] = []
    measure(Case("a case", {"a": lambda: ran.append("a")}, ours=["a"]), quick=True)
    assert ran == ["a"]


def test_different_answers_are_refused() -> None:
    contenders = {"a": lambda: (3, 6), "b": lambda: (3, 5), "silent": lambda: None}
    with pytest.raises(SystemExit, match=r"a case: the contenders' answers differ: .*\(3, 6\).*\(3, 5\)"):
        measure(Case("a case", contenders, ours=["a"]), quick=True)


def test_equal_answers_are_accepted() -> None:
    result = measure(Case("a case", {"a": lambda: 6, "b": lambda: 6}, ours=["a"]), quick=True)
    assert [line.figures["time"].samples for line in result.lines] == [1, 1]


def test_an_aim_is_met_up_to_its_limit() -> None:
    assert measured(Aim("ours", 0.5, to="base"), Aim("ours", 0.49, to="base")) == [(0.5, True), (0.5, False)]
    assert measured(Aim("ours", 2.0), Aim("ours", 1.9)) == [(2.0, True), (2.0, False)]


def test_an_aim_judges_medians() -> None:
    assert measured(Aim("ours", 0.5, to="base"), ours=(1, 2, 90), base=(3, 4, 5)) == [(0.5, True)]


def test_an_aim_is_missed_if_nothing_arrived() -> None:
    contenders = {"ours": lambda: Samples({}), "base": replay(4.0)}
    aims = (Aim("ours", 9.0), Aim("ours", 9.0, to="base"), Aim("base", 9.0, to="ours"))
    result = measure(Case("a case", contenders, ours=["ours"], base="base", rounds=1, warm_up=False, aims=aims))
    assert [(aim.value, aim.met) for aim in result.aims] == [(None, False)] * 3
    assert rows(result)[1] == ["ours", "-", "-"]


def test_an_aim_can_be_about_another_metric_than_the_first() -> None:
    contenders = {"ours": lambda: Samples({"time": [1.0], "peak": [30.0]})}
    metrics = (Metric("time", "ms"), PEAK)
    case = Case("a case", contenders, ours=["ours"], metrics=metrics, aims=(Aim("ours", 40, metric="peak"),))
    result = measure(case, quick=True)
    assert verdict(result.aims[0], result.units) == "peak of ours 30.0 MB, aim 40 MB: met"


def test_work_is_reported_per_second() -> None:
    contenders = {"ours": replay(250.0), "none": lambda: Samples({})}
    result = measure(Case("a case", contenders, ours=["ours"], work=Work(5, "million rows")), quick=True)
    assert result.rate_unit == "million rows/s"
    assert [line.rate for line in result.lines] == [20.0, None]


def test_a_saved_result_is_read_back(tmp_path: Path) -> None:
    case = measure(Case("a case", {"ours": replay(1.0)}, ours=["ours"], note="Why."), quick=True)
    result = Result("some", "About it.", "2026-11-19", 1.5, True, machine(), versions(), [case])
    assert save(result, tmp_path / "results").name == "some.json"
    assert load(tmp_path / "results", "some") == result
    assert load(tmp_path / "results", "other") is None
