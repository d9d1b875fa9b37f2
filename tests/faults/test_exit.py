"""F19: the interpreter exits within two seconds, with code 0, whatever is still open or blocked."""

from __future__ import annotations

import textwrap

import pytest
from rig import CRASHES, run_script

SECONDS = 2.0

# Threads whose calls raise at exit print that on stderr, as any thread does; here they print nothing.
QUIET = "threading.excepthook = lambda arguments: None\n"

LEFT_OPEN = {
    "an open session": "session = headrace.SessionContext()",
    "an open sink with batches in it": """
session = headrace.SessionContext()
sink = session.register_streaming_table("pushed", SCHEMA)
sink.write(batch(1))
""",
    "a blocked producer that is a daemon": """
session = headrace.SessionContext()
sink = session.register_streaming_table("pushed", SCHEMA, capacity=1)
producer = Background(write_until_refused, sink)
assert becomes_true(lambda: sink.statistics().waiting_writers)
""",
    "a blocked producer that is not a daemon": """
session = headrace.SessionContext()
sink = session.register_streaming_table("pushed", SCHEMA, capacity=1)
producer = threading.Thread(target=write_until_refused, args=(sink,))
producer.start()
assert becomes_true(lambda: sink.statistics().waiting_writers)
""",
    "a producer that never stops by itself": """
session = headrace.SessionContext()
sink = session.register_streaming_table("pushed", SCHEMA, capacity=1)
reader = session.sql("SELECT x FROM pushed").execute_stream()
threading.Thread(target=write_until_refused, args=(sink,)).start()
threading.Thread(target=lambda: list(reader)).start()
""",
    "scans parked on push tables": """
session = headrace.SessionContext(target_partitions=4)
sinks = [session.register_streaming_table(f"pushed_{n}", SCHEMA) for n in range(8)]
shapes = ["SELECT x FROM pushed_{}", "SELECT x % 3, count(*) FROM pushed_{} GROUP BY 1"]
readers = [session.sql(shapes[n % 2].format(n)).execute_stream() for n in range(8)]
before = waiting_readers()
readings = [Background(reader.read_all, daemon=bool(n % 3)) for n, reader in enumerate(readers)]
assert becomes_true(lambda: waiting_readers() >= before + len(readings))
""",
    "readers, unread and half read": """
def scan():
    while True:
        yield batch(*range(1000))
session = headrace.SessionContext(target_partitions=4)
session.register_arrow("base", pa.table({"x": pa.array(range(100_000), pa.int64())}))
session.register_table("pulled", headrace.SimpleTableProvider(SCHEMA, scan))
unread = [session.sql(f"SELECT x + 1 FROM {name}").execute_stream() for name in ("base", "pulled")]
half_read = [session.sql(f"SELECT x + 1 FROM {name}").execute_stream() for name in ("base", "pulled")]
for reader in half_read:
    reader.read_next_batch()
""",
    "a query that computes, parked": """
session = headrace.SessionContext()
one, many = (f"SELECT count(*) FROM generate_series(1, {n})" for n in (1, 10**11))
reader = session.sql(f"{one} UNION ALL {many}").execute_stream()
reader.read_next_batch()
""",
    "a query that computes, being read": """
session = headrace.SessionContext()
reader = session.sql("SELECT count(*) FROM generate_series(1, 100000000000)").execute_stream()
reading = Background(reader.read_all, daemon=False)
assert becomes_true(waiting_readers)
""",
    "a provider asleep": """
entered = threading.Event()
def scan():
    yield batch(1)
    entered.set()
    time.sleep(60)
session = headrace.SessionContext()
session.register_table("pulled", headrace.SimpleTableProvider(SCHEMA, scan))
reader = session.sql("SELECT x FROM pulled").execute_stream()
reader.read_next_batch()
assert entered.wait(5)
""",
    "a provider that polls, under a reader of pyarrow's": """
entered = threading.Event()
def scan():
    yield batch(1)
    while True:
        entered.set()
        time.sleep(0.001)
session = headrace.SessionContext()
readers = []
for n in range(8):
    scan_as_reader = lambda: pa.RecordBatchReader.from_batches(SCHEMA, scan())
    session.register_table(f"pulled_{n}", headrace.SimpleTableProvider(SCHEMA, scan_as_reader))
    readers.append(session.sql(f"SELECT x FROM pulled_{n}").execute_stream())
    readers[-1].read_next_batch()
assert entered.wait(5)
""",
    "a provider that waits for another table": """
session = headrace.SessionContext()
sink = session.register_streaming_table("pushed", SCHEMA)
inner = lambda: session.sql("SELECT x FROM pushed").execute_stream()
session.register_table("pulled", headrace.SimpleTableProvider(SCHEMA, inner))
reader = session.sql("SELECT x FROM pulled").execute_stream()
before = waiting_readers()
reading = Background(reader.read_next_batch)
assert becomes_true(lambda: waiting_readers() >= before + 2)
""",
    "threads that still start queries": """
session = headrace.SessionContext()
session.register_table("pulled", headrace.SimpleTableProvider(SCHEMA, lambda: [batch(1)]))
def query():
    while True:
        session.sql("SELECT x FROM pulled").collect()
threads = [threading.Thread(target=query) for _ in range(4)]
for thread in threads:
    thread.start()
""",
    "a reader taken over by pyarrow": """
session = headrace.SessionContext()
sink = session.register_streaming_table("pushed", SCHEMA)
sink.write(batch(1))
taken = pa.RecordBatchReader.from_stream(session.sql("SELECT x FROM pushed"))
taken.read_next_batch()
""",
}


