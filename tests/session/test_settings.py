"""The settings of a session are checked when it is made, and take effect."""

import os
import subprocess
import sys

import pyarrow as pa
import pytest
from providers import Provider, rows, scanning

import headrace
from headrace import SessionContext

COUNT = 200_000
NUMBERS = pa.array([(i * 7919) % COUNT for i in range(COUNT)], pa.int64())
BIG = pa.table({"x": NUMBERS, "s": [f"a rather long piece of text, number {i}" for i in range(COUNT)]})
# The engine reserves this much memory for merging spilled rows; 10 MB by default.
SMALL_RESERVE = {"datafusion.execution.sort_spill_reservation_bytes": 500_000}


def in_effect(ctx, name):
    shown = ctx.sql(f"show {name}").collect().read_all()
    return shown["value"].to_pylist()


@pytest.mark.parametrize(
    ("settings", "name", "value"),
    [
        ({"batch_size": 5}, "datafusion.execution.batch_size", "5"),
        ({"target_partitions": 3}, "datafusion.execution.target_partitions", "3"),
        ({"config": {"datafusion.optimizer.max_passes": 7}}, "datafusion.optimizer.max_passes", "7"),
        ({"config": {"datafusion.optimizer.max_passes": "7"}}, "datafusion.optimizer.max_passes", "7"),
        (
            {"config": {"datafusion.optimizer.filter_null_join_keys": True}},
            "datafusion.optimizer.filter_null_join_keys",
            "true",
        ),
        ({"config": {}}, "datafusion.optimizer.max_passes", "3"),
        ({"config": None}, "datafusion.optimizer.max_passes", "3"),
    ],
)
def test_a_setting_takes_effect(settings, name, value):
    """S2: batch_size, target_partitions and the engine's own settings by their full names."""
    with SessionContext(**settings) as ctx:
        assert in_effect(ctx, name) == [value]


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_no_batch_is_larger_than_batch_size(size):
    """S2: the result over a provider has batches of at most batch_size rows, however large the provider's are."""
    with SessionContext(batch_size=size, target_partitions=1) as ctx:
        ctx.register_table("t", Provider(lambda: [rows(0, 7), rows(7, 1), rows(8, 12)]))
        for query in ("select x from t", "select x from t where x >= 0", "select x from t order by x"):
            batches = list(ctx.sql(query).execute_stream())
            assert [x for batch in batches for x in batch["x"].to_pylist()] == list(range(20))
            assert max(batch.num_rows for batch in batches) <= size


@pytest.mark.parametrize("name", ["batch_size", "target_partitions"])
@pytest.mark.parametrize("value", [0, -1, True, 1.5, "5", 2**70], ids=repr)
def test_a_count_must_be_a_whole_number_of_at_least_1(name, value):
    """The message names the setting and the value."""
    with pytest.raises(headrace.ConfigurationError) as caught:
        SessionContext(**{name: value})
    assert str(caught.value).startswith(f"{name} must be ")
    assert str(caught.value).endswith(f", not {value!r}.")


@pytest.mark.parametrize(
    "limit", [1, 10**9, "1", "100b", "512MB", "512 mb", "2GiB", "2gib", " 1.5 GB ", "1k", "1Ki", "3T"], ids=repr
)
def test_a_memory_limit_is_a_number_of_bytes_or_a_size(limit):
    """Units of 1000 and of 1024, in upper or lower case, with or without a B."""
    with SessionContext(memory_limit=limit) as ctx:
        assert ctx.sql("select 1").count() == 1


@pytest.mark.parametrize(
    "limit", [0, -1, True, 1.5, "", "0", "x", "MB", "-1MB", "5 PB", "1e9", "1,5GB", "9" * 400, 10**30, [1]], ids=repr
)
def test_an_invalid_memory_limit_is_refused(limit):
    """The message says which values are allowed."""
    with pytest.raises(headrace.ConfigurationError) as caught:
        SessionContext(memory_limit=limit)
    message = str(caught.value)
    assert message.startswith("memory_limit must be a number of bytes")
    assert "or a size such as '512MB' or '2GiB'" in message
    assert message.endswith(f"not {limit!r}.")


def test_units_of_memory_have_their_values():
    """Seen from outside: the engine reports the size of its pool."""
    for limit, said in (("2KB", "2000.0 B"), ("2KiB", "2.0 KB"), ("2000", "2000.0 B"), (2048, "2.0 KB")):
        with SessionContext(memory_limit=limit, spill=False) as ctx:
            ctx.register_arrow("t", BIG)
            with pytest.raises(headrace.ResourcesExhaustedError, match=f"pool_size: {said}"):
                ctx.sql("select * from t order by x").collect()


def registered(ctx, kind):
    # Batches that own their memory: the engine counts each slice as the whole.
    batches = [pa.concat_batches([batch, batch.slice(0, 0)]) for batch in BIG.to_batches(max_chunksize=4096)]
    if kind == "memory":
        ctx.register_arrow("t", pa.Table.from_batches(batches))
    elif kind == "pull":
        ctx.register_table("t", scanning(lambda: batches, BIG.schema))
    else:
        with ctx.register_streaming_table("t", BIG.schema, capacity=len(batches)) as sink:
            for batch in batches:
                sink.write(batch)


