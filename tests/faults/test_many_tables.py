"""F17: more push tables than cores run; more than the pool has workers is refused when the query starts."""

from __future__ import annotations

import os

import pytest
from rig import run_script

from support.tally import require_same

ROUND_ROBIN = """
def union(names):
    return " UNION ALL ".join(f"SELECT x FROM {name}" for name in names)

def feed(sinks, rounds):
    # One producer for all of them: a table nobody reads stops every other one.
    for number in range(rounds):
        for offset, sink in enumerate(sinks):
            sink.write(batch(number * len(sinks) + offset))
    for sink in sinks:
        sink.close()

def read(frame):
    return sorted(values(frame.execute_stream()))
"""


SIXTY_FOUR = """
for partitions in (1, 2, 8):
    with headrace.SessionContext(target_partitions=partitions) as session:
        names = [f"pushed_{number}" for number in range(64)]
        sinks = [session.register_streaming_table(name, SCHEMA, capacity=1) for name in names]
        producer = Background(feed, sinks, 10)
        rows = Background(read, session.sql(union(names))).result(20)
        producer.result()
        report(**{f"rows on {partitions}": rows})
        assert becomes_true(lambda: is_at_rest(session)), what_is_left(session)
"""


def test_64_push_tables_fed_round_robin_through_capacity_1_all_arrive() -> None:
    """F17, P13: 64 blocked scans on a machine of any size; every row once, and no deadlock."""
    facts = run_script(ROUND_ROBIN + SIXTY_FOUR).require_clean().facts
    for partitions in (1, 2, 8):
        require_same("push", range(64 * 10), facts[f"rows on {partitions}"])


TOO_MANY = """
with headrace.SessionContext(target_partitions=2) as session:
    names = [f"pushed_{number}" for number in range(TABLES)]
    sinks = [session.register_streaming_table(name, SCHEMA, capacity=1) for name in names]
    started = time.monotonic()
    try:
        session.sql(union(names)).execute_stream()
    except headrace.ResourcesExhaustedError as error:
        report(message=str(error), seconds=time.monotonic() - started)
    report(held=workers.held, executions=running(session), states=[sink.statistics().state for sink in sinks])
    producer = Background(feed, sinks[1:], 10)
    rows = Background(read, session.sql(union(names[1:]))).result(20)
    producer.result()
    report(complete=rows == list(range((TABLES - 1) * 10)))
"""


@pytest.mark.parametrize("pool", [2, 9])
def test_more_push_tables_than_workers_is_refused_at_the_start_and_nothing_is_used_up(pool: int) -> None:
    """F17, P13, P6: the error comes from execute_stream and names the setting; one table less still runs."""
    script = f"TABLES = {pool}\n" + ROUND_ROBIN + TOO_MANY
    facts = run_script(script, environment={"TOKIO_WORKER_THREADS": str(pool)}).require_clean().facts
    assert "TOKIO_WORKER_THREADS" in facts["message"]
    assert facts["seconds"] < 1.0
    assert facts["held"] == 0
    assert facts["executions"] == 0
    assert facts["states"] == ["open"] * pool
    assert facts["complete"]


def test_the_pool_of_the_default_size_is_refused_by_one_table_too_many() -> None:
    """F17, P13: without any setting, 128 tables in one query are one more than can wait at once."""
    default = max(128, 4 * (os.cpu_count() or 1))
    facts = run_script(f"TABLES = {default}\n" + ROUND_ROBIN + TOO_MANY).require_clean().facts
    assert "TOKIO_WORKER_THREADS" in facts["message"]
    assert facts["held"] == 0
    assert facts["complete"]


def test_readers_that_are_open_count_and_closing_one_makes_room() -> None:
    """F17, P13: the bound is over all queries of the process, and what is closed is given back at once."""
    facts = (
        run_script(
            """
            with headrace.SessionContext() as one, headrace.SessionContext() as other:
                sinks = [one.register_streaming_table(f"pushed_{i}", SCHEMA) for i in range(3)]
                readers = [one.sql(f"SELECT x FROM pushed_{i}").execute_stream() for i in range(3)]
                late = other.register_streaming_table("late", SCHEMA)
                late.write(batch(7))
                late.close()
                frame = other.sql("SELECT x FROM late")
                try:
                    frame.execute_stream()
                except headrace.ResourcesExhaustedError as error:
                    report(message=str(error))
                readers[0].close()
                report(rows=frame.collect().read_all()["x"].to_pylist())
            """,
            environment={"TOKIO_WORKER_THREADS": "4"},
        )
        .require_clean()
        .facts
    )
    assert "close readers" in facts["message"]
    assert facts["rows"] == [7]


def test_on_a_single_worker_a_push_table_is_refused_rather_than_left_to_block_everybody() -> None:
    """F17, P13: a scan that waits would hold the only worker, and no other query could run."""
    facts = run_script(
        """
            session = headrace.SessionContext(target_partitions=2)
            session.register_arrow("base", pa.table({"x": range(100_000)}))
            sink = session.register_streaming_table("pushed", SCHEMA)
            grouped = "SELECT x % 3, count(*) FROM {} GROUP BY 1"

            def wait():
                try:
                    session.sql(grouped.format("pushed")).collect()
                except headrace.ResourcesExhaustedError as error:
                    report(message=str(error))

            waiting = Background(wait)
            assert becomes_true(lambda: waiting_readers() or not waiting.is_alive())
            other = Background(lambda: session.sql(grouped.format("base")).collect().read_all().num_rows)
            other.join(5)
            report(other_ran=not other.is_alive())
            os._exit(0)
            """,
        environment={"TOKIO_WORKER_THREADS": "1"},
    ).facts
    assert facts["other_ran"]
    assert "TOKIO_WORKER_THREADS" in facts.get("message", "")
