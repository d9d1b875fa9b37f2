"""F16: a provider may raise, lie or return nonsense anywhere; the query fails typed, and nothing else is harmed."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest
from rig import CRASHES, SCHEMA, Reader, batch, becomes_true, running, values, what_is_left

import headrace
from headrace.engine.runtime import workers
from support.background import Background


class ForeignError(BaseException):
    """As trio and others have them: no Exception."""


class UnprintableError(Exception):
    """Its own message is a bug."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


# What asks the process to stop may come out as itself; anything else is a TableError with the original inside.
STOPPING = (KeyboardInterrupt, SystemExit)

RAISED = [
    ValueError,
    MemoryError,
    StopAsyncIteration,
    GeneratorExit,
    asyncio.CancelledError,
    ForeignError,
    UnprintableError,
    headrace.CancelledError,
    headrace.ClosedError,
    headrace.ConsumerGoneError,
    *STOPPING,
]


@pytest.fixture
def session(capfd):
    """A session that must be usable and at rest after the test, with nothing of a crash on stderr."""
    held = workers.held
    with headrace.SessionContext() as session:
        yield session
        session.register_arrow("sound", pa.table({"x": [1, 2, 3]}))
        total = session.sql("SELECT sum(x) AS total FROM sound").collect().read_all()
        assert total.to_pylist() == [{"total": 6}]
        assert becomes_true(lambda: workers.held <= held and not running(session)), what_is_left(session)
    stderr = capfd.readouterr().err
    assert not [crash for crash in CRASHES if crash in stderr], stderr
    assert "Traceback" not in stderr


def failure_of(session, provider) -> tuple[list[int], BaseException]:
    """What a query over the provider delivers, and what it then raises, on a thread that must not hang."""
    session.register_table("crooked", provider)
    got: list[int] = []

    def read() -> None:
        for each in session.sql("SELECT x FROM crooked").execute_stream():
            got.extend(values([each]))

    raised = Background(read).outcome()[1]
    assert raised is not None, f"a clean end after {got}"
    return got, raised


def provider_of(scan) -> headrace.TableProvider:
    return headrace.SimpleTableProvider(SCHEMA, scan)


def raising(error: BaseException):
    def scan():
        raise error

    return scan


PLACES = {
    "scan": (raising, []),
    "the first batch": (lambda error: lambda: Reader(error), []),
    "the third batch": (lambda error: lambda: Reader(batch(1), batch(2), error, batch(4)), [1, 2]),
    "close": (lambda error: lambda: Reader(batch(1), on_close=error), [1]),
}

# Where a batch is due, StopIteration is how a reader says that it has ended; elsewhere it is a bug like any other.
CASES = [
    pytest.param(place, kind, id=f"{place}, {kind.__module__}.{kind.__name__}")
    for place in PLACES
    for kind in [*RAISED, *([] if "batch" in place else [StopIteration])]
]


@pytest.mark.parametrize(("place", "kind"), CASES)
def test_a_provider_that_raises_fails_the_query_with_the_very_exception(session, place: str, kind) -> None:
    """F16, T5, S9: typed, named, chained by identity, after the batches before it."""
    error = kind("broken")
    scan, before = PLACES[place]
    got, raised = failure_of(session, provider_of(scan(error)))
    assert got == before
    if isinstance(error, STOPPING):
        assert error in (raised, raised.__cause__)
    else:
        assert type(raised) is headrace.TableError
        assert raised.__cause__ is error
        assert raised.table == "crooked"
        assert "crooked" in str(raised)
        assert kind.__name__ in str(raised)
        assert kind is UnprintableError or "broken" in str(raised)


@pytest.mark.parametrize("kind", [ValueError, ForeignError, StopIteration, *STOPPING])
def test_a_generator_that_raises_fails_the_query_after_what_it_yielded(session, kind) -> None:
    """F16, T5: Python itself turns a StopIteration inside a generator into a RuntimeError from it."""
    error = kind("broken")

    def scan():
        yield batch(1)
        raise error

    got, raised = failure_of(session, provider_of(scan))
    assert got == [1]
    cause = raised if isinstance(raised, STOPPING) else raised.__cause__
    assert error in (cause, cause.__cause__)


@pytest.mark.parametrize("kind", [ValueError, ForeignError, KeyboardInterrupt, SystemExit])
def test_a_schema_that_raises_fails_the_registration_as_itself(session, kind) -> None:
    """F16, T1: the original comes out of register_table, and there is no table."""
    error = kind("broken")

    class Crooked(headrace.TableProvider):
        def schema(self):
            raise error

        def scan(self):
            return []

    with pytest.raises(kind) as caught:
        session.register_table("crooked", Crooked())
    assert caught.value is error
    assert not session.table_exists("crooked")


OTHER = pa.schema([("x", pa.string())])
NOT_NULL = pa.schema([pa.field("x", pa.int64(), nullable=False)])

