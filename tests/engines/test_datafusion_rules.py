"""What headrace rests on in DataFusion: what it asks of a dataset, how it words errors, where it panics or hangs.

Nothing of headrace runs here; the cases are in datafusion_cases.py and run in separate processes. A test that fails
after an upgrade names what changed, and where headrace has to follow.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from datafusion_cases import WORKERS

PROGRAM = Path(__file__).with_name("datafusion_cases.py")
SECONDS = 60.0

# As engine/runtime knows them.
WORKER_NAMES = ("tokio-rt-worker", "tokio-runtime-w")


@functools.cache
def group(name: str) -> dict[str, dict[str, Any]]:
    """The outcomes of a group of cases, by their names."""
    ran = subprocess.run(
        [sys.executable, str(PROGRAM), name],
        env=os.environ | {"TOKIO_WORKER_THREADS": str(WORKERS), "RUST_BACKTRACE": "0"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ran.returncode == 0, f"the group {name!r} took the process down, code {ran.returncode}:\n{ran.stderr}"
    return json.loads(ran.stdout)


def returned(name: str, *, of: str = "answers") -> Any:
    outcome = group(of)[name]
    assert "returned" in outcome, f"{name} failed: {outcome}"
    return outcome["returned"]


def raised(name: str, *, of: str = "answers") -> tuple[str, str]:
    outcome = group(of)[name]
    assert "raised" in outcome, f"{name} did not fail, but returned {outcome}"
    return outcome["raised"], outcome["text"]


# -- what is asked of a dataset -----------------------------------------------------------------------------


def test_the_second_scan_of_an_exhausted_iterator_is_silently_empty() -> None:
    """P6: why a push table is claimed, and a second scan refused; see claim in engine/tables and engine/execution."""
    assert returned("exhausted") == [[1, 2], []], "the engine reports a second scan now; see engine/scan"


def test_a_filter_on_a_plain_column_is_handed_over_and_taken_for_applied() -> None:
    """T9: why the bridge has one column, a struct; see engine/scan and 'Filters stay above the bridge'."""
    found = returned("filter_pushed")
    assert found["seen"][-1] == ["scan", ["x"], True], "the filter is not handed to the fragment any more"
    assert [row["x"] for row in found["rows"]] == [1, 2, 3], "good news: the engine checks what it handed over"


def test_a_filter_on_a_field_of_a_struct_stays_with_the_engine() -> None:
    """T9: THE RIGHT ROWS REST ON IT. If it is pushed, _holds in engine/dataset raises."""
    found = returned("filter_on_a_struct")
    assert [row["x"] for row in found["rows"]] == [2, 3]
    assert [each[-1] for each in found["seen"]] == [False, False], "a filter on a struct's field reaches the dataset"


def test_where_only_rows_count_no_column_is_asked_for_and_the_number_of_rows_survives() -> None:
    """T8: _wrap in engine/scan gives batches without columns that have rows."""
    found = returned("count_star")
    assert found["seen"][-1] == ["scan", [], False]
    assert found["rows"] == [{"n": 3}]


def test_fragments_are_asked_for_at_planning_on_the_thread_that_plans() -> None:
    """P6, T2: a scan is claimed there, and finds its run in a context variable; get_fragments in engine/dataset."""
    assert returned("explain") == [["fragments", True, False]], (
        "EXPLAIN asks for something else than fragments, or on another thread; see engine/execution"
    )


def test_one_partition_is_polled_on_the_calling_thread_and_several_on_workers() -> None:
    """S12, P13: why a thread of ours pulls every stream; see engine/pump and workers in engine/runtime."""
    found = returned("threads_of_scans")
    assert found["one"] == [True], "a single partition is scanned on a worker now; see acquire in engine/runtime"
    assert found["three"] == [False, False, False], "partitions are scanned on the caller's thread; see engine/pump"


def test_the_pool_is_as_large_as_the_environment_says_and_its_threads_have_the_names_we_know() -> None:
    """P13, F17, F19: engine/runtime sizes it so, counts the threads by name, and waits for them at the end."""
    names = returned("worker_names")
    known = [name for name in names if name in WORKER_NAMES]
    assert len(known) == WORKERS, f"{len(known)} of {WORKERS} are called {WORKER_NAMES}, among {sorted(names)}"


def test_an_iterator_is_released_as_soon_as_a_limit_is_reached() -> None:
    """T4, P7: when the engine drops the batches, providers are closed and writes raise; see engine/scan."""
    assert returned("released_after_a_limit") == {"rows": 3, "endings": ["released"]}


# -- what comes out of one that fails -----------------------------------------------------------------------


def test_an_exception_in_next_comes_out_as_text() -> None:
    """T5: the original is kept by headrace itself; see ScanFailure in engine/execution."""
    kind, text = raised("error_in_next")
    assert kind == "Exception", f"the class is {kind} now; perhaps the original comes through, see engine/errors"
    assert "External error: ValueError: boom" in text


def test_an_interrupt_in_next_comes_out_as_a_plain_exception() -> None:
    """T5, S12: why engine/scan records what a scan raised, and engine/errors raises that instead."""
    kind, text = raised("interrupt_in_next")
    assert kind == "Exception", f"an interrupt comes out as {kind}; see record in engine/scan and translate"
    assert "KeyboardInterrupt" in text


def test_an_interrupt_at_planning_is_known_by_its_text() -> None:
    """F20: _INTERRUPT in engine/errors is how a Ctrl-C during planning becomes one again."""
    kind, text = raised("interrupt_at_planning")
    assert kind == "Exception"
    assert "type: <class 'KeyboardInterrupt'>" in text, f"_INTERRUPT in engine/errors does not find itself in: {text}"


def test_a_batch_of_another_type_is_passed_on_where_nothing_computes_with_it() -> None:
    """T3, F16: the engine checks nothing; arrow/batches has to, before a batch reaches it."""
    assert returned("wrong_type_passed_on") == "string", "good news: the engine checks the batches of a dataset"


def test_a_batch_of_another_type_panics_where_something_does() -> None:
    """T3, F16: on this thread as an exception that is no Exception, on a worker as a Join Error; see _classify."""
    assert raised("wrong_type_on_this_thread", of="panics")[0] == "PanicException"
    assert not group("panics")["wrong_type_on_this_thread"]["is_exception"], (
        "panics are Exceptions now; _classify in engine/errors takes what is none for an EngineError"
    )
    assert raised("wrong_type_on_a_worker", of="panics")[1].startswith("DataFusion error: Join Error\ncaused by\n")


def test_a_query_from_inside_next_panics() -> None:
    """T10, F16: why providers are pumped on threads of headrace's own; see engine/tables."""
    kind, text = raised("query_inside_next", of="panics")
    assert kind == "PanicException", f"good news, perhaps: a query inside a scan is {kind} now; see engine/tables"
    assert "runtime" in text