@pytest.mark.parametrize("kind", ["memory", "pull", "push"])
@pytest.mark.parametrize("where", ["system", "folder"])
def test_a_sort_larger_than_the_memory_limit_spills(kind, where, tmp_path):
    """S4: over every kind of table; it spills into the given folder, which is empty afterwards."""
    spill = True if where == "system" else tmp_path
    with SessionContext(memory_limit="4MB", spill=spill, target_partitions=1, config=SMALL_RESERVE) as ctx:
        registered(ctx, kind)
        seen = 0
        for batch in ctx.sql("select x, s from t order by x").execute_stream():
            assert batch["x"].to_pylist() == list(range(seen, seen + batch.num_rows))
            seen += batch.num_rows
        assert seen == COUNT
    assert list(tmp_path.rglob("*.arrow")) == []


@pytest.mark.parametrize("kind", ["memory", "pull", "push"])
def test_without_spilling_a_sort_larger_than_the_memory_limit_is_a_typed_error(kind):
    """S10: resources exhausted, and the message names the limit to raise; the session stays usable."""
    with SessionContext(memory_limit="4MB", spill=False, target_partitions=1, config=SMALL_RESERVE) as ctx:
        registered(ctx, kind)
        with pytest.raises(headrace.ResourcesExhaustedError, match=r"Hint: raise memory_limit, allow spill"):
            ctx.sql("select x, s from t order by x").collect()
        assert ctx.sql("select 1").count() == 1


@pytest.mark.parametrize("kind", ["pull", "push"])
def test_a_sort_over_a_python_table_is_planned_like_a_sort_over_a_table_in_memory(kind):
    """S4: it can spill; a limit on the best rows is not mistaken for the whole sort."""
    with SessionContext(target_partitions=1) as ctx:
        registered(ctx, kind)
        assert "TopK" not in ctx.sql("select x, s from t order by x").explain()
        assert "TopK(fetch=3)" in ctx.sql("select x, s from t order by x limit 3").explain()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"spill": 5}, r"spill must be True, False or a folder, not 5"),
        ({"spill": None}, r"spill must be True, False or a folder, not None"),
        ({"spill": ""}, r"spill must be True, False or a folder, not ''"),
        ({"spill": "/no/such/folder"}, r"spill does not exist: '/no/such/folder'\. Hint: create it first"),
        ({"ordered": None}, r"ordered must be True or False, not None"),
        ({"low_latency": 1}, r"low_latency must be True or False, not 1"),
        ({"low_latency": "yes"}, r"low_latency must be True or False, not 'yes'"),
        ({"config": {"batch_size": 1}}, r"Unknown engine setting 'batch_size'\. Hint: .*'datafusion\.'"),
        ({"config": {5: 1}}, r"Unknown engine setting 5\. Hint: "),
        ({"config": 5}, r"config"),
        ({"config": [("a", "b")]}, r"config"),
    ],
)
def test_an_invalid_setting_is_refused_and_named(settings, message):
    """The message says which values are allowed."""
    with pytest.raises(headrace.ConfigurationError, match=message):
        SessionContext(**settings)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("datafusion.nope", 1),
        ("datafusion.optimizer.nope", 1),
        ("datafusion.optimizer.max_passes", "many"),
        ("datafusion.optimizer.max_passes", None),
    ],
)
def test_an_invalid_engine_setting_is_refused_without_a_panic(key, value, capfd):
    """The message names the key without the engine's internal words, and the terminal stays clean."""
    with pytest.raises(headrace.ConfigurationError) as caught:
        SessionContext(config={key: value})
    message = str(caught.value)
    assert key in message
    assert "unwrap" not in message
    assert "panicked" not in capfd.readouterr().err


def test_an_unknown_argument_is_a_type_error():
    """Python's own error, as for any function."""
    with pytest.raises(TypeError, match="memory"):
        SessionContext(memory="1GB")


# -- nothing happens at import --------------------------------------------------------------------------

IMPORTS = """
import os, threading

def hooks():
    return [hook.func for hook in threading._threading_atexits if hook.func.__module__.startswith("headrace")]

before = dict(os.environ)
import headrace.session.context, headrace.engine.engine
assert dict(os.environ) == before
assert hooks() == []
for _ in range(2):
    headrace.session.context.SessionContext().close()
assert dict(os.environ) == before
assert len(hooks()) == 1
"""


def test_importing_the_session_sets_no_variable_and_registers_no_exit_hook() -> None:
    """The first SessionContext does both, and unsets the variable that sizes the worker pool."""
    environment = {name: value for name, value in os.environ.items() if name != "TOKIO_WORKER_THREADS"}
    subprocess.run([sys.executable, "-c", IMPORTS], check=True, env=environment)