LIES = {
    "another type": lambda: Reader(schema=OTHER),
    "another name": lambda: Reader(schema=pa.schema([("y", pa.int64())])),
    "an extra column": lambda: Reader(schema=pa.schema([("x", pa.int64()), ("y", pa.int64())])),
    "a column less": lambda: Reader(schema=pa.schema([])),
    "another nullability": lambda: Reader(schema=NOT_NULL),
    "a batch of another type": lambda: Reader(batch(1), pa.record_batch({"x": ["one"]})),
    "a batch with a column more": lambda: Reader(batch(1), pa.record_batch({"x": [1], "y": [1]})),
    "a generated batch of another type": lambda: iter([batch(1), pa.record_batch({"x": [1.5]})]),
    "a first batch of another type": lambda: iter([pa.record_batch({"x": ["one"]})]),
    "a table": lambda: pa.table({"x": ["one"]}),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_provider_that_lies_about_its_schema_fails_the_query(session, lie: str) -> None:
    """F16, T3: refused before the engine sees it, which would take the batch's bytes for what was promised."""
    got, raised = failure_of(session, provider_of(LIES[lie]))
    assert got == ([1] if "batch" in lie and "first" not in lie else [])
    assert type(raised) is headrace.TableError
    assert type(raised.__cause__) is headrace.SchemaMismatchError
    assert "x int64" in str(raised)


def test_nulls_in_a_column_that_may_hold_none_fail_the_query(session) -> None:
    """F16, T3: the engine would compute with whatever bytes are under the nulls."""
    lying = pa.record_batch([pa.array([1, None], pa.int64())], schema=NOT_NULL)
    provider = headrace.SimpleTableProvider(NOT_NULL, lambda: Reader(lying, schema=NOT_NULL))
    _, raised = failure_of(session, provider)
    assert type(raised) is headrace.TableError
    assert type(raised.__cause__) is headrace.SchemaMismatchError
    assert "'x'" in str(raised)


class BadExport:
    def __arrow_c_stream__(self, requested_schema=None):
        return "no capsule"


class BadSchema(Reader):
    schema = property(raising(ValueError("no schema")), lambda self, value: None)


class BadIteration:
    def __iter__(self):
        return iter([1, 2])


NONSENSE = {
    "None": None,
    "a number": 1,
    "text": "x",
    "bytes": b"x",
    "a mapping": {"x": [1]},
    "an object": object(),
    "a class": Reader,
    "a list of numbers": [1, 2],
    "a list of None": [None],
    "an array": pa.array([1]),
    "a reader of None": Reader(batch(1), None),
    "a reader of text": Reader(batch(1), "x"),
    "an export that is no capsule": BadExport(),
    "a schema that raises": BadSchema(),
    "an iterator of numbers": BadIteration(),
}


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_a_scan_that_returns_nonsense_fails_the_query(session, nonsense: str) -> None:
    """F16, T6: a clear error that names the table, whatever came back."""
    _, raised = failure_of(session, provider_of(lambda: NONSENSE[nonsense]))
    assert type(raised) is headrace.TableError
    assert isinstance(raised.__cause__, Exception)
    assert "crooked" in str(raised)


def test_a_provider_may_query_its_own_session(session) -> None:
    """F16, T10: in scan() and between two batches, while the query that asks is waiting for it."""

    def scan():
        for number in (1, 2):
            yield session.sql(f"SELECT {number} + max(x) AS x FROM base").collect().read_all().cast(SCHEMA)
            yield from session.sql("SELECT x FROM base WHERE x > 1").execute_stream()

    session.register_arrow("base", pa.table({"x": [1, 2]}, schema=SCHEMA))
    session.register_table(
        "nested", provider_of(lambda: (each for part in scan() for each in pa.table(part).to_batches()))
    )
    reading = Background(lambda: session.sql("SELECT x FROM nested").collect().read_all())
    assert reading.result()["x"].to_pylist() == [3, 2, 4, 2]


def test_a_query_that_fails_inside_a_provider_fails_the_outer_one(session) -> None:
    """F16, T10: the inner error is the outer one's cause."""
    _, raised = failure_of(session, provider_of(lambda: session.sql("SELECT x FROM nowhere").execute_stream()))
    assert type(raised) is headrace.TableError
    assert type(raised.__cause__) is headrace.PlanError
    assert "nowhere" in str(raised)


def test_a_provider_that_scans_itself_runs_out_of_workers_and_not_of_time(session) -> None:
    """F16, T10: only the pool's size ends the recursion; the query raises, and everything is released."""
    provider = provider_of(lambda: session.sql("SELECT x FROM crooked").execute_stream())
    session.register_table("crooked", provider)
    raised = Background(lambda: session.sql("SELECT x FROM crooked").collect()).outcome(30)[1]
    assert isinstance(raised, headrace.ExecutionError)
    assert "TOKIO_WORKER_THREADS" in str(raised)


def test_one_crooked_table_leaves_another_query_alone(session) -> None:
    """F16, T10: a query over a sound provider continues while one over a crooked provider fails."""
    sink = session.register_streaming_table("pushed", SCHEMA)
    reader = session.sql("SELECT x FROM pushed").execute_stream()
    sink.write(batch(1))
    assert values([reader.read_next_batch()]) == [1]
    failure_of(session, provider_of(raising(ForeignError("broken"))))
    sink.write(batch(2))
    sink.close()
    assert values(reader) == [2]
