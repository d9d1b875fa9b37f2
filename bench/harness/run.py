"""Runs the contenders of a case in turns, and reduces their samples to medians, quartiles and ratios."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence

from harness.case import TIME, Aim, Case, Contender, Samples
from harness.results import CaseResult, Figure, Judgement, Line

SELDOM = 5


def measure(case: Case, *, quick: bool = False) -> CaseResult:
    """Measure a case. A quick run has one round and no warm-up."""
    taken = _in_turns(case, 1 if quick else case.rounds, warm_up=case.warm_up and not quick)
    medians = {name: {m: _median(of.get(m, ())) for m in _names(case)} for name, of in taken.items()}
    at_base = medians[case.base] if case.base else {}
    lines = [
        Line(
            contender=name,
            ours=name in case.ours,
            figures={m: _figure(taken[name].get(m, ()), at_base.get(m)) for m in _names(case)},
            rate=_rate(case, medians[name][case.metrics[0].name]),
        )
        for name in case.contenders
    ]
    return CaseResult(
        name=case.name,
        base=case.base,
        units={metric.name: metric.unit for metric in case.metrics},
        rate_unit=f"{case.work.unit}/s" if case.work else None,
        lines=lines,
        aims=[_judge(aim, medians) for aim in case.aims],
        note=case.note,
    )


def _names(case: Case) -> list[str]:
    return [metric.name for metric in case.metrics]


def _in_turns(case: Case, rounds: int, *, warm_up: bool) -> dict[str, dict[str, list[float]]]:
    taken: dict[str, dict[str, list[float]]] = {name: {} for name in case.contenders}
    answers: dict[str, object] = {}
    for round_ in range(-1 if warm_up else 0, rounds):
        for name, run in case.contenders.items():
            if name in case.seldom and round_ % SELDOM:
                continue
            samples, answer = _once(run)
            if answer is not None:
                answers[name] = answer
            if round_ >= 0:
                for metric, values in samples.of.items():
                    taken[name].setdefault(metric, []).extend(values)
        if len(set(answers.values())) > 1:
            raise SystemExit(f"{case.name}: the contenders' answers differ: {answers}")
    return taken


def _once(run: Contender) -> tuple[Samples, object]:
    started = time.perf_counter()
    returned = run()
    seconds = time.perf_counter() - started
    if isinstance(returned, Samples):
        return returned, None
    return Samples({TIME.name: [seconds * 1000]}), returned


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _figure(values: Sequence[float], base: float | None) -> Figure:
    if not values:
        return Figure(samples=0)
    median = statistics.median(values)
    lower, _, upper = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else (median,) * 3
    return Figure(len(values), _short(median), _short(lower), _short(upper), _short(median / base) if base else None)


def _rate(case: Case, milliseconds: float | None) -> float | None:
    return _short(case.work.amount / milliseconds * 1000) if case.work and milliseconds else None


def _judge(aim: Aim, medians: Mapping[str, Mapping[str, float | None]]) -> Judgement:
    value = medians[aim.of][aim.metric]
    if value is not None and aim.to is not None:
        base = medians[aim.to][aim.metric]
        value = value / base if base else None
    met = value is not None and value <= aim.at_most
    return Judgement(aim.of, aim.to, aim.metric, aim.at_most, None if value is None else _short(value), met)


def _short(value: float) -> float:
    """Five digits: more would be noise in the saved files."""
    return float(f"{value:.5g}")
