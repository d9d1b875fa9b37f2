"""What a bench declares: cases with their contenders, metrics and aims."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """A quantity that is measured of each contender. Less is better."""

    name: str
    unit: str


TIME = Metric("time", "ms")


@dataclass(frozen=True, slots=True)
class Samples:
    """What a contender measured itself: the samples of each metric, in its unit. An empty list: nothing came."""

    of: Mapping[str, Sequence[float]]


Contender = Callable[[], object]
"""Measures itself if it returns `Samples`. Otherwise the harness times the call, in milliseconds, and all contenders
of a case that return an answer must return the same one."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a contender processes in the time of one sample. The report prints it per second."""

    amount: float
    unit: str


@dataclass(frozen=True, slots=True)
class Aim:
    """A contender's median, divided by that of `to`, is to be at most this. Without `to`, the median itself is."""

    of: str
    at_most: float
    to: str | None = None
    metric: str = TIME.name


@dataclass(frozen=True, slots=True)
class Case:
    """Contenders that run in turns, so that noise affects all of them alike.

    Args:
        name: What distinguishes the case from the bench's other ones.
        contenders: By name, in the order in which they run.
        ours: The names of the contenders that use headrace.
        base: The contender to which ratios are made; None for no ratios.
        rounds: How often each contender runs, after the warm-up.
        warm_up: Run each contender once before the rounds.
        metrics: What is measured. Each has a plot, with the ratios to the base for the first one.
        aims: What the medians are to be.
        work: What one sample of the first metric, in milliseconds, processes.
        seldom: The names of slow contenders, which run in every fifth round only, and without a warm-up.
        note: What the report says below the figures: a sentence or more in Markdown, such as why an aim is missed.
    """

    name: str
    contenders: Mapping[str, Contender]
    ours: Collection[str]
    base: str | None = None
    rounds: int = 7
    warm_up: bool = True
    metrics: tuple[Metric, ...] = (TIME,)
    aims: tuple[Aim, ...] = ()
    work: Work | None = None
    seldom: Collection[str] = ()
    note: str = ""
