"""The health check of a run: whether it needs attention, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.pipeline.listener import IDLE, STUCK
from headrace.ui.status import DOWN, FAILED, RUNNING


def health(status: Mapping[str, Any]) -> tuple[bool, str]:
    """Return whether a run is well, and a line that says what it does.

    A query that waits for rows is well. One that has failed, waits to start again, or is stuck is not.

    Args:
        status: A snapshot of the run's status.
    """
    state, now = status["state"], status["now"]
    if state == FAILED:
        return False, f"failed: {status['message']}"
    if state == DOWN:
        pause = None if status["next_try"] is None else max(0.0, status["next_try"] - now)
        again = "started again" if pause is None else f"next try in {pause:.0f} s"
        return False, f"down, {again}: {status['message']}"
    if state != RUNNING:
        return True, f"ok: {state}"
    since = f"{now - status['activity_since']:.0f} s"
    if status["activity"] == STUCK:
        return False, f"stuck for {since}: a trigger runs, and nothing changes"
    if status["activity"] == IDLE:
        return True, f"ok: idle, no rows for {now - (status['last_rows'] or status['started']):.0f} s"
    return True, "ok: running"
