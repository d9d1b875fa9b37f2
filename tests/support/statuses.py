"""Statuses as a run would fill them."""

from __future__ import annotations

import math

from headrace.pipeline.progress import Progress, Totals
from headrace.ui import RunStatus


def progress(
    epoch: int, *, rows: int = 1_000, seconds: float = 0.5, skipped: bool = False, lag: int | None = 3
) -> Progress:
    parts = {"reading ahead": 0.05, "planning": 0.1, "noting": 0.1, "writing": 0.5, "committing": 0.2}
    return Progress(
        epoch,
        rows,
        0 if skipped else rows * 4 // 5,
        rows / seconds,
        seconds,
        {name: part * seconds for name, part in parts.items()},
        epoch + 2,
        skipped,
        {} if lag is None else {"files": lag, "bytes": lag * 1_234_567},
    )


def tell(board: RunStatus, totals: Totals, told: Progress, *, versions: int | None, fragments: int | None) -> None:
    """Report an epoch, as a job does."""
    totals.add(told)
    board.epoch(told, totals, versions=versions, fragments=fragments)


class Clock:
    """A clock that moves only when it is set."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def busy_board(epochs: int = 90, *, first: int = 0, clock: Clock | None = None) -> RunStatus:
    """Ups and downs, a replay after a crash, compaction now and then: as a run of some minutes looks."""
    clock = clock or Clock()
    board = RunStatus("orders-by-minute", "s3://lake/orders_by_minute.lance", clock=clock)
    board.begin()
    totals = Totals()
    lag, fragments = 40, 6
    for epoch in range(epochs):
        wave = 1 + 0.35 * math.sin(epoch / 7) + 0.12 * math.sin(epoch * 2.3)
        rows = int(24_000 * wave)
        seconds = 0.9 + 0.5 * wave + (1.4 if epoch % 20 == 13 else 0)
        fragments = 4 if epoch % 16 == 15 else fragments + 2
        lag = max(0, lag + int(6 * math.sin(epoch / 9)) - 1)
        clock.now += seconds + 0.4
        told = progress(first + epoch, rows=rows, seconds=seconds, skipped=epoch < 2, lag=lag)
        tell(board, totals, told, versions=min(50, 3 + epoch), fragments=fragments)
    return board
