"""The board: what a run tells it is what the page gets."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

from headrace.channel.statistics import SinkStatistics
from headrace.pipeline.progress import Totals
from headrace.ui import RunStatus
from headrace.ui.status import LAST_EPOCHS
from support.statuses import Clock, progress, tell


def statistics(queued: int, *, state: str = "open") -> SinkStatistics:
    return SinkStatistics(
        batches=queued,
        rows=queued,
        bytes=queued,
        queued=queued,
        queued_rows=queued,
        queued_bytes=queued,
        capacity=16,
        max_bytes=None,
        seconds_blocked=0.0,
        waiting_readers=0,
        waiting_writers=0,
        state=state,
    )


def test_importing_the_page_loads_no_engine() -> None:
    """C8: nor the packages that only serving needs."""
    program = "import sys, headrace.ui; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    heavy = {"pyspark", "lance", "datafusion", "pyarrow", "starlette", "uvicorn", "prometheus_client", "click"}
    assert heavy & set(done.stdout.split()) == set()


def test_a_new_board_says_that_it_has_no_events() -> None:
    """C8: no epochs, and totals of nothing."""
    told = RunStatus("orders", "orders.lance", clock=Clock(5.0)).snapshot()
    assert told == {
        "pipeline": "orders",
        "table": "orders.lance",
        "state": "starting",
        "message": None,
        "now": 5.0,
        "started": 5.0,
        "ended": None,
        "totals": {"epochs": 0, "skipped": 0, "empty": 0, "rows": 0, "version": None, "null_rows": 0},
        "activity": None,
        "activity_since": 5.0,
        "last_success": None,
        "last_rows": None,
        "next_try": None,
        "failures": {},
        "restarts": {},
        "epochs": [],
        "push_tables": [],
    }


def test_an_epoch_is_shown_as_it_was_reported() -> None:
    """C8: and when; all in values that JSON has."""
    clock = Clock(100.0)
    board = RunStatus("orders", "orders.lance", clock=clock)
    clock.now = 107.5
    tell(board, Totals(), progress(7, rows=500, seconds=0.25), versions=9, fragments=4)
    told = board.snapshot()
    assert json.loads(json.dumps(told)) == told
    assert told["epochs"] == [
        {
            "time": 107.5,
            "epoch": 7,
            "rows_in": 500,
            "rows_landed": 400,
            "null_rows": 0,
            "rows_per_second": 2000.0,
            "seconds": 0.25,
            "phases": {
                "reading ahead": 0.0125,
                "planning": 0.025,
                "noting": 0.025,
                "writing": 0.125,
                "committing": 0.05,
            },
            "version": 9,
            "was_skipped": False,
            "lag": {"files": 3, "bytes": 3_703_701},
            "versions": 9,
            "fragments": 4,
        }
    ]
    assert told["totals"] == {"epochs": 1, "skipped": 0, "empty": 0, "rows": 400, "version": 9, "null_rows": 0}


def test_a_snapshot_stays_as_it_was() -> None:
    """C8: the run continues to count in the same totals."""
    board, totals = RunStatus("orders", "orders.lance"), Totals()
    tell(board, totals, progress(0), versions=1, fragments=1)
    before = board.snapshot()
    totals.rows = 10**9
    assert board.snapshot()["totals"]["rows"] == before["totals"]["rows"] == 800
    tell(board, totals, progress(1), versions=2, fragments=2)
    assert len(before["epochs"]) == 1


def test_only_the_last_epochs_are_kept_and_the_totals_are_of_all() -> None:
    """C8: a run of weeks takes no more memory than one of minutes."""
    board, totals = RunStatus("orders", "orders.lance"), Totals()
    for epoch in range(LAST_EPOCHS + 3):
        tell(board, totals, progress(epoch), versions=None, fragments=None)
    told = board.snapshot()
    assert [each["epoch"] for each in told["epochs"]] == list(range(3, LAST_EPOCHS + 3))
    assert told["totals"]["epochs"] == LAST_EPOCHS + 3


def test_states_follow_the_run() -> None:
    """C8: and how long it took."""
    clock = Clock(10.0)
    board = RunStatus("orders", "orders.lance", clock=clock)
    states = [board.snapshot()["state"]]
    for step in (board.begin, board.stopping, board.end):
        step()
        states.append(board.snapshot()["state"])
    assert states == ["starting", "running", "stopping", "ended"]
    assert board.snapshot()["ended"] == 10.0
    assert board.is_over


def test_the_first_end_of_a_run_is_kept() -> None:
    """C8: a failure is not painted over by what comes after it, nor an end by a failure."""
    failed, ended = RunStatus("orders", "orders.lance"), RunStatus("orders", "orders.lance")
    failed.fail("the bucket is gone")
    failed.end()
    failed.begin()
    failed.stopping()
    assert (failed.snapshot()["state"], failed.snapshot()["message"]) == ("failed", "the bucket is gone")
    ended.end()
    ended.fail("Spark did not stop")
    assert (ended.snapshot()["state"], ended.snapshot()["message"]) == ("ended", None)


def test_a_stop_before_the_query_begins_stays_a_stop() -> None:
    """C8: Ctrl-C while Spark starts."""
    board = RunStatus("orders", "orders.lance")
    board.stopping()
    board.begin()
    assert board.snapshot()["state"] == "stopping"


def test_push_tables_are_asked_each_time() -> None:
    """C8: and one that cannot tell does not hide the others."""
    board = RunStatus("orders", "orders.lance")
    depths = iter([2, 9])
    board.watch("clicks", lambda: statistics(next(depths)))

    def broken() -> SinkStatistics:
        raise RuntimeError("closed")

    board.watch("broken", broken)
    assert board.snapshot()["push_tables"] == [
        {"name": "clicks", "queued": 2, "capacity": 16, "state": "open"},
        {"name": "broken", "queued": None, "capacity": None, "state": "unknown"},
    ]
    assert board.snapshot()["push_tables"][0]["queued"] == 9


def test_a_signal_in_the_middle_of_an_epoch_does_not_block() -> None:
    """C8: its handler runs on the thread that is inside the board."""
    board: RunStatus

    def clock() -> float:
        if told:
            board.stopping()
        return 0.0

    told: list[bool] = []
    board = RunStatus("orders", "orders.lance", clock=clock)
    told.append(True)
    thread = threading.Thread(
        target=tell, args=(board, Totals(), progress(0)), kwargs={"versions": 1, "fragments": 1}, daemon=True
    )
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    assert board.snapshot()["state"] == "stopping"


def test_a_table_that_is_slow_to_tell_does_not_hold_up_the_run() -> None:
    """C8: the run must never wait for a page."""
    board = RunStatus("orders", "orders.lance")
    asked, answer = threading.Event(), threading.Event()

    def slow() -> SinkStatistics:
        asked.set()
        answer.wait(10)
        return statistics(1)

    board.watch("clicks", slow)
    page = threading.Thread(target=board.snapshot, daemon=True)
    page.start()
    assert asked.wait(10)
    run = threading.Thread(target=board.begin, daemon=True)
    run.start()
    run.join(5)
    is_held_up = run.is_alive()
    answer.set()
    page.join(10)
    assert not is_held_up
