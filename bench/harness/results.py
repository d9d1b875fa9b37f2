"""The results of a bench, as they are saved: one JSON file per bench."""

from __future__ import annotations

from pathlib import Path

import msgspec


class Figure(msgspec.Struct, frozen=True):
    """The samples of one metric of one contender; without any, the rest is None. `ratio` is to the case's base."""

    samples: int
    median: float | None = None
    lower: float | None = None
    upper: float | None = None
    ratio: float | None = None


class Line(msgspec.Struct, frozen=True):
    """A contender's figures by metric, and what it processed per second."""

    contender: str
    ours: bool
    figures: dict[str, Figure]
    rate: float | None = None


class Judgement(msgspec.Struct, frozen=True):
    """An aim and what was measured. `value` is a ratio of medians, or the median itself if `to` is None."""

    of: str
    to: str | None
    metric: str
    at_most: float
    value: float | None
    met: bool


class CaseResult(msgspec.Struct, frozen=True):
    """A case: the units of its metrics, the first being the one whose ratios are plotted, and its contenders."""

    name: str
    base: str | None
    units: dict[str, str]
    rate_unit: str | None
    lines: list[Line]
    aims: list[Judgement]
    note: str


class Machine(msgspec.Struct, frozen=True):
    """Where a bench ran. `load` is the load average of the minute before."""

    cpu: str
    cores: int
    memory_gb: int
    system: str
    load: float


class Result(msgspec.Struct, frozen=True):
    """A run of a bench. `about` is its docstring: what it measures, in Markdown."""

    bench: str
    about: str
    date: str
    seconds: float
    quick: bool
    machine: Machine
    versions: dict[str, str]
    cases: list[CaseResult]


def save(result: Result, folder: Path) -> Path:
    """Write ``<bench>.json``, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result.bench}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")
    return path


def load(folder: Path, bench: str) -> Result | None:
    """Read a bench's result; None if there is none."""
    path = folder / f"{bench}.json"
    return msgspec.json.decode(path.read_bytes(), type=Result) if path.exists() else None