# -- where it hangs, and how it is got out ------------------------------------------------------------------


def test_a_fork_hangs_on_its_first_query_of_several_partitions() -> None:
    """F18, P15: why every call in a fork is refused; see require_same_process in engine/runtime."""
    found = returned("forked", of="hangs")
    assert not found["several"], "good news: a fork can use the engine; see require_same_process in engine/runtime"
    assert found["one"], "a fork cannot even run a query of one partition"


def test_an_exception_set_in_a_thread_that_waits_inside_the_engine_comes_out_of_it() -> None:
    """S11, S7: a query that computes on is aborted so; `abort` in engine/pump counts on a look every second."""
    found = returned("aborted", of="hangs")
    assert found["outcome"] == "AbortError", "the engine does not look for exceptions of its thread any more"
    assert found["seconds"] < 2.5, f"it looks after {found['seconds']:.1f} s only; see engine/abort"


# -- how errors are worded ----------------------------------------------------------------------------------

# By case: how its text begins, once what _WRAPPER in engine/errors knows is taken off.
PREFIXES = {
    "no SQL": "SQL error",
    "no such table": "Error during planning",
    "no such column": "Schema error",
    "a negative limit": "DataFusion error: Optimizer rule 'eliminate_limit' failed\ncaused by\nError during planning",
    "two statements": "This feature is not implemented",
    "no such setting": "Invalid or Unsupported Configuration",
    "a division by zero": "DataFusion error: Arrow error: ",
    "a cast that fails": "DataFusion error: Arrow error: ",
    "a cast of constants": "DataFusion error: Optimizer rule 'simplify_expressions' failed\ncaused by\nArrow error: ",
    "parquet_corrupt": "DataFusion error: Parquet error",
    "parquet_gone_between": "DataFusion error: Parquet error: External: ",
    "lance_gone": "DataFusion error: FFI error: External error: LanceError(IO)",
}


@pytest.mark.parametrize("case", PREFIXES)
def test_the_kind_of_an_error_is_the_beginning_of_its_text(case: str) -> None:
    """S10, S8: _KINDS and _WRAPPER in engine/errors know errors by these words and by nothing else."""
    text = raised(case)[1]
    assert text.startswith(PREFIXES[case]), f"reworded; follow in _KINDS or _WRAPPER of engine/errors: {text}"


def test_exhausted_memory_is_named_in_a_separate_layer_of_the_error() -> None:
    """S10: _INNER in engine/errors splits a text where a line says only 'caused by'."""
    text = raised("memory")[1]
    layers = [layer.strip() for layer in text.split("\ncaused by\n")]
    assert any(layer.startswith("Resources exhausted") for layer in layers), f"see _KINDS in engine/errors: {text}"


# -- DataFusion's tables, and Lance's -----------------------------------------------------------------------


def test_a_file_that_was_removed_is_an_empty_table() -> None:
    """S10: why _require_paths in engine/engine looks for it before each query."""
    assert returned("parquet_gone_before") == [{"n": 0}], "good news: the engine misses a file that has gone"


def test_lance_s_own_provider_fits_this_engine_and_takes_filters_down() -> None:
    """C12: register_lance in session/sources; pylance and datafusion are pinned to majors that go together."""
    found = returned("lance_filtered")
    assert found["rows"] == [998, 999]
    assert "FilteredReadExec" in found["plan"], f"the filter does not reach Lance's scan: {found['plan']}"
    assert "FilterExec" not in found["plan"], f"it is applied twice: {found['plan']}"


def test_a_frame_over_lance_s_provider_needs_its_context_alive() -> None:
    """S5: frames hold their engine, and with it the context, for as long as they live; see engine/engine."""
    kind, text = raised("lance_without_its_context")
    assert kind == "Exception"
    assert "went out of scope" in text, f"reworded, or no longer so: {text}"
