"""What `run` prints for an epoch and at the end: as lines, as JSON, and in the live table."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest

from headrace.cli.display import display
from headrace.pipeline.progress import Progress, Totals

EPOCH = Progress(3, 1_010, 1_000, 505.0, 2.0, {"writing": 1.5}, 5)


def printed(capsys: pytest.CaptureFixture[str], *epochs: Progress, is_json: bool = False) -> list[str]:
    """Return the lines that a run of these epochs prints."""
    totals = Totals()
    with display(is_json=is_json) as shown:
        for progress in epochs:
            totals.add(progress)
            shown.epoch(progress, totals)
        shown.end(totals)
    return capsys.readouterr().out.splitlines()


def test_null_rows_are_in_the_line_of_their_epoch_and_in_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    """C25: with a hint at the documentation at the end."""
    first, second, end, hint = printed(capsys, EPOCH, replace(EPOCH, epoch=4, version=6, null_rows=3))
    assert first == "epoch 3: 1,000 rows landed as version 5 in 2.00 s (1,010 in, 505/s)"
    assert second.startswith("epoch 4: 1,000 rows landed as version 6, 3 of them null in every column, in 2.00 s")
    assert end == "Landed 2,000 rows in 2 epochs, 3 of them null in every column; the table is at version 6."
    assert hint.startswith("Hint: Spark reads a malformed line as such a row.")
    assert "Rows that Spark changes silently" in hint
    assert printed(capsys, EPOCH)[1:] == ["Landed 1,000 rows in 1 epochs; the table is at version 5."]


def test_null_rows_are_in_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    """C25: also where there are none."""
    nulls = replace(EPOCH, epoch=4, null_rows=3)
    events = [json.loads(line) for line in printed(capsys, EPOCH, nulls, nulls, is_json=True)]
    assert [event["null_rows"] for event in events] == [0, 3, 3, 6]


def test_null_rows_are_in_the_live_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """C25: beside the rows that landed."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "150")
    out = "\n".join(printed(capsys, replace(EPOCH, null_rows=3)))
    assert "1,000 (3 null)" in out
    assert "Landed 1,000 rows in 1 epochs, 3 of them null in every column;" in out


def test_null_rows_of_a_skipped_epoch_are_not_counted_again() -> None:
    """C25: as its rows are not."""
    totals = Totals()
    totals.add(replace(EPOCH, null_rows=3))
    totals.add(replace(EPOCH, null_rows=3, version=None, was_skipped=True))
    assert (totals.rows, totals.null_rows) == (1_000, 3)