@pytest.fixture
def seconds() -> float:
    """What an exit may take: the two seconds, and what this machine needs just now with nothing left open."""
    return SECONDS + run_script("headrace.SessionContext().close()").require_clean().exit_seconds


@pytest.mark.slow
@pytest.mark.parametrize("left_open", LEFT_OPEN)
def test_the_interpreter_exits_cleanly_and_soon_with(left_open: str, seconds: float) -> None:
    """F19: exit code 0 within 2 s of the end of the main module, and no trace of a crash."""
    outcome = run_script(QUIET + LEFT_OPEN[left_open]).require_clean()
    assert outcome.exit_seconds < seconds


CANCELLED = """
session = headrace.SessionContext(target_partitions=4)
million = "generate_series(1, 1000000)"
pairs = f"{million} a(x) JOIN {million} b(y) ON (x * y) % 1000003 = 7"
reader = session.sql(f"SELECT count(*) FROM {pairs}").execute_stream()
reading = Background(reader.read_all)
assert becomes_true(waiting_readers)
reader.cancel()
"""

# Those that cannot be woken, and are waited for, have their own time.
WAITED_FOR = ("a provider asleep", "a query that computes, parked", "a query that computes, being read")

# Each in a separate function, whose variables are kept.
FUNCTION = """
def left_open_{number}():
{body}
    return locals()
kept_{number} = left_open_{number}()
"""
MIXED = "".join(
    FUNCTION.format(number=number, body=textwrap.indent(text, "    "))
    for number, (name, text) in enumerate(LEFT_OPEN.items())
    if name not in WAITED_FOR
)


@pytest.mark.parametrize("times", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_all_of_it_at_once_exits_cleanly_again_and_again(times: int, seconds: float) -> None:
    """F19: everything left open in one process, repeated; not one abort."""
    outcomes = [run_script(QUIET + MIXED) for _ in range(times)]
    for outcome in outcomes:
        outcome.require_clean()
    assert max(outcome.exit_seconds for outcome in outcomes) < seconds


def test_an_abort_that_is_due_at_exit_prints_nothing() -> None:
    """F19: a query that was cancelled while it computes, in a step that the engine does not interrupt."""
    outcome = run_script(CANCELLED).require_clean()
    assert not outcome.stderr


@pytest.mark.parametrize(("ending", "code"), [("sys.exit(3)", 3), ("raise ValueError('the end')", 1)])
def test_the_exit_code_is_the_programs_own(ending: str, code: int) -> None:
    """F19: what is brought to rest at exit does not change how the program ended."""
    outcome = run_script(QUIET + LEFT_OPEN["scans parked on push tables"] + ending)
    assert outcome.code == code
    assert not [crash for crash in CRASHES if crash in outcome.stderr]
