"""Every count that is printed agrees with its noun."""

from __future__ import annotations

import pytest

from headrace._counts import counted
from headrace.cli.display import _line, summary
from headrace.cli.verify import _summary
from headrace.pipeline.progress import Progress, Totals
from headrace.tables.commit.epochs import NO_EPOCHS, Epochs
from headrace.tables.manage.verify import Account


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (0, "row", "0 rows"),
        (1, "row", "1 row"),
        (1_000, "row", "1,000 rows"),
        (1, "batch", "1 batch"),
        (2, "batch", "2 batches"),
        (2, "such key", "2 such keys"),
    ],
)
def test_a_count_has_its_singular(number: int, noun: str, text: str) -> None:
    """C18: and large numbers have their commas."""
    assert counted(number, noun) == text


def progress(rows: int, lag: int) -> Progress:
    return Progress(0, rows, rows, 1.0, 1.0, {}, version=2, lag={"versions": lag})


def test_an_epoch_and_a_run_can_have_one_of_each() -> None:
    """C18: rows, versions of lag, epochs."""
    assert _line(progress(1, 1)) == "epoch 0: 1 row landed as version 2 in 1.00 s (1 in, 1/s), 1 version behind"
    assert _line(progress(2, 2)) == "epoch 0: 2 rows landed as version 2 in 1.00 s (2 in, 1/s), 2 versions behind"
    assert summary(Totals(epochs=1, rows=1)) == "Landed 1 row in 1 epoch."
    assert summary(Totals(epochs=2, rows=5)) == "Landed 5 rows in 2 epochs."


@pytest.mark.parametrize(
    ("checked", "empty", "text"),
    [
        ((0,), (), "epoch 0: landed once, 3 rows"),
        ((0,), (0,), "epoch 0: empty, 3 rows"),
        ((0, 1), (1,), "epochs 0-1: 1 landed once, 1 empty, 3 rows"),
    ],
)
def test_verify_can_check_one_epoch(checked: tuple[int, ...], empty: tuple[int, ...], text: str) -> None:
    """C6"""
    landed = Epochs.of(*checked) - Epochs.of(*empty)
    assert _summary(Account("q", Epochs.of(*checked), landed, Epochs.of(*empty) or NO_EPOCHS, 3, ())) == text
