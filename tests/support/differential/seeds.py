"""One seed: its tables and settings, its queries, and in which ways they are asked."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from headrace import ConsumedError
from support.differential.formats import UnfitError, register_native, written
from support.differential.inherited import ends_the_process, format_reason, is_documented_refusal, refusal_reason
from support.differential.plain import Answer, Plain
from support.differential.queries import THEMES, random_query
from support.differential.selects import Query
from support.differential.tables import Table, quoted, random_tables
from support.differential.verdict import Disagreement, compare
from support.differential.ways import FORMATS, WAYS, Settings, ask, push, register

QUERIES = 10


@dataclass(frozen=True, slots=True)
class Slant:
    """What a seed draws from, where it is not everything."""

    themes: Mapping[str, int] = field(default_factory=lambda: THEMES)
    families: Mapping[str, int] | None = None
    ways: tuple[str, ...] = WAYS
    many_rows: float = 0.02
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    """One query over some tables, in one way, under some settings."""

    tables: tuple[Table, ...]
    query: Query
    way: str
    settings: Settings


@dataclass(frozen=True, slots=True)
class Failure:
    """A case in which the session and plain DataFusion disagree."""

    case: Case
    disagreement: Disagreement


@dataclass(slots=True)
class Outcome:
    """What was counted under a seed, and what disagreed."""

    counts: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    inherited: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)


def tables_and_settings(seed: int, slant: Slant) -> tuple[list[Table], Settings, tuple[str, ...]]:
    """What all queries of a seed share."""
    rng = Random(f"{seed} tables")
    tables = random_tables(rng, dict(slant.families) if slant.families else None, many_rows=slant.many_rows)
    settings = Settings(
        target_partitions=rng.randint(1, 4),
        # Not 70,000 rows two by two.
        batch_size=rng.choice([None, None, 1000] if any(t.rows > 1000 for t in tables) else [None, None, 2, 100]),
        ordered=rng.random() < 0.5,
        memory_limit=rng.choice([None, None, "200MB"]),
        pause=0.02 if rng.random() < 0.1 else 0.0,
    )
    ways = slant.ways if len(slant.ways) < 4 else tuple(sorted(rng.sample(slant.ways, 4), key=WAYS.index))
    return tables, replace(settings, **slant.settings), ways  # type: ignore[arg-type]


def queries_of(seed: int, tables: list[Table], slant: Slant) -> Iterator[Query]:
    """The queries of a seed."""
    for number in range(QUERIES):
        yield random_query(Random(f"{seed} query {number}"), tables, slant.themes)


def run_seed(seed: int, slant: Slant = Slant()) -> Outcome:  # noqa: B008 - frozen
    """Ask every query of a seed in its ways, and compare."""
    tables, settings, ways = tables_and_settings(seed, slant)
    queries = list(queries_of(seed, tables, slant))
    outcome = Outcome()
    _run(ways, tables, queries, settings, outcome)
    return outcome


def check(
    tables: Sequence[Table], query: Query, ways: tuple[str, ...], settings: Settings
) -> list[tuple[str, Disagreement]]:
    """Ask one query in some ways, and return where it disagrees."""
    outcome = Outcome()
    _run(ways, list(tables), [query], settings, outcome)
    return [(failure.case.way, failure.disagreement) for failure in outcome.failures]


def check_case(case: Case) -> Disagreement | None:
    """Ask one query in one way, and compare."""
    return next((wrong for _, wrong in check(case.tables, case.query, (case.way,), case.settings)), None)


def _run(
    ways: tuple[str, ...], tables: list[Table], queries: list[Query], settings: Settings, outcome: Outcome
) -> None:
    plain = _plain(tables, settings)
    with tempfile.TemporaryDirectory(prefix="differential-") as folder:
        for way in ways:
            if way in FORMATS:
                fit = _fitted(way, tables, Path(folder), outcome)
                missing = [quoted(table.name) for table in tables if table.name not in {other.name for other in fit}]
                asked = [query for query in queries if not any(name in str(query.whole) for name in missing)]
                outcome.counts[f"{way} left out"] += len(queries) - len(asked)
                _run_way(way, _plain(fit, settings), fit, asked, settings, Path(folder), outcome)
            else:
                _run_way(way, plain, tables, queries, settings, Path(folder), outcome)


def _plain(tables: list[Table], settings: Settings, register: Any = None, *, reorders: bool = False) -> Plain:
    sizes = {"target_partitions": settings.target_partitions, "batch_size": settings.batch_size}
    return Plain(tables, **sizes, register=register, reorders=reorders)


def _fitted(way: str, tables: list[Table], folder: Path, outcome: Outcome) -> list[Table]:
    """The tables that a format can hold, as it gives them back; queries that name others are left out."""
    fit = []
    for table in tables:
        try:
            fit.append(written(way, table, folder))
        except UnfitError as error:
            outcome.left_out[f"{way}: {error}"] += 1
    return fit


def _run_way(
    way: str,
    plain: Plain,
    tables: list[Table],
    queries: list[Query],
    settings: Settings,
    folder: Path,
    outcome: Outcome,
) -> None:
    with settings.open() as session:
        unregistered = register(session, way, tables, folder)
        for query in queries[:1] if unregistered is not None else queries:
            said = str(query.whole)
            if ends_the_process(way, said, tables):
                outcome.inherited["lance: LIKE on a dictionary without a value ends the process"] += 1
                continue
            expected = plain.ask(said)
            wrong: Disagreement | None
            if unregistered is not None:
                answer = Answer(None, (), unregistered)
                wrong = Disagreement("registration", f"a table is refused: {unregistered!r}")
            else:
                answer = push(session, tables, said, settings.pause) if way == "push" else ask(session, said)
                wrong = _judge(plain, query, expected, answer, is_pushed=way == "push")
            if wrong is not None and way in FORMATS and unregistered is None:
                reason = format_reason(way, said, tables, wrong)
                natives = [_plain(tables, settings, register_native(way, folder), reorders=it) for it in (True, False)]
                alike = (_judge(native, query, native.ask(said), answer, is_pushed=False) is None for native in natives)
                if reason is not None and any(alike):
                    outcome.inherited[f"{way}: {reason}"] += 1
                    continue
            if wrong is not None and wrong.kind == "rows" and plain.drops_sort_keys(said):
                outcome.inherited["DataFusion: keys after a constant are left out of ORDER BY"] += 1
                continue
            if wrong is not None and wrong.kind == "rows" and plain.compares_top_rows_by_fewer_keys(said):
                outcome.inherited["DataFusion: branches of a UNION share a limit without their constant keys"] += 1
                continue
            outcome.counts[f"{way} {_word(said, expected, answer, wrong)}"] += 1
            if wrong is not None:
                outcome.failures.append(Failure(Case(tuple(tables), query, way, settings), wrong))


def _word(said: str, expected: Answer, answer: Answer, wrong: Disagreement | None) -> str:
    if wrong is not None:
        return "disagrees"
    if expected.refusal is None:
        return "refused as documented" if is_documented_refusal(answer.refusal, said) else "agrees"
    return "refused alike" if answer.refusal is not None else "answered by the session alone"


def _judge(plain: Plain, query: Query, expected: Answer, answer: Answer, *, is_pushed: bool) -> Disagreement | None:
    said = str(query.whole)
    if is_documented_refusal(answer.refusal, said):
        return None
    if expected.refusal is not None and answer.refusal is None:
        reason = refusal_reason(expected.refusal)
        expected = plain.ask_patiently(said)
        if expected.refusal is not None and reason is not None and refusal_reason(expected.refusal) is not None:
            return None
    if is_pushed and expected.refusal is None:
        refused = isinstance(answer.refusal, ConsumedError)
        twice = plain.scans_twice(said)
        if twice and not refused:
            words = f"a push table that is scanned twice must be a ConsumedError, not {answer.refusal!r}"
            return Disagreement("scanned twice", words)
        if refused and (plain.names_twice(said) or plain.is_recursive(said)):
            return None
    return compare(expected, answer, ordered=query.ordering is not None)
