"""Rounds of a storm with pull tables: providers that misbehave, are left, or are waited for."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
from rig import Reader, batch, becomes_true, values
from session_storm import SECONDS, SourceError, Storm, Told, Way, judge, original_of, read

import headrace

ALL = "SELECT x FROM pulled"
OTHER = pa.schema([("x", pa.string())])


def require_closed_once(reader: Reader) -> None:
    """The thread that read it closes it, maybe a moment after the query has ended."""
    assert becomes_true(lambda: reader.closed, SECONDS), "a provider's reader was not closed"
    assert reader.closed == 1, f"a provider's reader was closed {reader.closed} times"


def read_items(storm: Storm, *items: Any, **settings: Any) -> tuple[list[int], BaseException | None]:
    """Read a provider whose reader hands out items and raises those that are exceptions."""
    reader = Reader(*items, **settings)
    storm.pull(lambda: reader)
    got, raised = read(storm.sql(ALL))
    require_closed_once(reader)
    return got, raised


def cut(storm: Storm) -> tuple[list[list[int]], list[list[int]]]:
    """Batches before a fault, and batches that must not come after it."""
    batches = storm.batches()
    at = storm.chance.randint(0, len(batches))
    return batches[:at], batches[at:]


def flat(batches: list[list[int]]) -> list[int]:
    return [value for each in batches for value in each]


def require_table_error(raised: BaseException | None, cause: type[BaseException]) -> None:
    assert type(raised) is headrace.TableError, repr(raised)
    assert type(raised.__cause__) is cause, repr(raised.__cause__)
    assert raised.table == "pulled"


# -- misbehaving -------------------------------------------------------------------------------------


def a_provider_raises_in_scan(storm: Storm) -> Told:
    error = storm.chance.choice([SourceError, StopIteration, GeneratorExit, SystemExit])("broken")

    def scan() -> Any:
        raise error

    storm.pull(scan)
    got, raised = read(storm.sql(ALL))
    assert original_of(raised) is error, repr(raised)
    return judge("pull", [], got)


def a_provider_raises_between_batches(storm: Storm) -> Told:
    error = storm.chance.choice([SourceError, MemoryError, GeneratorExit, SystemExit])("broken")
    before, after = cut(storm)
    got, raised = read_items(storm, *(batch(*each) for each in before), error, *(batch(*each) for each in after))
    assert original_of(raised) is error, repr(raised)
    return judge("pull", flat(before), got)


def a_provider_raises_when_closed(storm: Storm) -> Told:
    error = SourceError("broken")
    batches = storm.batches()
    got, raised = read_items(storm, *(batch(*each) for each in batches), on_close=error)
    assert original_of(raised) is error, repr(raised)
    return judge("pull", flat(batches), got)


def a_provider_lies_about_its_schema(storm: Storm) -> Told:
    got, raised = read_items(storm, pa.record_batch({"x": ["one"]}), schema=OTHER)
    require_table_error(raised, headrace.SchemaMismatchError)
    return judge("pull", [], got)


def a_provider_returns_a_batch_of_another_type(storm: Storm) -> Told:
    before, after = cut(storm)
    wrong = storm.chance.choice([pa.record_batch({"x": ["one"]}), pa.record_batch({"x": [1], "y": [1]})])
    got, raised = read_items(storm, *(batch(*each) for each in before), wrong, *(batch(*each) for each in after))
    require_table_error(raised, headrace.SchemaMismatchError)
    return judge("pull", flat(before), got)


def a_provider_queries_its_own_session(storm: Storm) -> Told:
    session, batches = storm.session, storm.batches(least=1)
    storm.pull(lambda: (batch(*each) for each in batches), "base")

    def scan() -> Any:
        yield from session.sql("SELECT x FROM base").execute_stream()
        yield from session.sql("SELECT max(x) AS x FROM base").execute_stream()

    storm.pull(scan)
    got, raised = read(storm.sql(ALL))
    assert raised is None, repr(raised)
    rows = flat(batches)
    return judge("pull", [*rows, max(rows)], got)


def a_query_inside_a_provider_fails(storm: Storm) -> Told:
    session, (before, _) = storm.session, cut(storm)

    def scan() -> Any:
        for each in before:
            yield batch(*each)
        yield from session.sql("SELECT x FROM nowhere").execute_stream()

    storm.pull(scan)
    got, raised = read(storm.sql(ALL))
    require_table_error(raised, headrace.PlanError)
    return judge("pull", flat(before), got)


# -- left, and waited for ----------------------------------------------------------------------------


def a_provider_is_left(storm: Storm) -> Told:
    batches = storm.batches(least=40, most=60)
    reader = Reader(*(batch(*each) for each in batches))
    storm.pull(lambda: reader)
    got: list[int] = []
    with storm.sql(ALL).execute_stream() as result:
        for _ in range(storm.chance.randint(1, 3)):
            got += values([result.read_next_batch()])
        if storm.chance.random() < 0.5:
            result.cancel()
    require_closed_once(reader)
    return judge("pull", flat(batches), got, due=len(batches[0]))


def a_limit_ends_a_provider(storm: Storm) -> Told:
    batches = storm.batches(least=40, most=60)
    limit = storm.chance.randint(1, 40)
    reader = Reader(*(batch(*each) for each in batches))
    storm.pull(lambda: reader)
    got = storm.sql(f"{ALL} LIMIT {limit}").collect().read_all()["x"].to_pylist()
    assert len(got) == limit, f"{len(got)} rows of {limit}"
    require_closed_once(reader)
    return judge("pull", flat(batches), got, due=limit)


def a_slow_provider(storm: Storm) -> Told:
    batches = storm.batches(least=4)
    arrived = threading.Semaphore(0)

    def scan() -> Any:
        for each in batches:
            yield batch(*each)
            for _ in each:
                assert arrived.acquire(timeout=SECONDS), "a batch was held back"

    storm.pull(scan)
    got: list[int] = []
    for each in storm.sql(ALL).execute_stream():
        got.extend(values([each]))
        arrived.release(each.num_rows)
    return judge("pull", flat(batches), got)


WAYS: dict[str, list[Way]] = {
    "F14": [a_provider_is_left, a_limit_ends_a_provider],
    "F15": [a_slow_provider],
    "F16": [
        a_provider_raises_in_scan,
        a_provider_raises_between_batches,
        a_provider_raises_when_closed,
        a_provider_lies_about_its_schema,
        a_provider_returns_a_batch_of_another_type,
        a_provider_queries_its_own_session,
        a_query_inside_a_provider_fails,
    ],
}
